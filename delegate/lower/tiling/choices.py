"""Candidates for tiles: parts of the kernels, columns, banks of CBUF, rows; the cheap ones first.
Whether they are taken is decided by what the whole plan costs (``tiles``).

Groups of input channels, for layers whose input and weights one task cannot hold in CBUF.

Pure integers, like ``tiling``. Every group is a pass: it convolves its channels and adds what the
passes before it summed. That sum is an int32 per output channel, which the hardware adds in BS,
where otherwise the bias comes from memory; so a task computes a single output pixel, and all
kernels of it (their weights stream through CBUF). All passes but the last write plain int32 sums;
the last one requantises as a task that needs no split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from delegate.chip.chip import Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, align
from delegate.lower.tiling.geometry import ConvGeometry, Part, Window, ceil_div


def kernel_parts(geometry: ConvGeometry) -> Iterator[tuple[Part, ...]]:
    """Yield all kernels, if a cube holds their results; and parts, ever more of them: of depthwise
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
        if align(parts[0].outputs, geometry.group) > geometry.chip.limits.cube_size:
            continue
        needed = ceil_div(geometry.weight_bytes(parts[0]), geometry.chip.cbuf.bank_bytes)
        if (
            geometry.is_depthwise
            or banks == 0
            or (needed < banks and needed < geometry.chip.cbuf.banks)
        ):
            yield parts
            banks = needed


def equal_parts(geometry: ConvGeometry, count: int) -> tuple[Part, ...]:
    """Return at most ``count`` parts of as equal numbers of whole units as possible."""
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
        geometry.chip.cbuf.max_row_entries
        * geometry.chip.cbuf.entry_bytes
        // (channels * geometry.element_bytes)
    )
    most_pixels = ceil_div(geometry.chip.limits.feature_size, axis.spread)
    widest = min(pixels, most_pixels) * axis.spread
    most = (widest + 2 * axis.reach) // axis.stride + 1
    has_whole_rows = Primitive.ROW_PARTS in geometry.chip.lacks
    most_tiles = 1 if has_whole_rows else axis.wanted
    for count in range(ceil_div(axis.wanted, most), most_tiles + 1):
        size = ceil_div(axis.wanted, count)
        if size == last:
            continue
        last = size
        windows = axis.windows(size)
        if has_whole_rows and windows[0].input_start == 0:
            # Whole rows, also where no window reaches the last pixels.
            windows = (replace(windows[0], input_size=axis.input_size),)
        width = max(window.input_size for window in windows)
        entries = geometry.row_entries(width, channels)
        if (
            width <= most_pixels
            and size <= geometry.chip.limits.cube_size
            and entries <= geometry.chip.cbuf.max_row_entries
        ):
            yield windows


def weight_bank_choices(geometry: ConvGeometry, part: Part) -> tuple[int, ...]:
    """Numbers of banks worth a try: none if less than two groups of kernels would stream. First all
    weights up to three banks, else two groups.
    """
    cbuf = geometry.chip.cbuf
    if cbuf.data_banks:
        return (cbuf.weight_banks,)
    resident = ceil_div(geometry.weight_bytes(part), cbuf.bank_bytes)
    streaming = ceil_div(2 * geometry.group_bytes(part), cbuf.bank_bytes)
    is_small = resident <= cbuf.resident_weight_banks
    rule = resident if is_small else min(resident, streaming)
    first = dict.fromkeys(banks for banks in (rule, resident) if banks < cbuf.banks)
    rows, columns = (axis.windows(axis.wanted)[0] for axis in (geometry.rows, geometry.columns))
    entries = geometry.row_entries(columns.input_size, geometry.input_channels(part))
    if streaming + cbuf.banks_of_image(rows.input_size, columns.input_size, entries) <= cbuf.banks:
        first[streaming] = None  # all pixels of the input lie in the other banks
    return tuple(first)


def row_windows(
    geometry: ConvGeometry, input_rows: int, columns: tuple[Window, ...]
) -> Iterator[tuple[Window, ...]]:
    """Tiles of as many rows as fit, and evener ones of the same number; none if no row fits.

    Of columns too far apart for the skip between their rows, single rows.
    """
    axis = geometry.rows
    gap = geometry.columns.output_size - min(column.output_size for column in columns)
    most = 1 if gap > geometry.chip.limits.notch else geometry.chip.limits.cube_size
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


# Bytes of a sum in memory.
SUM_BYTES = 4


InputGroups = tuple[tuple[range, ...], int, int]
"""Input channels of each group, whole surfaces; the banks of their pixels; and how many tasks all
pixels of all images take.
"""


def plan_input_groups(
    geometry: ConvGeometry,
    sum_kernels: int,
    passes_per_group: int = 1,
    last_sum_tasks: int = 1,
    copy_tasks: int = 0,
) -> InputGroups | None:
    """Return the fewest groups of equal size that fit, or None if not even one surface does, or a
    cube does not hold the results. ``sum_kernels``: kernels of the passes that sum.
    ``passes_per_group``: 2 or 3 where weights minus their zero point need as many int8 kernels.
    ``last_sum_tasks``: the last sum of a pixel in so many tasks. ``copy_tasks``: per pixel, to
    bring per-channel operands.

    A group fits if the weight banks hold two groups of its kernels, one of them being fetched
    while the other is used.
    """
    lanes, entry = geometry.channels, geometry.chip.cbuf.entry_bytes
    if align(max(geometry.outputs, sum_kernels), geometry.group) > geometry.chip.limits.cube_size:
        return None
    for count in range(2, lanes // CHANNELS_PER_SURFACE + 1):
        size = ceil_div(lanes, count)
        size = align(size, entry if size > entry else ATOM_BYTES)
        banks = _data_banks(geometry, size, max(geometry.kernels, sum_kernels))
        if banks is not None:
            groups = tuple(range(n, min(n + size, lanes)) for n in range(0, lanes, size))
            pixels = geometry.images * geometry.rows.output_size * geometry.columns.output_size
            sums = (len(groups) - 1) * passes_per_group + last_sum_tasks - 1
            return groups, banks, pixels * (copy_tasks + sums + 1)
    return None


def _data_banks(geometry: ConvGeometry, channels: int, kernels: int) -> int | None:
    """Banks for the widest window of ``channels``, or None if the kernels do not fit the rest."""
    rows = min(geometry.rows.reach, geometry.rows.input_size)
    columns = min(geometry.columns.reach, geometry.columns.input_size)
    entries = geometry.row_entries(columns, channels)
    products = geometry.taps * channels
    if (
        max(rows, columns) > geometry.chip.limits.feature_size
        or entries > geometry.chip.cbuf.max_row_entries
    ):
        return None
    if channels > geometry.chip.limits.input_channels or products > geometry.chip.limits.products:
        return None
    banks = geometry.chip.cbuf.banks_of_image(rows, columns, entries)
    part = Part(0, kernels, geometry.outputs)
    narrowed = replace(geometry, channels=channels)
    wanted = min(2 * narrowed.group_bytes(part), narrowed.weight_bytes(part))
    fits = banks + ceil_div(wanted, geometry.chip.cbuf.bank_bytes) <= geometry.chip.cbuf.banks
    return banks if fits else None
