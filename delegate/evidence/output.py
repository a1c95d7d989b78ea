"""Proofs of the lookup tables, of how results reach memory and who reads them, and of the cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import ATOM_BYTES
from delegate.evidence.arithmetic import Whole, dense, half_even, int8, padded, whole
from delegate.evidence.bench import Bench, Describe, cube, small_kernels
from delegate.lower.numerics.pipeline import FUNCTION_STEPS, INDEX_STEP
from delegate.lower.tables import TABLE_STEPS
from delegate.lower.task import BsStage, EwStage, OutConvert, Ref, Source, TableUse

_FROM_ENTRY: Final = OutConvert(1, 8, 0)


def _functions(turn: int) -> tuple[bytes, ...]:
    """Four functions of -128 to 127: no two neighbours alike; runs of equal values with steps
    between, both ends; a straight line; and near 0 what is far from its neighbours.
    """
    steps = np.arange(256)
    mixed = (steps * 101 + 7 + turn) % 256 - 128
    runs = np.where(steps // 32 % 2 == 0, 127, -128) - (steps // 64 + turn) % 2
    line = steps - 128
    peak = np.where(np.abs(line) < 3, 100 + line + turn, -line // 2)
    order = np.roll(np.arange(4), turn)
    functions = [f.astype(np.int8).tobytes() for f in (mixed, int8(whole(runs)), line, peak)]
    return tuple(functions[number] for number in order)


def _lookup(b: Bench, functions: tuple[bytes, ...], slot: int) -> None:
    """All 256 values through one function."""
    x = (np.arange(256, dtype=np.int64) - 128).reshape(16, 4, 4)
    result = np.frombuffer(functions[slot], np.int8)[x + 128]
    first = FUNCTION_STEPS * slot - TABLE_STEPS // 2
    bs = BsStage(
        alu=Source.REGISTER,
        alu_operand=first + FUNCTION_STEPS // 2,
        mul=Source.REGISTER,
        mul_operand=INDEX_STEP,
    )
    b.map(x, _entries(result), _FROM_ENTRY, bs=bs, table=TableUse(functions, slot))


def _entries(results: npt.NDArray[np.int8]) -> Whole:
    """Of tables: what OUT_CVT makes the results of."""
    return np.maximum(whole(results) * 256 - 64, -(1 << 15))


def _found(functions: tuple[bytes, ...], places: Whole) -> Whole:
    """What lies at ``places`` of all tables, in units of which an entry takes 32; a straight line
    leads from one entry to the next.
    """
    entries = np.append(_entries(np.frombuffer(b"".join(functions), np.int8)), 0)
    entries[-1] = entries[-2]
    index, rest = places // INDEX_STEP, places % INDEX_STEP
    rise = entries[np.minimum(index + 1, len(entries) - 1)] - entries[index]
    return whole(entries[index] + half_even(rise * rest, 5))


def _behind_convolution(start: int, use: TableUse, places: tuple[tuple[int, int], ...]) -> Describe:
    """``start``: the value that selects the first entry. ``places``: what BS adds and multiplies
    with, so that values fall on entries and between them, on both sides of where LO begins.
    """

    def describe(b: Bench) -> None:
        x = b.values(32, 4, 8)
        for add, multiplier in places:
            found = _found(use.functions, (x + add) * multiplier - start)
            b.through(x, found, _FROM_ENTRY, add=add, mul=multiplier, table=use)

    return describe


_SHARED: Final = TableUse(_functions(1), 0)
_MIDDLE: Final = -TABLE_STEPS // 2 * INDEX_STEP
_ELSEWHERE: Final = TableUse(_functions(2), 1, 40)
_ELSEWHERE_START: Final = -(FUNCTION_STEPS + 40) * INDEX_STEP


def _sum_behind_table(b: Bench) -> None:
    """What was found, in its own scale, and a second tensor brought to it."""
    x, e = b.values(32, 4, 8), b.values(32, 4, 8, seed=3)
    ew = EwStage(b.constants.add(cube(e)), surface_stride_bytes=32 * ATOM_BYTES, offset=9, scale=77)
    for add, multiplier in ((0, 32), (300, 7)):
        total = _found(_SHARED.functions, (x + add) * multiplier - _MIDDLE) + (e + 9) * 77
        out = OutConvert(1, 9, 0)
        b.through(x, total, out, add=add, mul=multiplier, table=_SHARED, ew=ew)


def lookups(*slots: int) -> Describe:
    """Lookups each right behind a load of its own."""

    def describe(b: Bench) -> None:
        for slot in slots:
            _lookup(b, _functions(len(b.tasks) % 4), slot)

    return describe


def _kept_table(b: Bench) -> None:
    """One load, and other tasks between the lookups."""
    functions = _functions(len(b.tasks) % 4)
    for slot in range(4):
        _lookup(b, functions, slot)
        b.plain()


def _ties_away(b: Bench) -> None:
    """Ties of both signs, even and odd, and what is none, behind a scale and an offset."""
    x = b.values(32, 4, 6)
    for scale, shift, offset in ((1, 1, 0), (3, 3, 5), (16_384, 16, -7)):
        b.through(x, x, OutConvert(scale, shift, offset, ties_away=True))


def _sums_written(b: Bench) -> None:
    """The whole range of 32 bits, saturated at its ends by BS."""
    x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
    bias = np.resize(np.array([0, 255, -256, 65_537, 1 << 30, -(1 << 30), 123_456_789]), 32)
    b.conv(x, kernels, dense(x, kernels) + bias.reshape(-1, 1, 1), bias=bias, sums=True)


def _results_as_summands(b: Bench) -> None:
    """Sums of one pixel, read back as the summands of the next task at once, and once more."""
    x, kernels = b.values(32, 1, 1), small_kernels(32, 1, 1, 32)
    bias = np.arange(32) * 1000 - 16_000
    sums = dense(x, kernels) + bias.reshape(-1, 1, 1)
    place = b.conv(x, kernels, sums, bias=bias, sums=True)
    for seed in (1, 2):
        x = b.values(32, 1, 1, seed=seed)
        sums = dense(x, kernels) + sums
        bs = BsStage(alu=Source.MEMORY, operands=place)
        place = b.conv(x, kernels, sums, bs, sums=True)
    bs = BsStage(alu=Source.MEMORY, operands=place)
    b.conv(x, kernels, dense(x, kernels) + sums, bs, OutConvert(1, 8, 0))


def _results_as_weights(b: Bench) -> None:
    """Kernels that the task before wrote, over what was there: those of two groups, and again other
    ones in the same place, which no task may find as they were.
    """
    place: Ref | None = None
    for seed in (1, 2):
        kernels = b.values(32, 1, 64, seed=seed) // 16
        # A pixel of 32 channels is a kernel of 32 inputs: two atoms, as weights have them.
        atoms = kernels.reshape(2, 16, 64).transpose(2, 0, 1).reshape(1, 128, 16)
        stored = atoms.transpose(2, 0, 1)
        weights = kernels[:, 0].T.reshape(64, 1, 1, 32)
        if place is None:
            place = b.room(cube(stored))
        b.expected[place.offset : place.offset + 128 * ATOM_BYTES] = cube(stored)
        b.map(stored, stored, target=place)
        x = b.values(32, 3, 5, seed=seed)
        b.conv(x, weights, dense(x, weights), out=OutConvert(1, 6, 0), packed=place)


def _gap(b: Bench) -> None:
    """Rows of five pixels, eight apart; what is between them stays."""
    x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
    sums = dense(x, kernels)
    before = b.values(32, 4, 8, seed=4)
    after = before.copy()
    after[:, :, :5] = int8(half_even(sums, 2))
    place = b.room(cube(after))
    b.map(before, before, target=place)
    b.conv(
        x, kernels, sums, out=OutConvert(1, 2, 0), target=place, line_pixels=8,
        surface_bytes=4 * 8 * ATOM_BYTES,
    )  # fmt: skip


def _gap_read(b: Bench) -> None:
    """Columns 2 to 6 of 9."""
    wide = b.values(32, 4, 9)
    x = wide[:, :, 2:7]
    source = b.constants.add(cube(wide)).moved(2 * ATOM_BYTES)
    b.map(x, x, source=source, row_pixels=9, surface_pixels=36)


def _gap_of_operand(b: Bench) -> None:
    """The same of EW's operand."""
    x, wide = b.values(32, 4, 5), b.values(32, 4, 9, seed=6)
    e = wide[:, :, 2:7]
    ew = EwStage(
        b.constants.add(cube(wide)).moved(2 * ATOM_BYTES),
        surface_stride_bytes=36 * ATOM_BYTES,
        line_stride_bytes=9 * ATOM_BYTES,
    )
    b.map(x, x + e, OutConvert(1, 1, 0), ew=ew)


