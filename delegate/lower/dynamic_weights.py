"""Matrices in memory brought into the order that the CNA fetches weights in, by convolutions that
move bytes.

A kernel's inputs lie in atoms of 16 bytes: blocks of 32 elements, in each of which the atoms of one
kernel follow those of the one before. A matrix whose rows are the kernels has these atoms already,
in surfaces: its blocks are copied, a pixel to a row of the result. Of one whose columns are the
kernels, blocks of as many elements as an atom has are turned round on the way: the pixels under a
window become an atom, and a result's surfaces, one for each kernel, lie where the next kernel does.

Elements beyond the matrix become what counts as nothing, kernels beyond it 0 where they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from delegate.chip.element import ATOM_BYTES, align, surfaces_of
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.selection import Moving
from delegate.lower.task import ConvTask, Ref

SURFACES_AT_ONCE = 2
"""A dense convolution of bytes writes pairs of surfaces."""
BLOCKS_AT_ONCE = 16
"""A copy's weights are a unit matrix: 64 KiB of 256 lanes."""


@dataclass(frozen=True, slots=True)
class AtomOrder:
    """The places of the atoms of ``rows`` rows of ``atoms`` atoms: ``unit`` rows together, in
    blocks of ``block`` atoms of each row; the last of both may be smaller.

    Weights: the rows are kernels. A feature map is one block of one atom behind the other.
    """

    rows: int
    atoms: int
    unit: int
    block: int

    @property
    def size_bytes(self) -> int:
        return self.rows * self.atoms * ATOM_BYTES

    def stored(self, atom: int) -> int:
        """Atoms of each row in the block of ``atom``."""
        first = atom // self.block * self.block
        return min(self.block, self.atoms - first)

    def place(self, row: int, atom: int) -> int:
        """The byte where it begins."""
        first = row // self.unit * self.unit
        together = min(self.unit, self.rows - first)
        block = atom // self.block * self.block
        atoms = first * self.atoms + block * together
        return (atoms + (row - first) * self.stored(atom) + atom - block) * ATOM_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class MatrixWriter:
    """Writes matrices at ``target`` in ``order``, whose first ``rows`` are read. ``waste``: where
    surfaces go that only complete a pair. ``fill``: of elements behind the last one of a row.

    A matrix is a tensor of one image: its pixels are the rows, its channels the columns.
    """

    moving: Moving
    order: AtomOrder
    rows: int
    target: Ref
    waste: Ref
    fill: int

    def copied(self, matrix: DeviceTensor) -> Iterator[ConvTask]:
        """Rows as they are. Raises LoweringError."""
        order, source, row_bytes = self.order, matrix.as_bytes, matrix.view.channels
        for first in range(0, order.rows, order.unit):
            together = min(order.unit, order.rows - first)
            real = min(together, matrix.view.pixels - first)
            for atoms in _pieces(order, row_bytes // ATOM_BYTES):
                lanes = min(row_bytes - atoms[0] * ATOM_BYTES, len(atoms) * ATOM_BYTES)
                view = View(1, real, 1, lanes)
                window = source.window(
                    view,
                    pixel=first,
                    surface=atoms[0],
                    row_pixels=1,
                    surface_bytes=source.surface_stride_bytes * atoms.step,
                )
                yield from self._rows(window, first, atoms, np.eye(lanes, dtype=np.int8))
                if real < together:
                    nothing = self._zeros(source, together - real)
                    empty = np.zeros((0, ATOM_BYTES), np.int8)
                    yield from self._rows(nothing, first + real, atoms, empty)

    def _rows(
        self, window: DeviceTensor, row: int, atoms: range, weights: npt.NDArray[np.int8]
    ) -> Iterator[ConvTask]:
        """The pixels of ``window`` as ``atoms`` of the rows from ``row`` on."""
        place = self.target.moved(self.order.place(row, atoms[0]))
        if len(atoms) % SURFACES_AT_ONCE:
            assert len(atoms) == 1
            surface = self.waste.offset - place.offset
        else:
            surface = self.order.place(row, atoms[1]) - self.order.place(row, atoms[0])
        result = replace(
            window,
            view=View(1, window.view.height, 1, len(atoms) * ATOM_BYTES),
            location=place,
            within=Strides(surface, 0, self.order.stored(atoms[0]) * ATOM_BYTES),
        )
        kernels = np.zeros((len(atoms) * ATOM_BYTES, 1, 1, weights.shape[1]), np.int8)
        kernels[: len(weights), 0, 0] = weights
        yield from self._moved(window, result, kernels)

    def _zeros(self, like: DeviceTensor, rows: int) -> DeviceTensor:
        place = self.moving.constants.add(bytes(rows * ATOM_BYTES))
        return like.alone(View(1, rows, 1, ATOM_BYTES), place)

    def turned(self, matrix: DeviceTensor) -> Iterator[ConvTask]:
        """Columns as rows. Raises LoweringError."""
        order, per = self.order, matrix.element.lanes

        def kind(atom: int) -> tuple[int, int, int]:
            real = min(max(matrix.view.pixels - atom * per, 0), per)
            return order.stored(atom), atom % order.block, real

        for surface in range(surfaces_of(matrix.view.channels)):
            for (_, _, real), found in groupby(sorted(range(order.atoms), key=kind), kind):
                yield from self._block(matrix, surface, list(found), real)

    def _block(
        self, matrix: DeviceTensor, surface: int, atoms: list[int], real: int
    ) -> Iterator[ConvTask]:
        """``real`` pixels for each of ``atoms``, which lie evenly: those of the columns in a
        surface, and rows behind the last column that are read.
        """
        size, per = matrix.element.bytes, matrix.element.lanes
        first = surface * per
        columns = min(per, matrix.elements.channels - first)
        rows = min(per, self.rows - first)
        apart = atoms[1] - atoms[0] if len(atoms) > 1 else 0
        view = View(1, len(atoms), max(real, 1), columns * size)
        begin = atoms[0] * per if real else 0
        source = matrix.as_bytes
        window = source.window(view, pixel=begin, surface=surface, row_pixels=apart * per)
        place = self.order.place(first, atoms[0])
        line = None if not apart else self.order.place(first, atoms[1]) - place
        result = replace(
            window,
            view=View(1, len(atoms), 1, rows * ATOM_BYTES),
            location=self.target.moved(place),
            within=Strides(self.order.stored(atoms[0]) * ATOM_BYTES, 0, line),
        )
        kernels = np.zeros((rows, per, size, max(real, 1), columns, size), np.int8)
        for column in range(columns):
            for pixel in range(real):
                for byte in range(size):
                    kernels[column, pixel, byte, pixel, column, byte] = 1
        shape = (rows * ATOM_BYTES, 1, max(real, 1), columns * size)
        yield from self._moved(window, result, kernels.reshape(shape))

    def _moved(
        self, window: DeviceTensor, result: DeviceTensor, kernels: npt.NDArray[np.int8]
    ) -> Iterator[ConvTask]:
        """Lanes without a weight get ``fill``."""
        summands = None
        if self.fill:
            summands = np.where(kernels.any(axis=(1, 2, 3)), 0, self.fill).astype(np.int64)
        yield from self.moving.move(window, result, kernels, summands=summands)


def _pieces(order: AtomOrder, whole: int) -> Iterator[range]:
    """Atoms of rows that a task copies: a block's, or where that takes fewer tasks those of the
    same number in an even number of blocks. ``whole``: atoms without a gap at their end.
    """
    block = order.block
    blocks = whole // block // SURFACES_AT_ONCE * SURFACES_AT_ONCE
    if blocks <= block:
        blocks = 0
    for begin in range(0, blocks, BLOCKS_AT_ONCE):
        end = min(begin + BLOCKS_AT_ONCE, blocks)
        for first in range(begin * block, begin * block + block):
            yield range(first, end * block, block)
    for atom in range(blocks * block, order.atoms, block):
        yield range(atom, atom + order.stored(atom))


def map_order(pixels: int, atoms: int) -> AtomOrder:
    """Return the order of a feature map that a matrix becomes, with room to complete a pair."""
    rows = align(pixels, SURFACES_AT_ONCE)
    return AtomOrder(rows, atoms, rows, 1)
