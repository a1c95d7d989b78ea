"""Elements anywhere in an image: a reorder for each piece of a map that gives pixels of its own.

What a result repeats is moved once, and copied from the result itself, as much as is there each
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip, Primitive
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.moves import Moves, Spot, as_they_are, moves_of
from delegate.lower.reorder import MOST_TASKS, reorder
from delegate.lower.selection import Move, Moving
from delegate.lower.task import Ref, Task
from delegate.model.index_map import Digit, IndexMap, MapError, Piece, box_piece, strided

_MOST_WEIGHTS: Final = 1 << 24
"""Weights of a task that repeats or chooses: each channel of the source for each of the result."""


def rearrangement(
    chip: Chip, found: IndexMap, source: View, result: View, written: int, *, is_known: bool = False
) -> Move | None:
    """Return how ``found`` makes ``result`` of ``source``. ``written``: the channels of the result
    with group padding. None: tasks, with ``is_known`` those that ``chip`` is known to have, cannot
    do it (see ``moves_of``), or they or their weights are more than those of a network. Raises
    MapError.
    """
    if max(source.images, result.images) > MOST_TASKS:
        return None
    has_row_gaps = not is_known or Primitive.ROW_GAPS not in chip.lacks
    parts: dict[IndexMap, _Part] = {}
    places = image_by_image(found, source, result)
    for _, _, moved in places:
        if moved in parts:
            continue
        part = _part(chip, moved, source, result, written, has_row_gaps)
        if part is None:
            return None
        parts[moved] = part
    count = sum(parts[moved][0] for _, _, moved in places)
    if count > MOST_TASKS:
        return None
    move = _in_turn([(given, made, parts[moved]) for given, made, moved in places])
    return move._replace(launches=count)


_Part = tuple[int, Sequence[Move], Sequence[Move]]
"""The number of tasks, those that move pixels of an image, and that repeat them in the result."""


def _part(
    chip: Chip, found: IndexMap, source: View, result: View, written: int, has_row_gaps: bool
) -> _Part | None:
    """Return the tasks for an image; None: they cannot do it, or their weights are too many."""
    made = moves_once_and_again(found, (source.pixels, source.channels), result.channels, written)
    if made is None:
        return None
    # Rows of what only changes its order are as long as they lie.
    is_folded = not found.is_order(source.pixels * source.channels)
    if is_folded and source.channels * written > _MOST_WEIGHTS:
        return None
    count = 0
    parts: tuple[list[Move], list[Move]] = [], []
    for lanes, several, moved in zip((source.channels, written), made, parts, strict=True):
        for moves in several:
            given = chip, moves, lanes, written
            part = reorder(*given, is_folded=is_folded, has_row_gaps=has_row_gaps)
            if part is None:
                return None
            count += part[0]
            moved.append(part[1])
    return count, *parts


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


def _in_turn(places: Sequence[tuple[int, int, _Part]]) -> Move:
    """Return the move of all parts, each from an image of the source to one of the result."""

    def tasks(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        has_images = max(source.view.images, target.view.images) > 1
        for image, number, (_, moved, copied) in places:
            given, made = source, target
            if has_images:
                given, made = source.image(image), target.image(number)
            for move in moved:
                yield from move.tasks(moving, given, made, work)
            for move in copied:
                yield from move.tasks(moving, made, made, work)

    first = [move for *_, (_, moved, _) in places for move in moved]
    everything = [*first, *(move for *_, (_, _, copied) in places for move in copied)]
    return Move(
        tasks,
        reads=max(move.reads for move in first),
        writes=max(move.writes for move in everything),
        work_bytes=max(move.work_bytes for move in first),
        surface_pixels=max(move.surface_pixels for move in everything),
    )


def image_by_image(found: IndexMap, source: View, result: View) -> list[tuple[int, int, IndexMap]]:
    """Return every image of ``source`` that has elements of one of ``result``, that one, and which
    these are, counted within the two. Raises MapError.
    """
    if max(source.images, result.images) == 1:
        return [(0, 0, found)]
    size, each = source.pixels * source.channels, result.pixels * result.channels
    places = []
    for number in range(result.images):
        whole = strided((each,), (1,), number * each).compose(found)
        ends = [at // size for piece in whole.pieces for at in _ends(piece)]
        for image in range(min(ends, default=0), max(ends, default=-1) + 1):
            inside = Piece(0, 0, image * size, (Digit(size, 1, 1),))
            moved = whole.compose(IndexMap(size * source.images, (inside,)))
            if moved.pieces:
                places.append((image, number, moved))
        if len(places) > MOST_TASKS:
            raise MapError(f"more than {MOST_TASKS} images meet")
    return places


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
