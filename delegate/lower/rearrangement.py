"""Elements anywhere in an image: a reorder for each piece of a map that gives pixels of its own.

What a result repeats is moved once, and copied from the result itself, as much as is there each
time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip, Primitive
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.moves import Moves, Spot, as_they_are, moves_of
from delegate.lower.reorder import MOST_TASKS, reorder
from delegate.lower.selection import Move, Moving
from delegate.lower.task import Ref, Task
from delegate.model.index_map import Digit, IndexMap, Piece, box_piece, strided

_MOST_WEIGHTS: Final = 1 << 24
"""Weights of a task that repeats or chooses: each channel of the source for each of the result."""


def rearrangement(
    chip: Chip,
    found: IndexMap,
    source: Spot,
    channels: int,
    written: int,
    images: Sequence[int] = (0,),
    *,
    is_known: bool = False,
) -> Move | None:
    """Return how ``found`` makes an image of ``channels`` channels of ``source``, so many pixels
    and channels. ``written``: the channels of the result with spare lanes; ``images``: of which
    image of the operand each image of the result is made, all alike. None: tasks, with
    ``is_known`` those that ``chip`` is known to have, cannot do it (see ``moves_of``), or they or
    their weights are more than those of a network. Raises MapError.
    """
    made = moves_once_and_again(found, source, channels, written)
    if made is None:
        return None
    # Rows of what only changes its order are as long as they lie.
    is_folded = not found.is_order(math.prod(source))
    has_row_gaps = not is_known or Primitive.ROW_GAPS not in chip.lacks
    count = 0
    parts: tuple[list[Move], list[Move]] = [], []
    for lanes, several, moved in zip((source[1], written), made, parts, strict=True):
        for moves in several:
            part = reorder(
                *(chip, moves, lanes, written), is_folded=is_folded, has_row_gaps=has_row_gaps
            )
            if part is None or (is_folded and lanes * written > _MOST_WEIGHTS):
                return None
            count += part[0]
            moved.append(part[1])
    return _in_turn(*parts, images) if count * len(images) <= MOST_TASKS else None


def moves_once_and_again(
    found: IndexMap, source: Spot, channels: int, written: int
) -> tuple[list[Moves], list[Moves]] | None:
    """Return the moves from the operand to the result, and then in order those within the result;
    see ``rearrangement``.
    """
    made = moves_of(found, source, channels)
    if made is None:
        return None
    split = [_split(moves, written) for moves in made]
    return [once for once, _ in split], [copy for _, copies in split for copy in copies]


def _in_turn(moved: Sequence[Move], copied: Sequence[Move], images: Sequence[int]) -> Move:
    """Return the move of all of these, for each of ``images``."""

    def tasks(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        for number, image in enumerate(images):
            given, made = source, target
            if max(source.view.images, target.view.images) > 1:
                given, made = source.image(image), target.image(number)
            for part in moved:
                yield from part.tasks(moving, given, made, work)
            for part in copied:
                yield from part.tasks(moving, made, made, work)

    everything = (*moved, *copied)
    return Move(
        tasks,
        reads=max(part.reads for part in moved),
        writes=max(part.writes for part in everything),
        work_bytes=max(part.work_bytes for part in moved),
        surface_pixels=max(part.surface_pixels for part in everything),
    )


def by_image(found: IndexMap, results: int, size: int) -> tuple[IndexMap, tuple[int, ...]] | None:
    """Return how each of so many ``results`` is made of an image of ``size`` elements, and of
    which. None: they are not made alike, or of several. Raises MapError.
    """
    each = found.size // results
    images, made = [], set()
    for number in range(results):
        pieces = strided((each,), (1,), number * each).compose(found).pieces
        places = {at // size for piece in pieces for at in _ends(piece)}
        if len(places) != 1:
            return None
        (image,) = places
        images.append(image)
        begin = image * size
        made.add(tuple(p._replace(first_source=p.first_source - begin) for p in pieces))
    return (IndexMap(each, made.pop()), tuple(images)) if len(made) == 1 else None


def _ends(piece: Piece) -> tuple[int, int]:
    """Return the first and the last element of the source."""
    steps = [(digit.size - 1) * digit.source for digit in piece.digits]
    first = piece.first_source
    return first + sum(min(step, 0) for step in steps), first + sum(max(step, 0) for step in steps)


def _split(moves: Moves, channels: int) -> tuple[Moves, list[Moves]]:
    """Return ``moves`` without what repeats all of them, and the copies that do. What is repeated
    between other results is moved each time: a task would read among the pixels that it writes.
    """
    steps = sorted((*moves.pixels, *moves.cut), key=lambda step: step.result)
    inner = max((n for n, step in enumerate(steps, 1) if step.source), default=0)
    copied = []
    for number, step in enumerate(steps[inner:], inner):
        there = [Digit(one.size, one.result, one.result) for one in steps[:number]]
        copied += list(_doubled(there, step, moves.first[1], channels))
    kept = tuple(step for step in moves.pixels if step not in steps[inner:])
    return replace(moves, pixels=kept), copied


def _doubled(there: Sequence[Digit], step: Digit, first: int, channels: int) -> Iterator[Moves]:
    """Yield copies of what is ``there`` from pixel ``first`` of the result on, until it is there as
    often as ``step`` says.
    """
    done = 1
    while done < step.size:
        count = min(done, step.size - done)
        sizes, _, strides = zip(*there, (count, 0, step.result), strict=True)
        steps = tuple(reversed(box_piece(sizes, strides, strides).digits))
        begin = first, first + done * step.result
        yield Moves(steps, (), (), as_they_are(channels), begin)
        done += count
