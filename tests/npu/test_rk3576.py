"""Commands for RK3576: their order, and what is in no known program. What they compute is held by
the simulator of its registers, which is strict (tests/chip, the suite with ``chip=rk3576``).
"""

from dataclasses import replace

import pytest

from delegate.chip.register_model import Access
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.errors import EncodingError
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import (
    BnStage,
    BsStage,
    BufferId,
    CbufPlan,
    ConvTask,
    EwStage,
    FeatureInput,
    OutputCube,
    Ref,
    Source,
    Weights,
)
from delegate.lower.tiling.geometry import entries_per_row
from delegate.npu.regcmd import encode_task


def conv_task(*, is_depthwise: bool = False) -> ConvTask:
    """Return a tile of 3 x 3 taps and 64 channels, or kernels, of 40 columns and 7 rows."""
    rows, columns, channels = 7, 40, 64
    per_kernel = 9 * channels
    return ConvTask(
        tile="",
        feature=FeatureInput(
            source=Ref(BufferId.SCRATCH, 64),
            height=rows,
            width=columns,
            channels=channels,
            channels_real=channels,
            line_stride_bytes=16 * columns,
            surface_stride_bytes=16 * rows * columns,
            entries_per_row=entries_per_row(RK3576.cbuf, columns, channels),
            pad_top=1,
            pad_left=1,
            pad_value=-3,
        ),
        weights=Weights(
            Ref(BufferId.SCRATCH, 1 << 20),
            per_kernel * (2 if is_depthwise else channels),
            2 * per_kernel if is_depthwise else per_kernel,
            *(1 if is_depthwise else channels, 3, 3),
        ),
        cbuf=CbufPlan(4, 3, weight_reuse=False),
        output=OutputCube(
            target=Ref(BufferId.SCRATCH, 1 << 16),
            height=rows,
            width=columns,
            channels=channels,
            channels_real=channels,
            surface_stride_bytes=16 * rows * columns,
            surfaces_per_group=4 if is_depthwise else 2,
        ),
        bs=BsStage(
            alu=Source.MEMORY,
            mul=Source.MEMORY,
            ow=Source.OFF if is_depthwise else Source.MEMORY,
            shift=14,
            shift_negative=14,
            operands=Ref(BufferId.SCRATCH, 1 << 22),
            scalars=Ref(BufferId.SCRATCH, 1 << 23),
        ),
        out_convert=OutConvert(0x4ABC, 20, -7),
        is_depthwise=is_depthwise,
    )


def test_registers_are_in_the_order_of_the_vendors_programs():
    words = encode_task(RK3576, "layer", conv_task()).words
    offsets = [word & 0xFFFF for word in words]
    assert offsets[:5] == [0x1004, 0x3004, 0x1038, 0x4004, 0x5004]
    assert offsets[5:] == sorted(offsets[5:])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda t: replace(t, weights=replace(t.weights, kw=t.weights.kh + 1)), "kernels, strides"),
        (lambda t: replace(t, dilations=(1, 2)), "or dilations that differ"),
        (lambda t: replace(t, strides=(1, 2)), "or dilations that differ"),
        (lambda t: replace(t, spread=(2, 1)), "CONV_MODE"),
        (
            lambda t: replace(t, feature=replace(t.feature, line_stride_bytes=1 << 14)),
            "a part of the columns",
        ),
        (lambda t: replace(t, cbuf=CbufPlan(5, 2, weight_reuse=False)), "DATA_BANK"),
        (lambda t: replace(t, cbuf=CbufPlan(4, 3, weight_reuse=True)), "weights kept"),
        (lambda t: replace(t, output=replace(t.output, element_bytes=4)), "int32 results"),
        (lambda t: replace(t, bs=replace(t.bs, ow=Source.REGISTER)), "BS_CFG"),
        (lambda t: replace(t, bs=replace(t.bs, scalars=None)), "numbers of BS"),
        (lambda t: replace(t, bs=replace(t.bs, relu=True)), "BS_MIN"),
        (lambda t: replace(t, bn=BnStage(alu_operand=1)), "BN_CFG"),
        (lambda t: replace(t, ew=EwStage(operation=EwOperation.ADD)), "EW_CFG"),
        (lambda t: replace(t, out_convert=replace(t.out_convert, ties_away=True)), "OUT_CVT_SHIFT"),
    ],
)
def test_what_is_in_no_known_program_is_refused(change, place):
    encode_task(RK3576, "layer", conv_task())
    with pytest.raises(EncodingError, match=place):
        encode_task(RK3576, "layer", change(conv_task()))


def test_surfaces_of_depthwise_results_are_multiples_of_four_pixels():
    task = conv_task(is_depthwise=True)
    odd = replace(task.output, surface_stride_bytes=task.output.surface_stride_bytes + 16)
    with pytest.raises(EncodingError, match="multiples of 4 pixels"):
        encode_task(RK3576, "layer", replace(task, output=odd))


def test_the_map_is_consistent_and_streams_arm_every_block():
    for item in RK3576.registers.by_name.values():
        mask = 0
        for field in item.fields:
            assert not mask & field.mask, item.full_name
            mask |= field.mask
    pointers = ("CNA.S_POINTER", "CORE.S_POINTER", "DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER")
    assert [RK3576.registers.register(name).access for name in pointers] == [Access.STREAM] * 4
    assert [RK3588.registers.register(name).access for name in pointers[:2]] == [Access.HOST] * 2
