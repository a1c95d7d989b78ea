"""Encoded words against those of correct programs."""

import dataclasses

import pytest

from delegate.chip.rk3588 import RK3588
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import BsStage, BufferId, EwStage, Ref
from delegate.npu.regcmd import encode_task, fetch_amount, segment_stride_words, unpack_word
from delegate.npu.rk3588.encoder import feature_grains
from tests.loops import for_each
from tests.npu.sample_tasks import add_task, conv_task
from tests.npu.test_encode_captures import streams
from tests.shared_folder import stream_files


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


def test_surface_stride_wraps_to_28_bits_for_maps_of_few_rows():
    one = conv_task(h=1, w=1, kh=1, kw=1, pad_top=0, pad_left=0)
    feature = dataclasses.replace(one.feature, surface_stride_bytes=16)
    found, _ = values(dataclasses.replace(one, feature=feature))
    assert found["CNA.DMA_CON2"] == 0x0FFFFFFD
    assert values(conv_task(h=48, w=44))[0]["CNA.DMA_CON2"] == 44 * 44


def test_real_channels_are_kept_modulo_64():
    assert values(conv_task(c=96))[0]["CNA.DATA_SIZE1"] == 31 << 16 | 96
    assert values(conv_task(c=3))[0]["CNA.DATA_SIZE1"] == 2 << 16 | 16


def test_grains_cover_the_tile_or_a_worthwhile_prefetch():
    feature = conv_task(h=7, w=5, pad_top=1).feature
    assert feature_grains(feature, 3, 1) == 11
    big = dataclasses.replace(feature, height=200, entries_per_row=48)
    assert feature_grains(big, 3, 1) == 23
    huge = dataclasses.replace(feature, height=200, entries_per_row=2000)
    assert feature_grains(huge, 7, 2) == 9


MAXIMA = [path for path in stream_files() if path.stem == "max5_ew"]


@for_each("number, height, width", [(0, 20, 20), (3, 20, 20), (5, 16, 16)])
def test_maxima_are_those_of_a_stream_that_two_simulators_agree_on(number, height, width):
    """The stream has 20 x 28 pixels with a border; the last ones read rows of 20, 16 of each."""
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
