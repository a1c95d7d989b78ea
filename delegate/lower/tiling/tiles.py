"""Tiles of a convolution: pure integers in, tiles out; knows no register and no operator.

A tile is one task: output rows x output columns x kernels. Its input rows lie in CBUF, each taking
``entries_per_row`` entries of 64 bytes; the 12 banks are split between rows and weights. The plan
with the least estimated time (``cost``: kicks, MAC cycles, bytes on the bus) is taken out of

- all kernels in a task, or equal parts of them (weights that fit stay resident over the rows);
- whole rows, or the fewest columns with which a row fits;
- the bank split of programs that run on silicon (weights up to three banks resident, larger ones
  two kernel groups deep and streaming), all weights resident, fewer banks of streaming ones
  where one tile then holds all rows (it needs its weights once);
- row heights that need the fewest tasks, evened out where that saves partly filled pixel groups.

Input fetched for one task is never reused by the next (no observed program does), so parts of the
kernels fetch the rows again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from delegate.chip.element import ATOM_BYTES, align
from delegate.errors import LoweringError
from delegate.lower.rules import ROW_FITS_CBUF, TILE_FITS_CBUF
from delegate.lower.tiling.choices import (
    column_windows,
    equal_parts,
    kernel_parts,
    row_windows,
    weight_bank_choices,
)
from delegate.lower.tiling.geometry import (
    ConvGeometry,
    Part,
    Window,
    ceil_div,
    ddr_cycles,
    dense_cycles,
    depthwise_cycles,
)


@dataclass(frozen=True, slots=True)
class Tile:
    """One task per image. ``data_banks`` + ``weight_banks`` share CBUF; ``first_of_part``: the
    weights change here, so that they are fetched even if they are resident.
    """

    rows: Window
    columns: Window
    part: Part
    entries_per_row: int
    data_banks: int
    weight_banks: int
    weights_resident: bool
    first_of_part: bool


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tiles in order of execution, all images of a part before the next part.

    ``cycles`` without, ``cost_cycles`` with the kicks, for all images. ``choice``: one line of why.
    """

    tiles: tuple[Tile, ...]
    cycles: int
    moved_bytes: int
    cost_cycles: int
    choice: str = ""

    @property
    def rank(self) -> tuple[int, int]:
        """Less is better; among equally fast plans the one that leaves the bus more room."""
        return self.cost_cycles, self.moved_bytes


@functools.lru_cache(maxsize=1024)  # layers of a network are alike
def plan_tiles(geometry: ConvGeometry) -> TilePlan:
    """Return the cheapest plan. Raises LoweringError if not even one output pixel of one kernel
    group fits.

    A plan of a single task per image is taken at once: splitting can only add work.
    """
    _check_smallest(geometry)
    best: TilePlan | None = None
    tried = 0
    for parts in kernel_parts(geometry):
        if best is not None and _at_least(geometry, len(parts)) > best.cost_cycles:
            break
        for plan in _plans(geometry, parts, best):
            tried += 1
            if best is None or plan.rank < best.rank:
                best = plan
        if best is not None and len(best.tiles) == len(parts):
            break
    if best is None:
        rows = min(geometry.rows.reach, geometry.rows.input_size)
        entries = geometry.row_entries(geometry.columns.input_size, geometry.channels)
        raise _nothing_fits(
            geometry, rows, entries, geometry.group_bytes(equal_parts(geometry, 1)[0])
        )
    return _explained(best, tried)


def _at_least(geometry: ConvGeometry, tiles: int) -> int:
    """Return the least cost of a plan of so many tiles: every tile is a kick, splitting never
    saves cycles.
    """
    window = Window(0, geometry.rows.wanted, 0, 0, 0)
    column = Window(0, geometry.columns.wanted, 0, 0, 0)
    whole = Part(0, geometry.kernels, geometry.outputs)
    npu = _tile_cycles(geometry, window, column, whole)
    return geometry.images * (tiles * geometry.chip.rates.kick_cycles + npu)


def _plans(
    geometry: ConvGeometry, parts: tuple[Part, ...], best: TilePlan | None
) -> Iterator[TilePlan]:
    """Yield a plan per bank split, with the fewest columns that let a row of tiles fit; none that
    is certain to cost more than ``best``.
    """
    widest = max(parts, key=lambda part: part.kernels)
    most_rows = ceil_div(geometry.chip.limits.feature_size, geometry.rows.spread)
    for columns in column_windows(geometry, widest):
        width = max(window.input_size for window in columns)
        entries = geometry.row_entries(width, geometry.input_channels(widest))
        narrowest = min(window.input_size for window in columns)
        found = False
        for banks in weight_bank_choices(geometry, widest):
            height = geometry.chip.cbuf.rows_within(
                geometry.chip.cbuf.banks - banks, narrowest, entries
            )
            for rows in row_windows(geometry, min(height, most_rows), columns):
                found = True
                tiles = len(parts) * len(columns) * len(rows)
                if best is None or _at_least(geometry, tiles) <= best.cost_cycles:
                    best = _plan(geometry, parts, columns, rows, banks)
                    yield best
        if found:
            return


