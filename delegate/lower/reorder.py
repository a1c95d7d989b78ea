"""Elements in another order, by convolutions with permutations for weights.

Pixels lie anywhere, as rows of one pixel that lie apart. Under a window lie the pixels that become
channels of one; each part of the channels that becomes pixels is a convolution of its own. Where
whole rows of pixels change places with the channels, blocks of 16 by 16 are turned round: a kernel
for each of the 256 results, which are written as 16 surfaces that lie a pixel apart.

Tasks of some chips have no gaps between rows, neither of what they read nor of what they write.
There parts of the channels that become pixels side by side do so at once: a pixel is an image of
one column, with as much padding on both sides as the kernel reaches over, so that each column of
the kernel gives a pixel of its own. All else is moved pixel by pixel, in rows where pixels stay
neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.lower.group_padding import padding_copies
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.moves import Moves, as_they_are, spots
from delegate.lower.numerics.pipeline import Int64Array
from delegate.lower.selection import Move, Moving, Selection, is_depthwise, surfaces_written
from delegate.lower.task import ConvTask, Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.index_map import Digit

BLOCK = CHANNELS_PER_SURFACE
MOST_TASKS = 256
"""More launches than convolutions of a network take: the CPU is faster."""

MOST_COLUMNS = 64
"""The pixels of a row of many that lie one behind the other: rows are cut into tiles, pixels of a
row are not.
"""

POINT = Digit(1, 1, 1)

Counted = tuple[int, Move]
"""The number of tasks, and what they do."""

Grid = tuple[Digit, Digit, list[Digit]]
"""Rows and columns of one task, and what is left for several."""


def reorder(
    chip: Chip,
    moves: Moves,
    lanes: int,
    channels: int,
    *,
    is_folded: bool = False,
    has_row_gaps: bool = True,
) -> Counted | None:
    """Return how tasks, each of which fits CBUF, make ``moves`` of pixels of ``lanes`` to such of
    ``channels``; None: they cannot. ``is_folded``: rows have up to MOST_COLUMNS pixels.
    """
    moved = _moving(chip, moves, lanes, channels, is_folded, has_row_gaps)
    if has_row_gaps:
        found = _turning(chip, moves, lanes, channels, is_folded)
    else:
        found = _in_columns(chip, moves, lanes, channels)
    if moved is None or (found is not None and found[0] < moved[0]):
        return found
    return moved


def _size(steps: Iterable[Digit]) -> int:
    return math.prod(step.size for step in steps)


def _fits(chip: Chip, side: int, lanes: int, has_row_gaps: bool) -> bool:
    """Return whether kernels have so many columns; on a chip without gaps between rows, as many
    rows, too, in a group that fits.
    """
    if side > chip.limits.kernel_size or has_row_gaps:
        return side <= chip.limits.kernel_size
    weights = chip.groups.dense_kernels * side**2 * chip.groups.depthwise_lanes(lanes)
    return weights <= chip.cbuf.weight_slice_bytes


def _moving(
    chip: Chip, moves: Moves, lanes: int, channels: int, is_folded: bool, has_row_gaps: bool
) -> Counted | None:
    """Return the move of pixels as they lie; None: the window is too wide."""
    if _size(moves.joined) > chip.limits.kernel_size:
        return None
    reach = 1 + max(source for source, _ in spots(moves.joined))
    if not _fits(chip, reach, lanes, has_row_gaps):
        return None
    grid = _grid(moves, reach, is_folded, has_row_gaps)

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> Iterable[Task]:
        made = _moved(moving, source, target, moves, reach, grid)
        return keeping_weights(chip, made) if has_row_gaps else made

    is_unit = reach == 1 and _keeps_channels(moves, channels)
    ends_depthwise = is_unit and is_depthwise(chip, channels)
    return _size(moves.cut) * _size(grid[2]), Move(
        tasks,
        reads=surfaces_of(lanes if has_row_gaps else chip.groups.depthwise_lanes(lanes)),
        writes=chip.groups.surfaces_written(channels, is_depthwise=ends_depthwise),
        surface_pixels=chip.groups.surface_pixels(ends_depthwise),
    )


def _moved(
    moving: Moving,
    source: DeviceTensor,
    target: DeviceTensor,
    moves: Moves,
    reach: int,
    grid: Grid,
) -> Iterator[Task]:
    rows, columns, loops = grid
    channels = target.view.channels
    for first_channel, part in spots(moves.cut):
        surface, lane = divmod(first_channel, CHANNELS_PER_SURFACE)
        weights = _weights(moves, channels, lane, reach)
        lanes = weights.shape[3]
        for begin, end in spots(loops, moves.first):
            view = View(1, rows.size, columns.size + reach - 1, lanes)
            window = source.window(view, pixel=begin, surface=surface, row_pixels=rows.source)
            view = View(1, rows.size, columns.size, channels)
            result = target.window(view, pixel=end + part, row_pixels=rows.result)
            if _is_unit(weights) and is_depthwise(moving.chip, lanes):
                yield from moving.select(window, result)
            else:
                yield from moving.move(window, result, weights)


def _grid(moves: Moves, reach: int, is_folded: bool, has_row_gaps: bool) -> Grid:
    """Windows that reach over several pixels are one to a row."""
    left = list(moves.pixels)
    columns = next((s for s in left if (s.source, s.result, reach) == (1, 1, 1)), POINT)
    if columns in left:
        left.remove(columns)
    apart = (step for step in left if step.source >= columns.size)  # no row is in another
    fitting = (
        step for step in apart if (step.source >= reach if has_row_gaps else step[1:] == (reach, 1))
    )
    rows = max(fitting, key=lambda step: step.size, default=POINT)
    if rows in left:
        left.remove(rows)
    if is_folded and rows is POINT:
        size = columns.size
        width = max(n for n in range(1, MOST_COLUMNS + 1) if size % n == 0)
        rows, columns = Digit(size // width, width, width), Digit(width, 1, 1)
    return rows, columns, left


def _places(moves: Moves) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return tap, channel of the source and channel of the result of each weight."""
    taps, channels = np.array(spots(moves.joined)), np.array(moves.channels)
    tap_at, channel = np.broadcast_arrays(taps[:, :1], channels[:, 0])
    return tap_at, channel, taps[:, 1:] + channels[:, 1]


