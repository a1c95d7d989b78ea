"""Candidates for tiles: parts of the kernels, columns, banks of CBUF, rows; the cheap ones first.
Whether they are taken is decided by what the whole plan costs (``tiles``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from delegate.chip.chip import Cbuf
from delegate.chip.limits import align
from delegate.lower.cost import ceil_div
from delegate.lower.tiling.geometry import ConvGeometry, Part, Window


def weight_banks_needed(cbuf: Cbuf, weight_bytes: int, bytes_per_kernel_group: int) -> int:
    """Banks that weights want: all of them up to three, else two kernel groups."""
    whole = ceil_div(weight_bytes, cbuf.bank_bytes)
    if whole <= cbuf.resident_weight_banks:
        return whole
    return min(whole, ceil_div(2 * bytes_per_kernel_group, cbuf.bank_bytes))


def kernel_parts(geometry: ConvGeometry) -> Iterator[tuple[Part, ...]]:
    """All kernels, if a cube holds their results; and parts, ever more of them: of depthwise
    channels any number, of kernels those whose weights need a bank less (more parts than that only
    fetch the input more often).
    """
    units = ceil_div(geometry.kernels, geometry.unit)
    if geometry.unit < geometry.group:
        yield equal_parts(geometry, units)
        return
    banks = last = 0
    for count in range(1, units + 1):
        parts = equal_parts(geometry, count)
        if len(parts) == last:
            continue
        last = len(parts)
        if align(parts[0].outputs, geometry.group) > geometry.limits.cube_size:
            continue
        needed = ceil_div(geometry.weight_bytes(parts[0]), geometry.cbuf.bank_bytes)
        if geometry.is_depthwise or banks == 0 or (needed < banks and needed < geometry.cbuf.banks):
            yield parts
            banks = needed


def equal_parts(geometry: ConvGeometry, count: int) -> tuple[Part, ...]:
    """At most ``count`` parts of as equal numbers of whole units as possible."""
    size = ceil_div(ceil_div(geometry.kernels, geometry.unit), count) * geometry.unit
    return tuple(
        Part(
            first,
            min(size, geometry.kernels - first),
            min(size, geometry.outputs - first),
        )
        for first in range(0, geometry.kernels, size)
    )


def column_windows(geometry: ConvGeometry, part: Part) -> Iterator[tuple[Window, ...]]:
    """Ever more columns whose rows respect the limits of a single row; whole rows first."""
    axis = geometry.columns
    channels = geometry.input_channels(part)
    last = 0
    # No row holds more pixels, padding aside: fewer columns than that need not be tried.
    pixels = (
        geometry.cbuf.max_row_entries
        * geometry.cbuf.entry_bytes
        // (channels * geometry.element_bytes)
    )
    most_pixels = axis.most_inputs(geometry.limits.feature_size)
    widest = min(pixels, most_pixels) * axis.spread
    most = (widest + 2 * axis.reach) // axis.stride + 1
    most_tiles = 1 if geometry.chip.forms.equal_sides else axis.wanted
    for count in range(ceil_div(axis.wanted, most), most_tiles + 1):
        size = ceil_div(axis.wanted, count)
        if size == last:
            continue
        last = size
        windows = axis.windows(size)
        if geometry.chip.forms.equal_sides and windows[0].input_start == 0:
            # Whole rows, also where no window reaches the last pixels.
            windows = (replace(windows[0], input_size=axis.input_size),)
        width = max(window.input_size for window in windows)
        entries = geometry.row_entries(width, channels)
        if (
            width <= most_pixels
            and size <= geometry.limits.cube_size
            and entries <= geometry.cbuf.max_row_entries
        ):
            yield windows


def weight_bank_choices(geometry: ConvGeometry, part: Part) -> tuple[int, ...]:
    """Numbers of banks worth a try: none if less than two groups of kernels would stream."""
    weight_bytes, group_bytes = geometry.weight_bytes(part), geometry.group_bytes(part)
    cbuf = geometry.cbuf
    if cbuf.data_banks:
        return (cbuf.weight_banks,)
    rule = weight_banks_needed(cbuf, weight_bytes, group_bytes)
    resident = ceil_div(weight_bytes, geometry.cbuf.bank_bytes)
    first = dict.fromkeys(banks for banks in (rule, resident) if banks < cbuf.banks)
    streaming = ceil_div(2 * group_bytes, cbuf.bank_bytes)
    if _is_one_tile(geometry, part, streaming):
        first[streaming] = None
    return tuple(first)


def _is_one_tile(geometry: ConvGeometry, part: Part, weight_banks: int) -> bool:
    """Whether all pixels of the input lie in the other banks."""
    rows, columns = (axis.windows(axis.wanted)[0] for axis in (geometry.rows, geometry.columns))
    entries = geometry.row_entries(columns.input_size, geometry.input_channels(part))
    needed = geometry.cbuf.banks_of_image(rows.input_size, columns.input_size, entries)
    return needed + weight_banks <= geometry.cbuf.banks


def row_windows(
    geometry: ConvGeometry, input_rows: int, columns: tuple[Window, ...]
) -> Iterator[tuple[Window, ...]]:
    """Tiles of as many rows as fit, and evener ones of the same number; none if no row fits.

    Of columns too far apart for the skip between their rows, single rows.
    """
    axis = geometry.rows
    gap = geometry.columns.output_size - min(column.output_size for column in columns)
    most = 1 if gap > geometry.limits.notch else geometry.limits.cube_size
    greedy = []
    start = axis.begin
    while start < axis.output_size:
        count = min(axis.outputs_within(start, input_rows), most)
        if count == 0:
            return
        greedy.append(axis.window(start, count))
        start += count
    yield tuple(greedy)
    if len(greedy) == 1:
        return
    even = ceil_div(axis.wanted, len(greedy))
    width = columns[0].output_size
    # Rows whose pixels fill whole steps lose nothing at the end of a tile.
    pixels = geometry.chip.rates.step_pixels
    step = pixels // math.gcd(pixels, width)
    for size in dict.fromkeys((even, align(even, step))):
        windows = axis.windows(size)
        if (
            size <= most
            and len(windows) == len(greedy)
            and all(w.input_size <= input_rows for w in windows)
        ):
            yield windows
