"""RK3576's tasks without a convolution: their order, loads of tables, and what is refused."""

from dataclasses import replace

import pytest

from delegate.chip.rk3576 import RK3576
from delegate.errors import EncodingError
from delegate.lower.numerics.pipeline import EwOperation, OutConvert
from delegate.lower.task import (
    BnStage,
    BsStage,
    BufferId,
    ElementwiseTask,
    EwStage,
    OutputCube,
    Ref,
    Source,
    TableLoad,
    TableUse,
)
from delegate.npu.regcmd import encode_task
from tests.loops import for_each

KINDS = ("sum", "product", "copy", "function")
ENTRIES = range(0x4100, 0x4108)


def _task(kind: str) -> ElementwiseTask:
    """Return a task of 5 x 7 pixels of 48 channels; ``kind``: one of KINDS."""
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


@for_each("kind", KINDS)
def test_registers_are_in_the_order_of_the_vendors_programs(kind):
    segment = encode_task(RK3576, "layer", _task(kind))
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
    ("kind", "change", "place"),
    [
        ("sum", lambda t: replace(t, bs=replace(t.bs, scalars=None)), "numbers of BS"),
        ("sum", lambda t: replace(t, bs=replace(t.bs, mul_operand=-5)), "multiplier -5"),
        ("sum", lambda t: replace(t, bs=replace(t.bs, relu=True)), "BS_CFG"),
        ("sum", lambda t: replace(t, bn=BnStage(relu=True)), "BN_CFG"),
        ("sum", lambda t: replace(t, ew=replace(t.ew, operation=EwOperation.MAX)), "maxima"),
        (
            "sum",
            lambda t: replace(t, ew=replace(t.ew, per_channel=True)),
            "the same for all pixels",
        ),
        ("sum", lambda t: replace(t, ew=replace(t.ew, relu=True)), "EW_CFG"),
        ("sum", lambda t: replace(t, ew=replace(t.ew, surface_stride_bytes=1 << 20)), "gaps"),
        ("sum", lambda t: replace(t, source_surface_stride_bytes=1 << 20), "gaps"),
        ("sum", lambda t: replace(t, source_line_stride_bytes=1 << 20), "gaps"),
        ("product", lambda t: replace(t, ew=replace(t.ew, truncate=1)), "shift of the product"),
        ("product", lambda t: replace(t, ew=replace(t.ew, scale=2)), "EW_CVT_SCALE_VALUE"),
        (
            "copy",
            lambda t: replace(t, out_convert=replace(t.out_convert, ties_away=True)),
            "OUT_CVT_SHIFT",
        ),
    ],
)
def test_what_is_in_no_known_program_is_refused(kind, change, place):
    task = _task(kind)
    encode_task(RK3576, "layer", task)
    with pytest.raises(EncodingError, match=place):
        encode_task(RK3576, "layer", change(task))