def _keeps_channels(moves: Moves, channels: int) -> bool:
    """Return whether every channel of a pixel stays what it is."""
    _, channel, result = _places(moves)
    found = np.unique(channel[channel == result])
    return int(found.size) == channels == 1 + int(channel.max())


def _weights(moves: Moves, channels: int, lane: int, reach: int) -> npt.NDArray[np.int8]:
    """Return the weights of the part that begins at ``lane``."""
    tap_at, channel, result = _places(moves)
    weights = np.zeros((channels, 1, reach, lane + 1 + int(channel.max())), np.int8)
    weights[result, 0, tap_at, lane + channel] = 1
    return weights


def _in_columns(chip: Chip, moves: Moves, lanes: int, channels: int) -> Counted | None:
    """Return the move of parts of the channels, ``beside``, that become the pixels of a row, those
    of the pixels of a column at once; None: the kernel is too large.
    """
    beside = next((step for step in moves.cut if step.result == 1), POINT)
    side = beside.size
    if side == 1 or moves.joined or side - 1 > chip.limits.pad:
        return None
    if not _fits(chip, side, lanes, has_row_gaps=False):
        return None
    runs = (step for step in moves.pixels if (step.source, step.result) == (1, side))
    run = next(runs, POINT)
    parts = [step for step in moves.cut if step is not beside]
    pixels = [step for step in moves.pixels if step is not run]

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> Iterator[Task]:
        for first_channel, part in spots(parts):
            surface, lane = divmod(first_channel, CHANNELS_PER_SURFACE)
            weights = _weights_of_columns(_weights(moves, channels, lane, 1), beside)
            for begin, end in spots(pixels, moves.first):
                view = View(1, run.size, 1, weights.shape[3])
                column = source.window(view, pixel=begin, surface=surface, row_pixels=1)
                view = View(1, run.size, side, channels)
                result = target.window(view, pixel=end + part, row_pixels=side)
                selection = Selection(padding=(0, side - 1))
                yield from moving.move(column, result, weights, selection)

    return _size(parts) * _size(pixels), Move(
        tasks,
        reads=surfaces_of(chip.groups.depthwise_lanes(lanes)),
        writes=chip.groups.surfaces_written(channels, is_depthwise=False),
    )


