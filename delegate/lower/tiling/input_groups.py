"""Groups of input channels, for layers whose input and weights one task cannot hold in CBUF.

Pure integers, like ``tiling``. Every group is a pass: it convolves its channels and adds what the
passes before it summed. That sum is an int32 per output channel, which the hardware adds in BS,
where otherwise the bias comes from memory; so a task computes a single output pixel, and all
kernels of it (their weights stream through CBUF). All passes but the last write plain int32 sums;
the last one requantises as a task that needs no split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE, align
from delegate.lower.cost import ceil_div
from delegate.lower.tiling.geometry import ConvGeometry, Part

# Bytes of a sum in memory.
SUM_BYTES = 4


@dataclass(frozen=True, slots=True)
class InputGroup:
    """Input channels [first, + channels), whole surfaces, and the banks their pixels take."""

    first: int
    channels: int
    data_banks: int


@dataclass(frozen=True, slots=True)
class SumWork:
    """``sum_kernels``: kernels of the passes that sum. ``passes_per_group``: 2 or 3 where weights
    minus their zero point need as many int8 kernels. ``last_sum_tasks``: the last sum of a pixel in
    so many tasks. ``copy_tasks``: per pixel, to bring per-channel operands.
    """

    sum_kernels: int
    passes_per_group: int = 1
    last_sum_tasks: int = 1
    copy_tasks: int = 0


@dataclass(frozen=True, slots=True)
class InputGroups:
    """``tasks``: for all pixels of all images."""

    groups: tuple[InputGroup, ...]
    tasks: int


def plan_input_groups(geometry: ConvGeometry, work: SumWork) -> InputGroups | None:
    """The fewest groups of equal size that fit, or None if not even one surface does, or a cube
    does not hold the results.

    A group fits if the weight banks hold two groups of its kernels, one of them being fetched
    while the other is used.
    """
    lanes, entry = geometry.channels, geometry.cbuf.entry_bytes
    if align(max(geometry.outputs, work.sum_kernels), geometry.group) > geometry.limits.cube_size:
        return None
    for count in range(2, lanes // CHANNELS_PER_SURFACE + 1):
        size = ceil_div(lanes, count)
        size = align(size, entry if size > entry else ATOM_BYTES)
        banks = _data_banks(geometry, size, max(geometry.kernels, work.sum_kernels))
        if banks is not None:
            groups = _groups(lanes, size, banks)
            pixels = geometry.images * geometry.rows.output_size * geometry.columns.output_size
            sums = (len(groups) - 1) * work.passes_per_group + work.last_sum_tasks - 1
            return InputGroups(groups, pixels * (work.copy_tasks + sums + 1))
    return None


def _data_banks(geometry: ConvGeometry, channels: int, kernels: int) -> int | None:
    """Banks for the widest window of ``channels``, or None if the kernels do not fit the rest."""
    rows = min(geometry.rows.reach, geometry.rows.input_size)
    columns = min(geometry.columns.reach, geometry.columns.input_size)
    entries = geometry.row_entries(columns, channels)
    products = geometry.taps * channels
    if max(rows, columns) > geometry.limits.feature_size or entries > geometry.cbuf.max_row_entries:
        return None
    if channels > geometry.limits.input_channels or products > geometry.limits.products:
        return None
    banks = geometry.cbuf.banks_of_image(rows, columns, entries)
    part = Part(0, kernels, geometry.outputs)
    narrowed = replace(geometry, channels=channels)
    wanted = min(2 * narrowed.group_bytes(part), narrowed.weight_bytes(part))
    fits = banks + ceil_div(wanted, geometry.cbuf.bank_bytes) <= geometry.cbuf.banks
    return banks if fits else None


def _groups(lanes: int, size: int, banks: int) -> tuple[InputGroup, ...]:
    return tuple(
        InputGroup(first, min(size, lanes - first), banks) for first in range(0, lanes, size)
    )