def _plan(
    geometry: ConvGeometry,
    parts: tuple[Part, ...],
    columns: tuple[Window, ...],
    rows: tuple[Window, ...],
    weight_banks: int,
) -> TilePlan:
    tiles = []
    cycles = moved = 0
    for part in parts:
        data_banks = geometry.chip.cbuf.banks - weight_banks
        channels = geometry.input_channels(part)
        outputs = align(part.outputs, ATOM_BYTES // geometry.element_bytes)
        per_row = {window: geometry.row_entries(window.input_size, channels) for window in columns}
        if len(rows) == len(columns) == 1 and not geometry.chip.cbuf.data_banks:
            # One tile: rows take what they need, weights the rest.
            image = rows[0].input_size, columns[0].input_size, per_row[columns[0]]
            data_banks = geometry.chip.cbuf.banks_of_image(*image)
        banks = geometry.chip.cbuf.banks - data_banks
        weight_bytes = geometry.weight_bytes(part)
        resident = weight_bytes <= banks * geometry.chip.cbuf.bank_bytes
        is_first = True
        for column in columns:
            for row in rows:
                tiles.append(
                    Tile(
                        row,
                        column,
                        part,
                        per_row[column],
                        data_banks,
                        banks,
                        resident,
                        is_first,
                    )
                )
                elements = row.input_size * column.input_size * channels
                elements += row.output_size * column.output_size * outputs
                body = elements * geometry.element_bytes
                npu = _tile_cycles(geometry, row, column, part)
                fetched = body + weight_bytes
                later = body if resident else fetched
                first = fetched if is_first else later
                moved += first + (geometry.images - 1) * later
                cycles += max(npu, ddr_cycles(geometry.chip, first))
                if geometry.images > 1:
                    cycles += (geometry.images - 1) * max(npu, ddr_cycles(geometry.chip, later))
                is_first = False
    kicks = len(tiles) * geometry.images
    return TilePlan(tuple(tiles), cycles, moved, cycles + kicks * geometry.chip.rates.kick_cycles)


def _tile_cycles(geometry: ConvGeometry, row: Window, column: Window, part: Part) -> int:
    pixels = row.output_size * column.output_size
    if geometry.is_depthwise:
        return depthwise_cycles(
            geometry.chip, pixels, part.outputs, geometry.taps, geometry.element_bytes
        )
    channels = geometry.real_channels or geometry.channels
    return dense_cycles(
        geometry.chip, pixels, part.outputs, channels, geometry.taps, geometry.element_bytes
    )


def _check_smallest(geometry: ConvGeometry) -> None:
    """Refuses what no split can help: one output pixel of the fewest kernels must fit."""
    smallest = equal_parts(geometry, ceil_div(geometry.kernels, geometry.unit))[0]
    channels = geometry.input_channels(smallest)
    reach = min(geometry.columns.reach, geometry.columns.input_size)
    entries = geometry.row_entries(reach, channels)
    if reach > geometry.chip.limits.feature_size or entries > geometry.chip.cbuf.max_row_entries:
        raise LoweringError(
            geometry.node,
            ROW_FITS_CBUF,
            f"the {reach} pixels x {channels} channels one output reaches over take {entries} CBUF "
            f"entries in a row, more than {geometry.chip.cbuf.max_row_entries}",
        )
    slice_bytes = geometry.chip.cbuf.weight_slice_bytes
    if slice_bytes and geometry.group_bytes(smallest) > slice_bytes:
        raise LoweringError(
            geometry.node,
            TILE_FITS_CBUF,
            f"a group of {geometry.group} kernels has {geometry.group_bytes(smallest)} bytes; with "
            f"more than {slice_bytes} not all groups are known to compute",
        )
    rows = min(geometry.rows.reach, geometry.rows.input_size)
    banks = geometry.chip.cbuf.banks_of_image(rows, reach, entries)
    banks += ceil_div(geometry.group_bytes(smallest), geometry.chip.cbuf.bank_bytes)
    if banks > geometry.chip.cbuf.banks or rows > geometry.chip.limits.feature_size:
        raise _nothing_fits(geometry, rows, entries, geometry.group_bytes(smallest))
    products = geometry.taps * (1 if geometry.is_depthwise else channels)
    if channels > geometry.chip.limits.input_channels or products > geometry.chip.limits.products:
        raise LoweringError(
            geometry.node,
            TILE_FITS_CBUF,
            f"{channels} input channels and {products} products per output; a task takes up to "
            f"{geometry.chip.limits.input_channels} and {geometry.chip.limits.products}",
        )


def _nothing_fits(
    geometry: ConvGeometry, rows: int, entries: int, group_bytes: int
) -> LoweringError:
    return LoweringError(
        geometry.node,
        TILE_FITS_CBUF,
        f"{rows} input rows ({entries} CBUF entries each) and one group of "
        f"{min(geometry.kernels, geometry.unit)} kernels ({group_bytes} bytes) do not fit the "
        f"{geometry.chip.cbuf.banks} banks of CBUF",
    )


def _explained(plan: TilePlan, tried: int) -> TilePlan:
    tile = plan.tiles[0]
    rows = len({t.rows for t in plan.tiles})
    columns = len({t.columns for t in plan.tiles})
    parts = len({t.part for t in plan.tiles})
    cuts = [
        f"{count} {what}"
        for count, what in ((rows, "row tiles"), (columns, "columns"), (parts, "kernel parts"))
        if count > 1
    ]
    shape = " x ".join(cuts) or "one tile"
    weights = "resident" if tile.weights_resident else "streaming"
    choice = (
        f"{shape}, banks {tile.data_banks} data + {tile.weight_banks} weights ({weights}), "
        f"{plan.cycles} cycles, {plan.moved_bytes} bytes; best of {tried}"
    )
    return replace(plan, choice=choice)
