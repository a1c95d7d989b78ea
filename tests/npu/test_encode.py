"""Encoded words against those of correct programs."""

from __future__ import annotations

import dataclasses

import pytest

from delegate.chip.rk3588 import RK3588
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import BnStage, BsStage, BufferId, EwStage, Ref, Source
from delegate.npu.regcmd import (
    encode_task,
    fetch_amount,
    segment_stride_words,
    unpack_word,
)
from delegate.npu.rk3588.encoder import feature_grains
from tests.loops import for_each
from tests.npu.sample_tasks import add_task, conv_task, per_channel, surface_bytes
from tests.npu.test_encode_captures import streams
from tests.shared_folder import stream_files

OPERANDS = Ref(BufferId.CONSTANTS, 256)
PER_CHANNEL = per_channel(OPERANDS)


def values(task):
    """BLOCK.REGISTER -> value of the last write, and the segment."""
    segment = encode_task(RK3588, "layer", task)
    commands = [unpack_word(word) for word in segment.words]
    assert all(command.register is not None for command in commands)
    return {command.register.full_name: command.value for command in commands}, segment


def test_a_convolution_has_126_commands_in_the_vendor_order():
    _, segment = values(conv_task())
    names = [unpack_word(word).register.full_name for word in segment.words]
    assert len(names) == 126
    assert names[:9] == [
        "CNA.CBUF_CON0",
        "CNA.DCOMP_REGNUM",
        "CNA.DCOMP_CTRL",
        "CNA.CONV_CON1",
        "DPU.S_POINTER",
        "DPU_RDMA.RDMA_S_POINTER",
        "CNA.CONV_CON1",
        "CNA.CONV_CON2",
        "CNA.CONV_CON3",
    ]
    repeated = {name for name in names if names.count(name) > 1}
    assert repeated == {"CNA.CBUF_CON0", "CNA.DCOMP_REGNUM", "CNA.DCOMP_CTRL", "CNA.CONV_CON1"}
    assert (segment.enable_mask, segment.int_mask) == (0x1D, 0x300)


def test_an_elementwise_task_has_69_commands_of_dpu_and_rdma():
    _, segment = values(add_task())
    blocks = {unpack_word(word).register.block for word in segment.words}
    assert len(segment.words) == 69
    assert blocks == {"DPU", "DPU_RDMA"}
    assert (segment.enable_mask, segment.int_mask) == (0x18, 0x300)


def test_fetch_amounts_and_strides_are_those_of_known_programs():
    # body words -> amount and stride in bytes, as read from the vendor's programs
    amounts = {126: 0x40, 122: 0x3E, 108: 0x37, 104: 0x35, 86: 0x2C, 69: 0x24, 26: 0xE, 17: 0xA}
    assert {body: fetch_amount(body) for body in amounts} == amounts
    strides = {126: 0x440, 122: 0x400, 108: 0x380, 104: 0x380, 26: 0x100, 17: 0xC0}
    assert {body: segment_stride_words(body) * 8 for body in strides} == strides


def test_words_of_a_dense_per_tensor_convolution():
    found, _ = values(conv_task(pad_value=-128))
    expected = {
        "CNA.CONV_CON1": 0x0,
        "CNA.CVT_CON0": 0xB,
        "CNA.CVT_CON1": 0x10000,
        "CNA.DMA_CON0": 0xF000F,
        "CNA.PAD_CON0": 0x11,
        "CNA.PAD_CON1": 0xFFFFFF80,
        "CNA.CBUF_CON0": 0x84,
        "CORE.MISC_CFG": 0x1,
        "DPU.S_POINTER": 0xE,
        "DPU_RDMA.RDMA_S_POINTER": 0xE,
        "DPU.FEATURE_MODE_CFG": 0x1E4,
        "DPU.DATA_FORMAT": 0x0,
        "DPU.BS_CFG": 0x20150,
        "DPU.BS_MUL_CFG": 0x0,
        "DPU.BS_OW_CFG": 0x124,
        "DPU.BN_CFG": 0x53,
        "DPU.EW_CFG": 0x383,
        "DPU.EW_CVT_SCALE_VALUE": 0x1,
        "DPU_RDMA.RDMA_BRDMA_CFG": 0x02,
        "DPU_RDMA.RDMA_ERDMA_CFG": 0x1,
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": 0x7810,
        "DPU_RDMA.RDMA_WEIGHT": 0x01010101,
    }
    assert {name: found[name] for name in expected} == expected