def _weights_of_columns(one: npt.NDArray[np.int8], beside: Digit) -> npt.NDArray[np.int8]:
    """Return kernels whose last column meets a row's first pixel, of those for ``one`` of them."""
    outputs, _, _, lanes = one.shape
    shape = (outputs, 1, beside.size, lanes + (beside.size - 1) * beside.source)
    weights = np.zeros(shape, np.int8)
    for number in range(beside.size):
        first = number * beside.source
        weights[:, 0, -1 - number, first : first + lanes] = one[:, 0, 0]
    return weights


def _turning(
    chip: Chip, moves: Moves, lanes: int, channels: int, is_folded: bool
) -> Counted | None:
    """Return the move of rows of pixels that become channels, in blocks, and of as many channels
    from any on that become pixels; None: more than one row of either changes places.
    """
    steps = (*moves.joined, *moves.cut)
    cut = moves.cut[0] if moves.cut else POINT
    ((first, result), *others) = moves.channels
    if moves.first != (0, 0) or result or others:
        return None
    if max(len(moves.joined), len(moves.cut)) > 1:
        return None
    if not steps or any(step.source != 1 for step in steps):
        return None
    count = _size(moves.pixels) * 2 * (min(-(-channels // BLOCK), -(-cut.size // BLOCK)) + 1)
    if first % BLOCK or cut.size % BLOCK:
        return count, _turning_staged(chip, moves, cut, channels, is_folded)
    writes = max(surfaces_of(channels), surfaces_touched(chip, channels))

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> Iterator[Task]:
        taken = source.surfaces_from(first, cut.size)
        yield from keeping_weights(chip, _blocks(moving, taken, target, cut, moves.pixels))
        yield from padding_copies(chip, target, range(surfaces_of(channels), writes))

    return count, Move(tasks, surfaces_of(lanes), writes)


def _turning_staged(chip: Chip, moves: Moves, cut: Digit, channels: int, is_folded: bool) -> Move:
    """Return the move of blocks that begin or end within a surface, which are written to a map of
    their own first: the DPU writes pairs of surfaces.
    """
    surface, lane = divmod(moves.channels[0][0], BLOCK)
    apart, pixels = [], align(cut.size, 2)
    for found in moves.pixels:
        apart.append(found._replace(result=pixels))
        pixels *= found.size
    surfaces = surfaces_of(channels)
    steps = [Digit(cut.size, 1, cut.result)]
    for made, here in zip(apart, moves.pixels, strict=True):
        steps.append(Digit(here.size, made.result, here.result))
    there = Moves(tuple(steps), (), (), as_they_are(channels))
    back = _moving(chip, there, channels, channels, is_folded, has_row_gaps=True)
    assert back is not None

    def tasks(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        view = View(1, 1, pixels, channels)
        staged = replace(target.alone(view, work), surfaces=surfaces)
        taken = source.surfaces_from(surface * BLOCK, lane + cut.size)
        blocks = _blocks(moving, taken, staged, cut._replace(result=1), apart, lane)
        yield from keeping_weights(chip, blocks)
        yield from back[1].tasks(moving, staged, target, work)

    size = align(surfaces * pixels * ATOM_BYTES, DMA_ALIGN_BYTES)
    reads = surface + surfaces_of(lane + cut.size)
    return Move(tasks, reads, surfaces_written(chip, channels), size)


def _blocks(
    moving: Moving,
    source: DeviceTensor,
    target: DeviceTensor,
    cut: Digit,
    pixels: Sequence[Digit],
    lane: int = 0,
) -> Iterator[Task]:
    """Blocks in a column of pixels, or of surfaces, whichever are more, are rows of a task. The
    first channel is ``lane``.
    """
    pixels_apart = (BLOCK, target.surface_stride_bytes // ATOM_BYTES)
    surfaces_apart = (source.surface_stride_bytes // ATOM_BYTES, BLOCK * cut.result)
    for high, wide, block, skipped in _quarters(target.view.channels, cut.size, lane):
        for begin, end in spots(pixels):
            along_pixels = high[1] >= wide[1]
            apart = pixels_apart if along_pixels else surfaces_apart
            rows, loops = (high, wide) if along_pixels else (wide, high)
            for number in range(loops[0], loops[0] + loops[1]):
                at = (rows[0], number) if along_pixels else (number, rows[0])
                view = View(1, rows[1], block[0], skipped + block[1])
                first = begin + at[0] * BLOCK
                window = source.window(view, pixel=first, surface=at[1], row_pixels=apart[0])
                result = target.window(
                    View(1, rows[1], 1, block[1] * BLOCK),
                    pixel=end + max(at[1] * BLOCK - lane, 0) * cut.result,
                    surface=at[0],
                    row_pixels=apart[1],
                    surface_bytes=cut.result * ATOM_BYTES,
                )
                yield from moving.move(window, result, _turning_weights(*block, skipped))


def keeping_weights(chip: Chip, tasks: Iterable[Task]) -> Iterator[Task]:
    """``tasks``, each with the weights that the one before it fetched, if they are its own and
    fit.
    """
    before: Task | None = None
    for task in tasks:
        if isinstance(task, ConvTask) and isinstance(before, ConvTask):
            found, wanted = (
                (one.weights, one.data_banks, one.weight_banks) for one in (before, task)
            )
            fits = task.weights.total_bytes <= task.weight_banks * chip.cbuf.bank_bytes
            before = replace(task, weight_reuse=True) if found == wanted and fits else task
        else:
            before = task
        yield before


def _turning_weights(pixels: int, channels: int, first: int) -> npt.NDArray[np.int8]:
    """Lane ``p`` of surface ``c`` is channel ``c`` of pixel ``p``, from channel ``first`` on."""
    weights = np.zeros((channels, BLOCK, 1, pixels, first + channels), np.int8)
    for channel in range(channels):
        for pixel in range(pixels):
            weights[channel, pixel, 0, pixel, first + channel] = 1
    return weights.reshape(-1, 1, pixels, first + channels)


def _quarters(
    pixels: int, channels: int, lane: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]]:
    """Yield first blocks and numbers of them along pixels and channels, their size, and the lanes
    before: whole ones and those at the ends. ``lane``: of the first channel.
    """
    for first_row, rows, height in _pieces(pixels):
        if lane:
            yield (first_row, rows), (0, 1), (height, min(BLOCK - lane, channels)), lane
        start = 1 if lane else 0
        for first, count, width in _pieces(max(channels - (BLOCK - lane) * start, 0)):
            yield (first_row, rows), (start + first, count), (height, width), 0


def _pieces(size: int) -> Iterator[tuple[int, int, int]]:
    whole, rest = divmod(size, BLOCK)
    if whole:
        yield 0, whole, BLOCK
    if rest:
        yield whole, 1, rest


def _is_unit(weights: npt.NDArray[np.int8]) -> bool:
    """Return whether every channel stays what it is; each kernel has one weight of 1."""
    outputs, _, reach, lanes = weights.shape
    return reach == 1 and outputs == lanes and bool(weights[:, 0, 0].diagonal().all())
