"""Commands for RK3576: their order, and what is in no known program. What they compute is held by
the simulator of its registers, which is strict (tests/chip, the suite with ``chip=rk3576``).
"""

import functools
from dataclasses import replace

import pytest

from delegate.chip.register_model import Access
from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.errors import EncodingError
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import BnStage, BsStage, BufferId, CbufPlan, ConvTask, EwStage, Ref, Source
from delegate.lower.tiling.geometry import entries_per_row
from delegate.npu.regcmd import encode_task
from tests.npu import sample_tasks


def conv_task(*, is_depthwise: bool = False) -> ConvTask:
    """Return a tile of 3 x 3 taps and 64 channels, or kernels, of 40 columns and 7 rows."""
    place = functools.partial(Ref, BufferId.SCRATCH)
    bs = BsStage(
        alu=Source.MEMORY, mul=Source.MEMORY, ow=Source.OFF if is_depthwise else Source.MEMORY,
        shift=14, shift_negative=14, operands=place(1 << 22), scalars=place(1 << 23),
    )  # fmt: skip
    task = sample_tasks.conv_task(
        h=7, w=40, c=64, oc=64, depthwise=is_depthwise, pad_value=-3, bs=bs, source=place(64),
        weights=place(1 << 20), target=place(1 << 16), out=OutConvert(0x4ABC, 20, -7),
    )  # fmt: skip
    entries = entries_per_row(RK3576.cbuf, 40, 64)
    weights = task.weights
    if is_depthwise:  # two kernels, of which one counts
        size = 2 * weights.total_bytes
        weights = replace(weights, total_bytes=size, bytes_per_kernel=size)
    return replace(
        task, feature=replace(task.feature, entries_per_row=entries), weights=weights,
        cbuf=CbufPlan(4, 3, weight_reuse=False),
    )  # fmt: skip


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


def test_streams_arm_every_block():
    pointers = ("CNA.S_POINTER", "CORE.S_POINTER", "DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER")
    assert [RK3576.registers.register(name).access for name in pointers] == [Access.STREAM] * 4
    assert [RK3588.registers.register(name).access for name in pointers[:2]] == [Access.HOST] * 2