def test_words_of_a_dense_per_channel_convolution():
    found, _ = values(conv_task(bs=PER_CHANNEL))
    expected = {
        "DPU.BS_CFG": 0x20140,
        "DPU.BS_MUL_CFG": 0x0E01,
        "DPU.DATA_FORMAT": 0xE0,
        "DPU.BS_OW_CFG": 0x125,
        "DPU.BS_OW_OP": 0,
        "DPU_RDMA.RDMA_BRDMA_CFG": 0x0E,
    }
    assert {name: found[name] for name in expected} == expected


def test_words_of_depthwise_convolutions():
    per_tensor, _ = values(conv_task(c=24, oc=24, depthwise=True, pad_value=-13))
    expected = {
        "CNA.CONV_CON1": 0x3,
        "CNA.PAD_CON1": 0xFFFFF3F3,
        "CORE.MISC_CFG": 0x3,
        "DPU.FEATURE_MODE_CFG": 0x1FC,
        "DPU.BS_OW_CFG": 0x36C,
        "DPU.DATA_CUBE_CHANNEL": 23 << 16 | 63,
        "DPU.SURFACE_ADD": 4 * surface_bytes(7, 5),
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": 0x7816,
        "CNA.WEIGHT_SIZE0": 9 * 32,
        "CNA.WEIGHT_SIZE1": 9 * 32,
        "CNA.WEIGHT_SIZE2": 3 << 24 | 3 << 16 | 1,
    }
    assert {name: per_tensor[name] for name in expected} == expected
    per_channel, _ = values(conv_task(c=24, oc=24, depthwise=True, bs=PER_CHANNEL))
    assert per_channel["DPU.BS_OW_CFG"] == 0x36D


@for_each(
    "pad, dense, depthwise",
    [
        (-128, 0xFFFFFF80, 0xFFFF8080),
        (4, 0x4, 0x0404),
        (3, 0x3, 0x0303),
        (-13, 0xFFFFFFF3, 0xFFFFF3F3),
    ],
)
def test_pad_value_is_sign_extended_and_doubled_for_depthwise(pad, dense, depthwise):
    assert values(conv_task(pad_value=pad))[0]["CNA.PAD_CON1"] == dense
    assert values(conv_task(pad_value=pad, depthwise=True))[0]["CNA.PAD_CON1"] == depthwise


@pytest.mark.parametrize(
    ("bn", "config"),
    [
        (BnStage(), 0x53),
        (BnStage(relu=True), 0x12),
        (BnStage(relu=True, relux_max=6000), 0x92),
        (BnStage(alu_operand=-50, relu=True, relux_max=900), 0x20090),
        (BnStage(mul=Source.REGISTER, mul_operand=5, shift=2, shift_negative=2), 0x42),
    ],
)
def test_bn_config_words(bn, config):
    found, _ = values(conv_task(bn=bn))
    assert found["DPU.BN_CFG"] == config
    assert found["DPU.BN_ALU_CFG"] == (bn.alu_operand or 0) & 0xFFFFFFFF
    assert found["DPU.BN_RELUX_CMP_VALUE"] == (bn.relux_max or 0)
    assert found["DPU.DATA_FORMAT"] == bn.shift_negative << 10


@for_each("relu, config", [(False, 0x904202C0), (True, 0x904200C0)])
@for_each("depthwise, mode", [(False, 0x7D00), (True, 0x7D06)])
def test_words_of_a_fused_operand(relu, config, depthwise, mode):
    pitch = surface_bytes(9, 5)
    ew = EwStage(
        operand=Ref(BufferId.SCRATCH, 160),
        surface_stride_bytes=pitch,
        offset=13,
        scale=-0x4000,
        shift=7,
        relu=relu,
    )
    found, segment = values(conv_task(ew=ew, depthwise=depthwise))
    notch = 2 * pitch - 7 * 5 * 16
    expected = {
        "DPU.EW_CFG": config,
        "DPU.EW_CVT_OFFSET_VALUE": 13,
        "DPU.EW_CVT_SCALE_VALUE": 7 << 16 | 0xC000,
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": mode,
        "DPU_RDMA.RDMA_ERDMA_CFG": 0x40000004,
        "DPU_RDMA.RDMA_SRC_BASE_ADDR": 160,
        "DPU_RDMA.RDMA_EW_BASE_ADDR": 160 + pitch,
        "DPU_RDMA.RDMA_EW_SURF_STRIDE": pitch,
        "DPU_RDMA.RDMA_SURF_NOTCH": notch,
        "DPU_RDMA.RDMA_EW_SURF_NOTCH": notch,
    }
    assert {name: found[name] for name in expected} == expected
    places = [slot.target for slot in segment.addresses]
    assert Ref(BufferId.SCRATCH, 160) in places
    assert Ref(BufferId.SCRATCH, 160 + pitch) in places


