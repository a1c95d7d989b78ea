"""Commands for RK3576: their order, loads of tables, and what is in no known program. The
simulator of its registers, which is strict, holds what they compute (tests/chip, the suite with
``chip=rk3576``).
"""

import functools
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
    ConvTask,
    ElementwiseTask,
    EwStage,
    OutputCube,
    Ref,
    Source,
    TableLoad,
    TableUse,
)
from delegate.npu.regcmd import encode_task
from tests.npu import sample_tasks

ALONE = ("sum", "product", "copy", "function")
"""Tasks without a convolution."""
ENTRIES = range(0x4100, 0x4108)


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
    entries = 40 * 64 // RK3576.cbuf.entry_bytes
    weights = task.weights
    if is_depthwise:  # two kernels, of which one counts
        size = 2 * weights.total_bytes
        weights = replace(weights, total_bytes=size, bytes_per_kernel=size)
    return replace(
        task, feature=replace(task.feature, entries_per_row=entries), weights=weights,
        data_banks=4,
        weight_banks=3,
    )  # fmt: skip


def task_alone(kind: str) -> ElementwiseTask:
    """Return a task of 5 x 7 pixels of 48 channels; ``kind``: one of ALONE."""
    stride, has_operand = 16 * 5 * 7, kind in ("sum", "product")
    operation = EwOperation.ADD if kind == "sum" else EwOperation.MULTIPLY
    ew = EwStage(operand=Ref(BufferId.SCRATCH, 1 << 20), operation=operation,
                 surface_stride_bytes=stride, offset=5)  # fmt: skip
    scales = kind in ("sum", "function")
    return ElementwiseTask(
        tile="",
        source=Ref(BufferId.SCRATCH, 64),
        source_surface_stride_bytes=stride,
        output=OutputCube(Ref(BufferId.SCRATCH, 1 << 16), 5, 7, 48, 48, stride, 1),
        bs=BsStage(
            alu=Source.OFF if kind == "copy" else Source.REGISTER,
            alu_operand=3,
            mul=Source.REGISTER if scales else Source.OFF,
            mul_operand=32,
            scalars=Ref(BufferId.CONSTANTS, 1 << 12),
        ),
        out_convert=OutConvert(0x4ABC, 20, -7),
        ew=ew if has_operand else None,
        table=TableUse((bytes(256),), 0) if kind == "function" else None,
    )


def _read(words) -> dict[int, int]:
    found: dict[int, int] = {}
    for word in words:
        offset, value = word & 0xFFFF, word >> 16 & 0xFFFFFFFF
        assert word >> 48 == {4: 0x1001, 5: 0x2001}[offset >> 12]
        assert found.setdefault(offset, value) == value
    return found


def test_registers_are_in_the_order_of_the_vendors_programs():
    words = encode_task(RK3576, "layer", conv_task()).words
    offsets = [word & 0xFFFF for word in words]
    assert offsets[:5] == [0x1004, 0x3004, 0x1038, 0x4004, 0x5004]
    assert offsets[5:] == sorted(offsets[5:])
    for kind in ALONE:
        segment = encode_task(RK3576, "layer", task_alone(kind))
        offsets = [*_read(segment.words)]
        assert (len(offsets), segment.enable_mask) == (89, 0x18)
        assert offsets[:2] == [0x4004, 0x5004]
        assert offsets[2:] == sorted(offsets[2:])


