"""Tests what the encoder refuses, and how it says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.chip.rk3588 import RK3588
from delegate.chip.rk3588.registers import REGISTERS
from delegate.errors import EncodingError
from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.task import BnStage, BsStage, BufferId, EwStage, Ref, Source
from delegate.npu.regcmd import RegCmdWriter, encode_task, unpack_word
from tests.loops import for_each
from tests.npu.sample_tasks import add_task, changed, conv_task

OPERANDS = Ref(BufferId.CONSTANTS, 256)


def message(task):
    with pytest.raises(EncodingError) as caught:
        encode_task(RK3588, "12 CONV_2D", task)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_an_overflow_names_layer_tile_field_value_and_limit():
    text = message(conv_task(h=2, w=2048, tile="rows 4..9"))
    for part in ("12 CONV_2D", "rows 4..9", "CNA.DATA_SIZE0.DATAIN_WIDTH", "2048", "0..2047"):
        assert part in text


@pytest.mark.parametrize(
    ("task", "field"),
    [
        (conv_task(kh=32), "CNA.WEIGHT_SIZE2.WEIGHT_HEIGHT"),
        (conv_task(oc=16384), "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS"),
        (conv_task(stride=8), "CNA.CONV_CON3.CONV_Y_STRIDE"),
        (conv_task(stride=0, oh=7, ow=5), "CNA.CONV_CON3.CONV_Y_STRIDE"),
        (conv_task(dilation=33), "CNA.CONV_CON3.ATROUS_Y_DILATION"),
        (conv_task(pad_top=16), "CNA.PAD_CON0.PAD_TOP"),
        (conv_task(pad_value=-129), "CNA.PAD_CON1.PAD_VALUE"),
        (conv_task(out=OutConvert(0x8000, 20, 0)), "DPU.OUT_CVT_SCALE.OUT_CVT_SCALE"),
        (conv_task(out=OutConvert(0x4000, 64, 0)), "DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT"),
        (conv_task(bn=BnStage(relux_max=6)), "DPU.BN_CFG.BN_RELUX_EN"),
        (conv_task(ew=EwStage(relux_max=6)), "DPU.EW_CFG.EW_RELUX_EN"),
        (conv_task(bn=BnStage(mul=Source.MEMORY)), "DPU_RDMA.RDMA_BN_BASE_ADDR.BN_BASE_ADDR"),
        (
            conv_task(bn=BnStage(mul=Source.REGISTER, mul_operand=-1)),
            "DPU.BN_MUL_CFG.BN_MUL_OPERAND",
        ),
        (conv_task(bn=BnStage(shift=3)), "DPU.BN_MUL_CFG.BN_MUL_SHIFT_VALUE"),
        (conv_task(bs=BsStage(mul=Source.MEMORY, operands=OPERANDS)), "DPU.BS_CFG.BS_ALU_SRC"),
        (add_task(bs=BsStage(mul=Source.MEMORY, operands=OPERANDS)), "DPU.BS_MUL_CFG.BS_MUL_SRC"),
        (conv_task(bs=BsStage(alu=Source.MEMORY)), "DPU_RDMA.RDMA_BS_BASE_ADDR.BS_BASE_ADDR"),
        (add_task(bs=BsStage(ow=Source.REGISTER, ow_operand=1)), "DPU.BS_OW_CFG.OD_BYPASS"),
        (conv_task(target=Ref(BufferId.OUTPUT, 8)), "DPU.DST_BASE_ADDR"),
        (
            add_task(ew=EwStage(operand=Ref(BufferId.INPUT, 0), surface_stride_bytes=16)),
            "DPU_RDMA.RDMA_EW_SURF_NOTCH.EW_SURF_NOTCH",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_field_name(task, field):
    assert field in message(task)


def with_kernels(task, kernels):
    size = task.weights.bytes_per_kernel * kernels
    return changed(task, "weights", kernels=kernels, total_bytes=size)


@for_each("spread", [(1, 2), (2, 1), (2, 2), (4, 4), (8, 8)])
def test_pixels_apart_by_a_live_number_with_little_padding_are_taken(spread):
    assert encode_task(RK3588, "", conv_task(spread=spread, pad_left=11)).words


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (changed(conv_task(), "", weight_banks=9), "13 banks; the limit is 12"),
        (changed(conv_task(), "", data_banks=0), "gives no bank"),
        (
            changed(conv_task(h=410, w=5), "", data_banks=1),
            "DATA_BANK = 1 cannot hold 52480 bytes",
        ),
        (
            changed(conv_task(c=512, oc=512, weight_reuse=True), "", weight_banks=2),
            "WEIGHT_REUSE needs 2359296 bytes of weights in 2 banks",
        ),
        (changed(conv_task(), "feature", entries_per_row=2049), "2049 exceeds the limit 1..2048"),
        (changed(conv_task(), "output", channels=48), "48 is not whole groups of 32"),
        (changed(conv_task(depthwise=True), "output", channels=32), "32 is not whole groups of 64"),
        (changed(conv_task(), "output", surfaces_per_group=4), "is not whole groups of 32"),
        (changed(add_task(), "output", channels=17), "17 is not whole groups of 16"),
        (
            changed(conv_task(), "output", channels_real=33),
            "ORIG_CHANNEL = 33 exceeds the limit 1..32",
        ),
        (
            changed(conv_task(oc=64), "output", channels=32, channels_real=32),
            "64 exceeds the 32 channels",
        ),
        (
            changed(
                conv_task(h=500, w=1, c=64, kh=1, kw=1, pad_top=0, pad_left=0), "", data_banks=1
            ),
            "DATA_BANK = 1 cannot hold 32000 bytes of input rows of one column",
        ),
        (conv_task(c=1024, oc=96), "WEIGHT_BANK = 8 cannot hold two groups of kernels of 294912"),
        (
            changed(conv_task(h=1, w=1024, c=192), "feature", entries_per_row=2048),
            "DATAIN_CHANNEL = 192 is too much beside 1024 columns",
        ),
        (with_kernels(conv_task(), 31), "WEIGHT_KERNELS = 31 is not an even number"),
        (conv_task(oc=4098), "WEIGHT_KERNELS = 4098 is not an even number up to 4096"),
        (conv_task(ow=4097), "DATA_CUBE_WIDTH.WIDTH = 4097 exceeds the limit 4096"),
        (add_task(w=4097), "DATA_CUBE_WIDTH.WIDTH = 4097 exceeds the limit 4096"),
        (add_task(c=4112), "DATA_CUBE_CHANNEL.CHANNEL = 4112 exceeds the limit 4096"),
        (conv_task(spread=(3, 3)), "DECONV_Y_STRIDE = 3 is none of (1, 2, 4, 8)"),
        (conv_task(spread=(1, 2), pad_left=12), "= 12 exceeds 11 beside pixels that lie apart"),
        (changed(conv_task(), "feature", channels=24), "24 is not a multiple of 16"),
        (changed(conv_task(), "feature", surface_stride_bytes=600), "600 bytes per surface"),
    ],
)
def test_what_no_single_field_shows_is_refused(task, text):
    assert text in message(task)


def test_a_register_is_written_once_unless_meant():
    writer = RegCmdWriter("layer", "")
    writer.write("CNA.FC_CON0")
    with pytest.raises(EncodingError, match=r"CNA.FC_CON0 is written twice"):
        writer.write("CNA.FC_CON0")
    writer.rewrite("CNA.FC_CON0")


def test_kernel_registers_are_refused():
    writer = RegCmdWriter("layer", "")
    with pytest.raises(EncodingError, match=r"CORE.S_POINTER must not be written"):
        writer.write("CORE.S_POINTER", POINTER=1)


@given(
    st.sampled_from(
        [
            "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL",
            "CNA.DMA_CON1.LINE_STRIDE",
            "CNA.DMA_CON2.SURF_STRIDE",
            "DPU.DATA_CUBE_CHANNEL.ORIG_CHANNEL",
            "DPU.BS_MUL_CFG.BS_MUL_OPERAND",
            "DPU.DST_SURF_STRIDE.DST_SURF_STRIDE",
            "DPU.OUT_CVT_OFFSET.OUT_CVT_OFFSET",
        ]
    ),
    st.integers(-(1 << 33), 1 << 33),
)
def test_a_field_holds_a_value_exactly_or_refuses_it(name, value):
    block, row, field_name = name.split(".")
    field = REGISTERS.by_name[f"{block}.{row}"].field(field_name)
    low, high = field.limits
    writer = RegCmdWriter("layer", "")
    if low <= value <= high and value % field.unit == 0:
        writer.write(f"{block}.{row}", **{field_name: value})
        command = unpack_word(writer.finish(0, 0).words[0])
        assert field.decode(command.value) == value
        assert command.value & ~field.mask == 0
    else:
        with pytest.raises(EncodingError, match=field_name):
            writer.write(f"{block}.{row}", **{field_name: value})