def _several_cores(b: Bench) -> None:
    """On every core, at the same time, several tasks with kernels that stay."""
    for core in range(b.chip.cores):
        kernels = np.roll(small_kernels(32, 3, 3, 16), core, axis=0)
        for number in range(4):
            x = b.values(16, 5, 6, seed=4 * core + number)
            sums = dense(padded(x, 1, 1, 1, 1, 3), kernels)
            b.conv(x, kernels, sums, out=OutConvert(1, 2, 0), pads=(1, 1, 3))
            b.tasks[-1] = replace(b.tasks[-1], core=core)


OUTPUT: Final[dict[str, Describe]] = {
    "table_load": lookups(0, 3),
    "table": lookups(1, 2),
    "table_behind_convolution": _behind_convolution(
        _MIDDLE, _SHARED, ((0, 32), (0, 7), (1500, 9), (-1500, 10))
    ),
    "table_elsewhere": _behind_convolution(
        _ELSEWHERE_START, _ELSEWHERE, ((128, 32), (0, 11), (700, 13))
    ),
    "sum_behind_table": _sum_behind_table,
    "kept_table": _kept_table,
    "ties_away": _ties_away,
    "sums_written": _sums_written,
    "results_as_summands": _results_as_summands,
    "results_as_weights": _results_as_weights,
    "gap_between_rows": _gap,
    "gap_between_rows_read": _gap_read,
    "gap_between_rows_of_operand": _gap_of_operand,
    "several_cores": _several_cores,
}
"""By feature."""
