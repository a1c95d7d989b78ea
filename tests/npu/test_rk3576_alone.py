"""RK3576's tasks without a convolution against a second reading of the registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
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
from delegate.npu.disasm import assemble, disassemble
from delegate.npu.regcmd import encode_task
from tests.loops import for_each
from tests.npu.rk3576_alone_oracle import Map, registers

KINDS = ("sum", "product", "copy", "function")
ENTRIES = range(0x4100, 0x4108)


def _map(seed: int) -> Map:
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    is_sum = kind == "sum"
    first, last = (int(v) for v in rng.integers(-127, 128, 2))
    return Map(
        kind=kind,
        rows=int(rng.integers(1, 90)),
        columns=int(rng.integers(1, 90)),
        channels=16 * int(rng.integers(1, 40)),
        **{name: 16 * int(rng.integers(1, 1 << 24)) for name in ("source", "target", "scalars")},
        operand=16 * int(rng.integers(1, 1 << 24)) if kind in ("sum", "product") else 0,
        operand_offset=int(rng.integers(-127, 129)) if kind in ("sum", "product") else 0,
        operand_scale=int(rng.integers(-(1 << 14), 1 << 14)) if is_sum else 1,
        operand_shift=int(rng.integers(0, 12)) if is_sum else 0,
        scale=int(rng.integers(1, 1 << 15)),
        shift=int(rng.integers(0, 40)),
        offset=int(rng.integers(-128, 128)),
        first_entry=256 * first - 64 if kind == "function" else 0,
        last_entry=256 * last - 64 if kind == "function" else 0,
    )


def _task(n: Map) -> ElementwiseTask:
    stride = 16 * n.rows * n.columns
    table, ew = None, None
    if n.kind == "function":
        results = np.zeros(256, np.int8)
        results[0], results[-1] = ((e + 64) // 256 for e in (n.first_entry, n.last_entry))
        table = TableUse((results.tobytes(),), 0)
    if n.operand:
        ew = EwStage(
            operand=Ref(BufferId.SCRATCH, n.operand),
            operation=EwOperation.ADD if n.kind == "sum" else EwOperation.MULTIPLY,
            surface_stride_bytes=stride,
            offset=n.operand_offset,
            scale=n.operand_scale,
            shift=n.operand_shift,
        )
    scales = n.kind in ("sum", "function")
    return ElementwiseTask(
        tile="",
        source=Ref(BufferId.SCRATCH, n.source),
        source_surface_stride_bytes=stride,
        output=OutputCube(
            Ref(BufferId.SCRATCH, n.target), n.rows, n.columns, n.channels, n.channels, stride, 1
        ),
        bs=BsStage(
            alu=Source.OFF if n.kind == "copy" else Source.REGISTER,
            alu_operand=3,
            mul=Source.REGISTER if scales else Source.OFF,
            mul_operand=32,
            scalars=Ref(BufferId.CONSTANTS, n.scalars),
        ),
        out_convert=OutConvert(n.scale, n.shift, n.offset),
        ew=ew,
        table=table,
    )


def _read(words) -> dict[int, int]:
    found: dict[int, int] = {}
    for word in words:
        offset, value = word & 0xFFFF, word >> 16 & 0xFFFFFFFF
        assert word >> 48 == {4: 0x1001, 5: 0x2001}[offset >> 12]
        assert found.setdefault(offset, value) == value
    return found


@for_each("seed", range(80))
def test_tasks_agree_with_a_second_reading_of_the_registers(seed):
    wanted = _map(seed)
    segment = encode_task(RK3576, "layer", _task(wanted))
    text = disassemble(segment.words, RK3576.registers)
    assert "word 0x" not in text
    assert "RESERVED" not in text
    assert assemble(text, RK3576.registers) == segment.words
    found = {hex(k): hex(v) for k, v in _read(segment.words).items()}
    assert found == {hex(k): hex(v) for k, v in registers(wanted).items()}
    assert len(segment.words) == 89
    assert segment.enable_mask == 0x18
    offsets = [word & 0xFFFF for word in segment.words]
    assert offsets[:2] == [0x4004, 0x5004]
    assert offsets[2:] == sorted(offsets[2:])


def test_a_load_copies_an_atom_and_fills_both_tables():
    functions = tuple(bytes([k]) * 256 for k in range(3))
    load = TableLoad("", functions, Ref(BufferId.CONSTANTS, 64), Ref(BufferId.SCRATCH, 128))
    words = encode_task(RK3576, "layer", load).words
    assert _read(words[:89]) == registers(Map("load", 1, 1, 16, 64, 128))
    rest = [(word & 0xFFFF, word >> 16 & 0xFFFFFFFF) for word in words[89:]]
    assert [place for place, (offset, _) in enumerate(rest) if offset == 0x4100] == [0, 514]
    assert (rest[0][1], rest[514][1]) == (0x20000, 0x30000)
    assert {offset for offset, _ in rest} <= set(ENTRIES)
    entries = [value for offset, value in rest if offset == 0x4104]
    assert len(entries) == 2 * 513
    assert entries[512] == entries[513]
    assert (entries[0], entries[256], entries[-1]) == (0xFFFFFFC0, 192, 448)


@pytest.mark.parametrize(
    ("seed", "change", "place"),
    [
        (0, lambda t: replace(t, bs=replace(t.bs, scalars=None)), "numbers of BS"),
        (0, lambda t: replace(t, bs=replace(t.bs, mul_operand=-5)), "multiplier -5"),
        (0, lambda t: replace(t, bs=replace(t.bs, relu=True)), "BS_CFG"),
        (0, lambda t: replace(t, bn=BnStage(relu=True)), "BN_CFG"),
        (0, lambda t: replace(t, ew=replace(t.ew, operation=EwOperation.MAX)), "maxima"),
        (0, lambda t: replace(t, ew=replace(t.ew, per_channel=True)), "the same for all pixels"),
        (0, lambda t: replace(t, ew=replace(t.ew, relu=True)), "EW_CFG"),
        (0, lambda t: replace(t, ew=replace(t.ew, surface_stride_bytes=1 << 20)), "gaps"),
        (0, lambda t: replace(t, source_surface_stride_bytes=1 << 20), "gaps"),
        (0, lambda t: replace(t, source_line_stride_bytes=1 << 20), "gaps"),
        (1, lambda t: replace(t, ew=replace(t.ew, truncate=1)), "shift of the product"),
        (1, lambda t: replace(t, ew=replace(t.ew, scale=2)), "EW_CVT_SCALE_VALUE"),
        (
            2,
            lambda t: replace(t, out_convert=replace(t.out_convert, ties_away=True)),
            "OUT_CVT_SHIFT",
        ),
    ],
)
def test_what_is_in_no_known_program_is_refused(seed, change, place):
    task = _task(_map(seed))
    encode_task(RK3576, "layer", task)
    with pytest.raises(EncodingError, match=place):
        encode_task(RK3576, "layer", change(task))