def test_words_of_a_bn_multiplier_from_memory():
    operands = Ref(BufferId.CONSTANTS, 512)
    bn = BnStage(mul=Source.MEMORY, shift=9, shift_negative=8, operands=operands)
    found, segment = values(conv_task(bn=bn))
    assert found["DPU.BN_CFG"] == 0x42
    assert found["DPU.BN_MUL_CFG"] == 9 << 8 | 1
    assert found["DPU_RDMA.RDMA_NRDMA_CFG"] == 0x08
    assert operands in [slot.target for slot in segment.addresses]


def test_out_convert_rounds_ties_away_when_asked():
    even, _ = values(conv_task(out=OutConvert(0x4000, 20, 0)))
    away, _ = values(conv_task(out=OutConvert(0x4000, 20, 0, ties_away=True)))
    assert (even["DPU.OUT_CVT_SHIFT"], away["DPU.OUT_CVT_SHIFT"]) == (20, 1 << 30 | 20)


def test_ew_clamps_above_when_asked():
    found, _ = values(conv_task(ew=EwStage(register_operand=1, relu=True, relux_max=600)))
    assert found["DPU.EW_CFG"] == 0x10020380 & ~(1 << 9) | 1 << 10
    assert found["DPU.EW_RELUX_CMP_VALUE"] == 600


def test_words_of_a_register_operand():
    found, _ = values(conv_task(ew=EwStage(register_operand=-77)))
    assert found["DPU.EW_CFG"] == 0x10020380
    assert [found[f"DPU.EW_OP_VALUE_{i}"] for i in range(8)] == [0xFFFFFFB3] * 8
    assert found["DPU_RDMA.RDMA_FEATURE_MODE_CFG"] == 0x7810
    assert found["DPU_RDMA.RDMA_ERDMA_CFG"] == 0x1


def test_words_of_an_elementwise_addition():
    found, _ = values(add_task(h=7, w=5, c=48))
    pitch = surface_bytes(7, 5)
    expected = {
        "DPU.FEATURE_MODE_CFG": 0x1E5,
        "DPU.BS_CFG": 0x20040,
        "DPU.BS_ALU_CFG": 3,
        "DPU.BS_MUL_CFG": 0x4000 << 16 | 2 << 8,
        "DPU.DATA_FORMAT": 2 << 4,
        "DPU.BS_OW_CFG": 0x2,
        "DPU.EW_CFG": 0x904202C0,
        "DPU.SURFACE_ADD": pitch,
        "DPU.DATA_CUBE_CHANNEL": 47 << 16 | 47,
        "DPU_RDMA.RDMA_BRDMA_CFG": 0,
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": 0x7801,
        "DPU_RDMA.RDMA_ERDMA_CFG": 0x40000004,
        "DPU_RDMA.RDMA_SRC_BASE_ADDR": 0,
        "DPU_RDMA.RDMA_EW_BASE_ADDR": 3 * pitch,
        "DPU_RDMA.RDMA_SURF_NOTCH": pitch - 7 * 5 * 16,
        "DPU_RDMA.RDMA_EW_SURF_NOTCH": pitch - 7 * 5 * 16,
        "DPU_RDMA.RDMA_EW_SURF_STRIDE": pitch,
    }
    assert {name: found[name] for name in expected} == expected


def test_surface_stride_wraps_to_28_bits_for_maps_of_few_rows():
    one = conv_task(h=1, w=1, kh=1, kw=1, pad_top=0, pad_left=0)
    feature = dataclasses.replace(one.feature, surface_stride_bytes=16)
    found, _ = values(dataclasses.replace(one, feature=feature))
    assert found["CNA.DMA_CON2"] == 0x0FFFFFFD
    assert values(conv_task(h=48, w=44))[0]["CNA.DMA_CON2"] == 44 * 44


