"""Tensors as parts of one another by copies, where they cannot lie inside one another.

Parts that begin at a surface are copied by the DPU alone, through a table where the quantisation
changes. Others are copied to whole surfaces side by side first; a convolution with a permutation
for weights brings their channels together. Parts are cut out by such a convolution too, which also
skips rows and columns.

Read a map between two images in the device's terms: pixels and channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.element import CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View, memory_view
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.selection import Move, Moving, Selection, is_depthwise
from delegate.lower.tables import copy_tasks, function_tasks
from delegate.lower.task import ConvTask, ElementwiseTask, Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Tensor
from delegate.model.index_map import Digit, IndexMap, Piece, coordinates


@dataclass(frozen=True, slots=True)
class Part:
    """``part`` is a box of ``whole``, which begins at this image, row, column and channel of one
    byte. ``steps``: every how many rows and columns are taken.
    """

    part: Tensor
    whole: Tensor
    begin: tuple[int, int, int, int]
    steps: tuple[int, int]

    @property
    def channels(self) -> int:
        """Return the channels of one byte of the part."""
        return memory_view(self.part).channels


def _surface(channel: int) -> int:
    return channel // CHANNELS_PER_SURFACE


def _window(tensor: DeviceTensor, begin: tuple[int, int, int, int], view: View) -> DeviceTensor:
    """Return a box of ``tensor`` that begins at a surface as a tensor of its own."""
    image, row, column, channel = begin
    first = (image * tensor.view.height + row) * tensor.view.width + column
    return tensor.window(view, pixel=first, surface=_surface(channel))


def _copies(
    chip: Chip, source: DeviceTensor, target: DeviceTensor, function: bytes | None
) -> tuple[ElementwiseTask, ...]:
    if function is None:
        return copy_tasks(chip, source, target)
    return function_tasks(chip, source, target, function)


def plan_join(
    planning: Planning,
    operation: Operation,
    parts: Sequence[Part],
    functions: Sequence[bytes | None],
    total: int,
    source_of: Callable[[Memory, int], DeviceTensor],
) -> Plan:
    """Return the plan of a result of ``total`` channels, with group padding that has to be 0, made
    of ``parts``, the operands. ``functions``: results of each part for -128 to 127, as int8; None:
    the same values. ``source_of``: an operand. At surfaces parts are copied directly.
    """
    chip, operands, result = planning.chip, operation.operands, operation.result
    touched = [surfaces_touched(chip, part.channels) for part in parts]
    writes, work_bytes = chip.groups.surfaces_written(total, is_depthwise=False), 0
    tasks: _Joining = _permuted
    if all(part.begin[3] % CHANNELS_PER_SURFACE == 0 for part in parts):
        ends = (_surface(p.begin[3]) + n for p, n in zip(parts, touched, strict=True))
        writes, tasks = max(*ends, surfaces_touched(chip, total)), _directly
    else:
        work_bytes = _staged(chip, parts, planning.tensor(result).as_bytes).size_bytes
    computed = (
        (t, n)
        for t, n in zip(operands, touched, strict=True)
        if planning.graph.tensor(t).constant is None
    )
    reads = tuple(dict(computed).items())
    footprint = Footprint(operation.node, reads, result, writes, work_bytes=work_bytes)

    def made(memory: Memory) -> list[Task]:
        moving = Moving(chip, operation.node, memory.constants)
        sources = [source_of(memory, tensor).as_bytes for tensor in operands]
        joined = list(zip(parts, functions, sources, strict=True))
        return tasks(moving, joined, memory.tensors[result].as_bytes, memory.work)

    return plan_of(planning, operation, footprint, made)


_Joined = Sequence[tuple[Part, bytes | None, DeviceTensor]]
_Joining = Callable[[Moving, _Joined, DeviceTensor, Ref], list[Task]]


def _directly(moving: Moving, joined: _Joined, target: DeviceTensor, _: Ref) -> list[Task]:
    """Copy in ascending order: the next part overwrites what is written beyond a part."""
    chip = moving.chip
    tasks: list[Task] = []
    end = 0
    for part, function, source in joined:
        window = _window(target, part.begin, source.view)
        tasks += _copies(chip, source, window, function)
        touched = surfaces_touched(chip, source.view.channels)
        end = max(end, _surface(part.begin[3]) + touched)
    # What readers of whole groups fetch behind the last part: any values.
    first = joined[0][2]
    for surface in range(end, surfaces_touched(chip, target.view.channels)):
        view = replace(first.view, channels=CHANNELS_PER_SURFACE)
        begin = (0, 0, 0, surface * CHANNELS_PER_SURFACE)
        source = _window(first, (0, 0, 0, 0), view)
        copies = copy_tasks(chip, source, _window(target, begin, view))
        tasks += [replace(t, output=replace(t.output, channels_real=0)) for t in copies]
    return tasks


def _firsts(parts: Iterable[Part]) -> list[int]:
    """Return the first surface of each part among whole ones side by side, and the end of all."""
    return [0, *itertools.accumulate(surfaces_of(part.channels) for part in parts)]


def _staged(chip: Chip, parts: Sequence[Part], target: DeviceTensor) -> DeviceTensor:
    """Return the parts side by side in whole surfaces, with room for whole groups."""
    *firsts, end = _firsts(parts)
    room = max(
        first + surfaces_touched(chip, part.channels)
        for first, part in zip(firsts, parts, strict=True)
    )
    view = replace(target.view, channels=end * CHANNELS_PER_SURFACE)
    return replace(target, view=view, surfaces=room, within=None, gap_pixels=0)


def _permuted(moving: Moving, joined: _Joined, target: DeviceTensor, work: Ref) -> list[Task]:
    """Copy parts to whole surfaces side by side, then bring their channels together."""
    parts = [part for part, _, _ in joined]
    staged = replace(_staged(moving.chip, parts, target), location=work)
    lanes = staged.view.channels
    tasks: list[Task] = []
    weights = np.zeros((target.view.channels, 1, 1, lanes), np.int8)
    for (part, function, source), first in zip(joined, _firsts(parts)[:-1], strict=True):
        lane = first * CHANNELS_PER_SURFACE
        window = _window(staged, (0, 0, 0, lane), source.view)
        tasks += _copies(moving.chip, source, window, function)
        count = np.arange(part.channels)
        weights[part.begin[3] + count, 0, 0, lane + count] = 1
    return [*tasks, *moving.move(staged, target, weights)]


def cut(chip: Chip, part: Part, written: int) -> Move:
    """Return the move of ``part`` out of its whole. ``written``: its channels, with group padding
    that has to be 0.
    """
    image, row, column, channel = part.begin
    lane = channel % CHANNELS_PER_SURFACE
    lanes = lane + part.channels
    is_whole = lane == 0 and written == part.channels
    is_selection = is_whole and is_depthwise(chip, part.channels)

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> list[ConvTask]:
        """Columns left of the part lie under weights that count as zero. Raises LoweringError."""
        rows = (target.view.height - 1) * part.steps[0] + 1
        view = View(target.view.images, rows, source.view.width, lanes)
        window = _window(source, (image, row, 0, channel), view)
        selection = Selection((1, column + 1), (0, column), part.steps)
        if is_selection:
            return moving.select(window, target, selection)
        weights = np.zeros((written, 1, column + 1, lanes), np.int8)
        count = np.arange(part.channels)
        weights[count, 0, column, lane + count] = 1
        return moving.move(window, target, weights, selection)

    writes = chip.groups.surfaces_written(written, is_depthwise=is_selection)
    pixels = chip.groups.surface_pixels(is_selection)
    return Move(tasks, _surface(channel) + surfaces_of(lanes), writes, surface_pixels=pixels)


Spot = tuple[int, int]
"""A place in the source, and one in the result."""


def spots(steps: Sequence[Digit], first: Spot = (0, 0)) -> list[Spot]:
    """Return the places in source and result that ``steps`` from ``first`` on lead to."""
    found = [first]
    for step in steps:
        found = [
            (a + n * step.source, b + n * step.result) for n in range(step.size) for a, b in found
        ]
    return found


def as_they_are(channels: int) -> tuple[Spot, ...]:
    """Return the places of channels that stay what they are."""
    return tuple((channel, channel) for channel in range(channels))


@dataclass(frozen=True, slots=True)
class Moves:
    """Steps of whole pixels or channels, innermost first: from pixels to pixels, pixels to channels
    (``joined``) and channels to pixels (``cut``), from the pixels ``first`` on; and ``channels``
    that become channels. A step of 0 in the source repeats it.
    """

    pixels: tuple[Digit, ...]
    joined: tuple[Digit, ...]
    cut: tuple[Digit, ...]
    channels: tuple[Spot, ...]
    first: Spot = (0, 0)

    @property
    def written(self) -> int:
        """Return the channels that each pixel of the result gets."""
        return math.prod(step.size for step in self.joined) * len(self.channels)


def moves_of(found: IndexMap, source: Spot, channels: int) -> tuple[Moves, ...] | None:
    """Return how ``found`` makes an image of ``channels`` channels of ``source``, so many pixels
    and channels: each gives other pixels. None: steps are pixels and channels at once, go backwards
    from one to the other, or give pixels some of their channels. Raises MapError.
    """
    result = found.size // channels, channels
    together: dict[Moves, list[Spot]] = {}
    for piece in found.by_dimensions(result, source).pieces:
        moves = _moves_of(piece)
        if moves is None:
            return None
        together.setdefault(replace(moves, channels=()), []).extend(moves.channels)
    made = tuple(replace(moves, channels=tuple(spots)) for moves, spots in together.items())
    return made if all(moves.written == channels for moves in made) else None


def _moves_of(piece: Piece) -> Moves | None:
    groups: list[list[Digit]] = [[] for _ in range(4)]
    for digit in reversed(piece.digits):
        (a_pixels, a_channels), (b_pixels, b_channels) = (
            coordinates(distance, 2) for distance in digit[1:]
        )
        if (a_pixels and a_channels) or (b_pixels and b_channels):
            return None
        turns = bool(a_channels) != bool(b_channels)
        if turns and min(a_pixels, a_channels) < 0:
            return None
        group = groups[2 * bool(a_channels or (not a_pixels and b_channels)) + bool(b_channels)]
        group.append(Digit(digit.size, a_pixels or a_channels, b_pixels or b_channels))
    pixels, joined, cut, within = map(tuple, groups)
    (pixel, channel), (place, lane) = (
        coordinates(first, 2) for first in (piece.first_source, piece.first_result)
    )
    return Moves(pixels, joined, cut, tuple(spots(within, (channel, lane))), (pixel, place))