def test_a_load_copies_an_atom_and_fills_both_tables():
    functions = tuple(bytes([k]) * 256 for k in range(3))
    load = TableLoad("", functions, Ref(BufferId.CONSTANTS, 64), Ref(BufferId.SCRATCH, 128))
    words = encode_task(RK3576, "layer", load).words
    atom = _read(words[:89])
    assert (atom[0x5018], atom[0x4018]) == (64, 128)
    assert (atom[0x4020], atom[0x4024], atom[0x4030] >> 16) == (0, 0, 15)
    rest = [(word & 0xFFFF, word >> 16 & 0xFFFFFFFF) for word in words[89:]]
    assert [place for place, (offset, _) in enumerate(rest) if offset == 0x4100] == [0, 514]
    assert (rest[0][1], rest[514][1]) == (0x20000, 0x30000)
    assert {offset for offset, _ in rest} <= set(ENTRIES)
    entries = [value for offset, value in rest if offset == 0x4104]
    assert len(entries) == 2 * 513
    assert entries[512] == entries[513]
    assert (entries[0], entries[256], entries[-1]) == (0xFFFFFFC0, 192, 448)


@pytest.mark.parametrize(
    ("kind", "path", "value", "place"),
    [
        ("convolution", "weights.kw", 4, "kernels, strides"),
        ("convolution", "dilations", (1, 2), "or dilations that differ"),
        ("convolution", "strides", (1, 2), "or dilations that differ"),
        ("convolution", "spread", (2, 1), "CONV_MODE"),
        ("convolution", "feature.line_stride_bytes", 1 << 14, "a part of the columns"),
        ("convolution", "data_banks", 5, "DATA_BANK"),
        ("convolution", "weight_reuse", True, "weights kept"),
        ("convolution", "output.element_bytes", 4, "int32 results"),
        ("convolution", "bs.ow", Source.REGISTER, "BS_CFG"),
        ("convolution", "bs.scalars", None, "numbers of BS"),
        ("convolution", "bs.relu", True, "BS_MIN"),
        ("convolution", "bn", BnStage(alu_operand=1), "BN_CFG"),
        ("convolution", "ew", EwStage(operation=EwOperation.ADD), "EW_CFG"),
        ("convolution", "out_convert.ties_away", True, "OUT_CVT_SHIFT"),
        ("sum", "bs.scalars", None, "numbers of BS"),
        ("sum", "bs.mul_operand", -5, "multiplier -5"),
        ("sum", "bs.relu", True, "BS_CFG"),
        ("sum", "bn", BnStage(relu=True), "BN_CFG"),
        ("sum", "ew.operation", EwOperation.MAX, "maxima"),
        ("sum", "ew.per_channel", True, "the same for all pixels"),
        ("sum", "ew.relu", True, "EW_CFG"),
        ("sum", "ew.surface_stride_bytes", 1 << 20, "gaps"),
        ("sum", "source_surface_stride_bytes", 1 << 20, "gaps"),
        ("sum", "source_line_stride_bytes", 1 << 20, "gaps"),
        ("product", "ew.truncate", 1, "shift of the product"),
        ("product", "ew.scale", 2, "EW_CVT_SCALE_VALUE"),
        ("copy", "out_convert.ties_away", True, "OUT_CVT_SHIFT"),
    ],
)
def test_what_is_in_no_known_program_is_refused(kind, path, value, place):
    task = conv_task() if kind == "convolution" else task_alone(kind)
    encode_task(RK3576, "layer", task)
    part, _, field = path.rpartition(".")
    with pytest.raises(EncodingError, match=place):
        encode_task(RK3576, "layer", sample_tasks.changed(task, part, **{field: value}))


def test_surfaces_of_depthwise_results_are_multiples_of_four_pixels():
    task = conv_task(is_depthwise=True)
    stride = task.output.surface_stride_bytes + 16
    odd = sample_tasks.changed(task, "output", surface_stride_bytes=stride)
    with pytest.raises(EncodingError, match="multiples of 4 pixels"):
        encode_task(RK3576, "layer", odd)


def test_streams_arm_every_block():
    pointers = ("CNA.S_POINTER", "CORE.S_POINTER", "DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER")
    assert [RK3576.registers.by_name[name].access for name in pointers] == [Access.STREAM] * 4
    assert [RK3588.registers.by_name[name].access for name in pointers[:2]] == [Access.HOST] * 2