def test_real_channels_are_kept_modulo_64():
    assert values(conv_task(c=96))[0]["CNA.DATA_SIZE1"] == 31 << 16 | 96
    assert values(conv_task(c=3))[0]["CNA.DATA_SIZE1"] == 2 << 16 | 16


def test_strides_and_dilation():
    found, _ = values(conv_task(stride=2, dilation=3))
    assert found["CNA.CONV_CON3"] == 2 << 21 | 2 << 16 | 2 << 3 | 2


def test_grains_cover_the_tile_or_a_worthwhile_prefetch():
    feature = conv_task(h=7, w=5, pad_top=1).feature
    assert feature_grains(feature, 3, 1) == 11
    big = dataclasses.replace(feature, height=200, entries_per_row=48)
    assert feature_grains(big, 3, 1) == 23
    huge = dataclasses.replace(feature, height=200, entries_per_row=2000)
    assert feature_grains(huge, 7, 2) == 9


def test_weight_reuse_sets_bit_13():
    cbuf = dataclasses.replace(conv_task().cbuf, weight_reuse=True)
    assert values(dataclasses.replace(conv_task(), cbuf=cbuf))[0]["CNA.CBUF_CON0"] == 0x2084


def test_whole_rows_are_fetched_four_at_once_and_windows_one_by_one():
    """LINE_STRIDE = 4 * W and SURF_STRIDE from there; or GROUP_LINE_OFF and pixels of one row."""
    pitch = surface_bytes(7, 5)
    task = conv_task()
    whole = values(task)[0]
    assert whole["CNA.CONV_CON1"] == 0
    assert whole["CNA.DMA_CON1"] == 4 * 5
    assert whole["CNA.DMA_CON2"] == pitch // 16 - 4 * 5
    narrow = dataclasses.replace(task.feature, width=4)
    window = values(dataclasses.replace(task, feature=narrow))[0]
    assert window["CNA.CONV_CON1"] == 1 << 29
    assert window["CNA.DMA_CON1"] == 5
    assert window["CNA.DMA_CON2"] == pitch // 16 - 4
    assert window["CNA.FC_DATA_SIZE0"] == 4 << 16 | 7


def test_an_operand_per_channel_has_surfaces_of_one_pixel():
    place = Ref(BufferId.CONSTANTS, 64)
    ew = EwStage(operand=place, per_channel=True, operation=EwOperation.MULTIPLY)
    found = values(conv_task(ew=ew))[0]
    assert found["DPU_RDMA.RDMA_EW_SURF_STRIDE"] == 16


MAXIMA = [path for path in stream_files() if path.stem == "max5_ew"]


@for_each("number, height, width", [(0, 20, 20), (3, 20, 20), (5, 16, 16)])
def test_maxima_are_those_of_a_stream_that_two_simulators_agree_on(number, height, width):
    """The stream is for 20 x 28 pixels with a border; the last ones read rows of 20 pixels, 16 of
    each.
    """
    if not MAXIMA:
        pytest.skip("no folder of streams")
    words = list(streams(MAXIMA[0]))[number]
    theirs = {
        c.register.full_name: c.value for c in map(unpack_word, map(int, words)) if c.register
    }
    target = theirs["DPU.DST_SURF_STRIDE"]
    task = dataclasses.replace(
        add_task(h=height, w=width, c=32, bs=BsStage(), out=OutConvert(1, 0, 0)),
        source_surface_stride_bytes=28 * 20 * 16,
        source_line_stride_bytes=20 * 16,
        ew=EwStage(
            operand=Ref(BufferId.INPUT, 16),
            operation=EwOperation.MAX,
            surface_stride_bytes=28 * 20 * 16,
            line_stride_bytes=20 * 16,
        ),
    )
    cube = dataclasses.replace(task.output, surface_stride_bytes=target)
    ours = values(dataclasses.replace(task, output=cube))[0]
    # Their maxima bypass the operand's converter; known ones convert by 1.
    assert ours["DPU.EW_CFG"] == 0x904002C0
    skipped = ("PC.", "ENABLE.", "SYNC.", "DPU.EW_CFG")
    for name, value in theirs.items():
        if not name.endswith("BASE_ADDR") and not name.startswith(skipped):
            assert ours[name] == value, name
