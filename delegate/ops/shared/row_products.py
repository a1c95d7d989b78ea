"""Images whose rows, and columns, are mixtures of those of another image, by two products: first of
rows, then of columns.

In memory the 16 channels of a surface lie side by side, pixel by pixel. So a surface of H rows and
W columns is, byte for byte, a map of W pixels with 16 H channels: each row is a surface of it. A
convolution of 1 x 1, whose kernels have a row's weights and mix no channels, makes all rows of the
result from all rows of the image. It writes them as surfaces that lie a pixel apart: columns are
the rows of what it writes, and the second product makes columns of the result likewise, which
turns the map back.

Weights of 7 bits are too coarse for positions in fixed point of 10. Where they are, each row is
followed by one with an eighth of its values, which takes the last 3 bits of a weight. The rounding
of eighths counts a 32nd of a step at most: half of one, 8 times of 128.

Few rows of the image are in a row of the result, so kernels of neighbours read the rows that they
meet: products are made in blocks, as many as take the least time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, align, surfaces_of
from delegate.lower.group_padding import padding_copies
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.reorder import MOST_TASKS, keeping_weights
from delegate.lower.selection import (
    Move,
    Moving,
    is_depthwise,
    kernels,
    map_bytes,
    surface_pixels,
    surfaces_written,
)
from delegate.lower.task import Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.lower.tiling.geometry import ceil_div, ddr_cycles, dense_cycles
from delegate.model.cached import cached_property
from delegate.ops.shared.interpolation import Shares, divided
from delegate.ops.shared.moving import move_plan

_FINE_BITS: Final = 3
_FINE: Final = 1 << _FINE_BITS
"""A row is followed by one with its values divided by this."""
_WHOLE: Final = 64
"""The weight of a pixel that is taken alone, a power of two that int8 has."""
_FINE_WHOLE: Final = 128
"""The same with rows of eighths: int8 has 127, and the eighths add the rest."""
PARTS: Final = _FINE_WHOLE * _FINE
"""Shares are rounded to so many parts."""
_BLOCK_ROWS: Final = 2
"""Blocks are of pairs of rows: the DPU writes pairs of surfaces."""
_MOST_ROWS: Final = 4096 // CHANNELS_PER_SURFACE
"""Boards were seen to compute tasks of so many channels and kernels (docs/hazards.md)."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """``shares``: how much of every row of the image is in each of the result, [rows of the result,
    rows of the image].
    """

    shares: Shares

    @cached_property
    def parts(self) -> npt.NDArray[np.int64]:
        """Return the shares in parts of PARTS. Two of a row add up: ties go to the even number."""
        found: npt.NDArray[np.int64] = np.rint(self.shares * PARTS).astype(np.int64)
        return found

    @property
    def displaced(self) -> float:
        """Return the most that parts take of other rows than the shares, of 1."""
        return float(np.abs(self.parts / PARTS - self.shares).sum(axis=1).max()) / 2

    @property
    def is_mixed(self) -> bool:
        """Return whether a row is of more than one."""
        return bool((self.parts.max(axis=1) < PARTS).any())

    @cached_property
    def is_fine(self) -> bool:
        """Return whether 7 bits are too few for a weight."""
        return bool((self.parts % (PARTS // _WHOLE)).any())

    @property
    def whole(self) -> int:
        """Return the sum of a row's weights, eighths not counted."""
        return _FINE_WHOLE if self.is_fine else _WHOLE

    @cached_property
    def weights(self) -> npt.NDArray[np.int8]:
        """Return the weights, [rows of the result, rows of the image with those of eighths]."""
        if not self.is_fine:
            return (self.parts // (PARTS // _WHOLE)).astype(np.int8)
        coarse = np.minimum(self.parts >> _FINE_BITS, _FINE_WHOLE - 1)
        rest = self.parts - (coarse << _FINE_BITS)
        both: npt.NDArray[np.int8] = np.stack([coarse, rest], axis=2).astype(np.int8)
        return both.reshape(len(both), -1)


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of the result from ``first`` on, and the rows of the image that they are made of."""

    first: int
    rows: int
    begin: int
    end: int

    def cycles(self, chip: Chip, pixels: int) -> int:
        """Return the time of its task, for so many pixels of a row."""
        rows = self.rows, self.end - self.begin
        made, read = (CHANNELS_PER_SURFACE * count for count in rows)
        moved = made * read + pixels * (made + read)
        busy = max(dense_cycles(chip, pixels, made, read, 1), ddr_cycles(chip, moved))
        return chip.rates.kick_cycles + busy


def _blocks(weights: npt.NDArray[np.int8], rows: int, *, has_room: bool) -> tuple[_Block, ...]:
    """Cut all rows into blocks of ``rows``, the last one with what is left. Where there is no room
    behind it for the second of a pair, it begins early.
    """
    count = len(weights)
    found = []
    for start in range(0, count, rows):
        left = min(rows, count - start)
        size = left if has_room else align(left, _BLOCK_ROWS)
        first = min(start, count - size)
        met = np.flatnonzero(weights[first : first + size].any(axis=0))
        found.append(_Block(first, size, int(met[0]), int(met[-1]) + 1))
    return tuple(found)


def _best_blocks(
    chip: Chip, weights: npt.NDArray[np.int8], pixels: int, *, has_room: bool
) -> tuple[_Block, ...] | None:
    """Return the blocks that take the least time; None: two rows alone meet too many."""
    pairs = ceil_div(len(weights), _BLOCK_ROWS)
    sizes = sorted({ceil_div(pairs, number) * _BLOCK_ROWS for number in range(1, pairs + 1)})
    most = _MOST_ROWS if has_room else min(_MOST_ROWS, len(weights))
    choices = (_blocks(weights, size, has_room=has_room) for size in sizes if size <= most)
    fitting = [found for found in choices if max(b.end - b.begin for b in found) <= _MOST_ROWS]
    return min(fitting, key=lambda found: sum(b.cycles(chip, pixels) for b in found), default=None)


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Both products of each image of ``channels``, with the blocks of each."""

    rows: Mixture
    columns: Mixture
    channels: int
    row_blocks: tuple[_Block, ...]
    column_blocks: tuple[_Block, ...]

    @property
    def tasks(self) -> int:
        """Return about how many tasks an image takes."""
        blocks = len(self.row_blocks) + len(self.column_blocks)
        wide = self.rows.is_fine + self.columns.is_fine
        return surfaces_of(self.channels) * blocks + 2 * wide


def products_of(
    chip: Chip, rows: Shares, columns: Shares, images: int, channels: int
) -> Products | None:
    """Return how images are made; None: ``chip`` does not write rows apart, a row of the result has
    a single pixel, or that takes too many tasks.
    """
    if Primitive.ROW_GAPS in chip.lacks or len(columns) < _BLOCK_ROWS:
        return None
    sides = Mixture(rows), Mixture(columns)
    first = _best_blocks(chip, sides[0].weights, columns.shape[1], has_room=True)
    second = _best_blocks(chip, sides[1].weights, len(rows), has_room=False)
    if first is None or second is None:
        return None
    found = Products(*sides, channels, first, second)
    return found if images * found.tasks <= MOST_TASKS else None


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """Makes the tasks of an image. ``offset``: of the type, see ``divided``."""

    moving: Moving
    products: Products
    offset: int

    def tasks(self, source: DeviceTensor, target: DeviceTensor, work: Ref) -> Iterator[Task]:
        """Yield both products: columns are the rows of the map between them."""
        chip, products = self.moving.chip, self.products
        rows, columns = products.rows, products.columns
        turned = self._map(source, work, source.view.width, _with_room(rows))
        wide = work.moved(map_bytes(chip, turned.view.pixels, products.channels))
        # Ties to even: rounding them as the kernels do would move half of what is in between twice.
        half_even = 0, OutConvert(shift=rows.whole.bit_length() - 1)
        yield from self._product(source, turned, rows, products.row_blocks, half_even, wide)
        view = replace(turned.view, width=target.view.height)
        pixels = turned.window(view, row_pixels=turned.view.width)
        last = divided(chip, self.offset, columns.whole)
        yield from self._product(pixels, target, columns, products.column_blocks, last, wide)
        ends = surfaces_of(products.channels), surfaces_touched(chip, products.channels)
        yield from padding_copies(chip, target, range(*ends))

    def _map(self, like: DeviceTensor, place: Ref, height: int, width: int) -> DeviceTensor:
        """A map between two tasks, whose surfaces are as far apart as any task writes them."""
        chip, view = self.moving.chip, View(1, height, width, self.products.channels)
        found = like.alone(view, place)
        gap = align(view.pixels, surface_pixels(chip, view.channels)) - view.pixels
        return replace(found, gap_pixels=gap, surfaces=surfaces_written(chip, view.channels))

    def _moved(self, source: DeviceTensor, target: DeviceTensor, shift: int = 0) -> list[Task]:
        """Copy all rows, over a power of two."""
        chip, channels = self.moving.chip, source.view.channels
        depthwise = is_depthwise(chip, channels)
        one = kernels(np.ones((1, 1)), channels, depthwise=depthwise)
        out = OutConvert(shift=shift)
        return [*self.moving.move(source, target, one, is_depthwise=depthwise, out=out)]

    def _product(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        mixture: Mixture,
        blocks: tuple[_Block, ...],
        divided: tuple[int, OutConvert],
        work: Ref,
    ) -> Iterator[Task]:
        """Yield ``target``, turned round, from ``source``, whose rows are surfaces."""
        if mixture.is_fine:
            wide = self._map(source, work, 2 * source.view.height, source.view.width)
            for number, shift in enumerate((0, _FINE_BITS)):
                yield from self._moved(source, _every_second(wide, number), shift)
            source = wide
        summand, out = divided
        for block in blocks:
            made = mixture.weights[block.first : block.first + block.rows, block.begin : block.end]
            weights = np.kron(made, np.eye(CHANNELS_PER_SURFACE, dtype=np.int8))
            tasks = (
                task
                for surface in range(surfaces_of(self.products.channels))
                for task in self.moving.move(
                    _as_surfaces(source, surface, block.begin, block.end - block.begin),
                    _turned(target, surface, block.first, len(made)),
                    weights[:, np.newaxis, np.newaxis],
                    summands=np.full(len(weights), summand, np.int64),
                    out=out,
                )
            )
            yield from keeping_weights(self.moving.chip, tasks)


def _with_room(rows: Mixture) -> int:
    """Return the rows of the result, and one more where a task writes pairs of them."""
    return align(len(rows.shares), _BLOCK_ROWS)


def _every_second(wide: DeviceTensor, first: int) -> DeviceTensor:
    """Return every second row from number ``first`` on."""
    view, width = wide.view, wide.view.width
    half = replace(view, height=view.height // 2)
    return wide.window(half, pixel=first * width, row_pixels=2 * width)


def _as_surfaces(source: DeviceTensor, surface: int, first: int, rows: int) -> DeviceTensor:
    """Return ``rows`` of a surface from ``first`` on as surfaces of a map with a pixel a row."""
    width = source.view.width
    return source.window(
        View(1, width, 1, rows * CHANNELS_PER_SURFACE),
        pixel=first * width,
        surface=surface,
        row_pixels=1,
        surface_bytes=source.line_stride_bytes,
    )


def _turned(target: DeviceTensor, surface: int, first: int, columns: int) -> DeviceTensor:
    """Return ``columns`` of a surface from ``first`` on as surfaces that lie a pixel apart."""
    return target.window(
        View(1, target.view.height, 1, columns * CHANNELS_PER_SURFACE),
        pixel=first,
        surface=surface,
        row_pixels=target.line_stride_bytes // ATOM_BYTES,
        surface_bytes=ATOM_BYTES,
    )


def plan_products(planning: Planning, operation: Operation, products: Products) -> Plan:
    """Plan both products image by image."""
    chip, channels = planning.chip, products.channels
    source = planning.tensor(operation.operands[0])
    offset = planning.graph.tensor(operation.result).dtype.element.offset

    turned = source.view.width * _with_room(products.rows)
    wide = 2 * max(
        source.view.pixels if products.rows.is_fine else 0,
        turned if products.columns.is_fine else 0,
    )
    move = Move(
        lambda moving, *ends: _Image(moving, products, offset).tasks(*ends),
        surfaces_of(channels),
        max(surfaces_of(channels), surfaces_touched(chip, channels)),
        sum(map_bytes(chip, pixels, channels) for pixels in (turned, wide)),
    )
    return move_plan(planning, operation, move, by_image=True)
