"""Tensors whose elements are those of another one in a different order: what reshapes, transposes
and any chain of them make, in the terms of the device: pixels and channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Axis = tuple[int, int]
"""How many elements, and from one to the next in the source."""


@dataclass(frozen=True, slots=True)
class Order:
    """The source's elements one after the other as the result has them, whatever its shape is:
    digits of a number, ``axes``, outermost first.
    """

    axes: tuple[Axis, ...]

    @staticmethod
    def same(shape: Sequence[int]) -> Order:
        """Elements as they are."""
        return Order(((math.prod(shape), 1),))

    def transposed(self, shape: Sequence[int], axes: Sequence[int]) -> Order | None:
        """Return the order of the transposed tensor, seen as ``shape``; None where its dimensions
        are no digits.
        """
        left = self.axes
        dimensions: list[tuple[Axis, ...]] = []
        for size in reversed(shape):
            found = _split(left, size)
            if found is None:
                return None
            left, inner = found
            dimensions.insert(0, inner)
        return Order(_merged(itertools.chain(*(dimensions[axis] for axis in axes))))

    def in_bytes(self, size: int) -> Order:
        """Return the order of the bytes of elements of ``size``."""
        if size == 1:
            return self
        axes = ((count, stride * size) for count, stride in self.axes)
        return Order(_merged((*axes, (size, 1))))

    def strides(self, shape: Sequence[int]) -> tuple[int, ...] | None:
        """Return the stride of each dimension of ``shape``; None where they differ."""
        left = self.axes
        found: list[int] = []
        for size in reversed(shape):
            split = _split(left, size)
            if split is None:
                return None
            left, inner = split
            inner = _merged(inner)
            if len(inner) > 1:
                return None
            found.insert(0, inner[0][1] if inner else 0)
        return tuple(found)

    def moves(self, source_channels: int, channels: int) -> Moves | None:
        """How a tensor of ``channels`` channels is made of one of ``source_channels``; None where
        channels are no digits.
        """
        found = _split(self.axes, channels)
        if found is None:
            return None
        moves: list[list[Step]] = [[] for _ in range(4)]
        for is_channel, axes in enumerate(found):
            target = 1
            for size, stride in reversed(axes):
                parts = _at_pixels(size, stride, source_channels)
                if parts is None:
                    return None
                for count, by, from_channel in parts:
                    moves[2 * from_channel + is_channel].append(Step(count, by, target))
                    target *= count
        return Moves(*(_merged_steps(steps) for steps in moves))


def _split(axes: Sequence[Axis], size: int) -> tuple[tuple[Axis, ...], tuple[Axis, ...]] | None:
    """The outer digits, and the inner ones that count to ``size``."""
    outer = list(axes)
    inner: list[Axis] = []
    while size > 1:
        count, stride = outer.pop()
        if size % count and count % size:
            return None
        if count > size:
            outer.append((count // size, stride * size))
            count = size
        inner.insert(0, (count, stride))
        size //= count
    return tuple(outer), tuple(inner)


def _merged(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    merged: list[Axis] = []
    for size, stride in axes:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = merged[-1][0] * size, stride
        else:
            merged.append((size, stride))
    return tuple(merged)


def _at_pixels(size: int, stride: int, channels: int) -> list[tuple[int, int, bool]] | None:
    """Counts and distances, innermost first: in channels (True), or in pixels of ``channels``."""
    if size == 1:
        return []
    if stride % channels == 0:
        return [(size, stride // channels, False)]
    if size * stride <= channels:
        return [(size, stride, True)]
    inner, rest = divmod(channels, stride)
    if rest or size % inner:
        return None
    return [(inner, stride, True), (size // inner, 1, False)]


@dataclass(frozen=True, slots=True)
class Step:
    """``size`` pixels or channels, ``source`` apart in the source and ``target`` in the result."""

    size: int
    source: int
    target: int


def _merged_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Given innermost first."""
    merged: list[Step] = []
    for step in steps:
        last = merged[-1] if merged else None
        if last and (last.source * last.size, last.target * last.size) == (
            step.source,
            step.target,
        ):
            merged[-1] = Step(last.size * step.size, last.source, last.target)
        else:
            merged.append(step)
    return tuple(merged)


def spots(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Offsets in source and result that ``steps`` lead to."""
    found = [(0, 0)]
    for step in steps:
        found = [
            (a + n * step.source, b + n * step.target) for n in range(step.size) for a, b in found
        ]
    return found


@dataclass(frozen=True, slots=True)
class Moves:
    """Steps, innermost first, from pixels to pixels, pixels to channels (``joined``), channels to
    pixels (``cut``) and channels to channels.
    """

    pixels: tuple[Step, ...]
    joined: tuple[Step, ...]
    cut: tuple[Step, ...]
    channels: tuple[Step, ...]
