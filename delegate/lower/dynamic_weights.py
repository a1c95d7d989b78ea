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


Places = tuple[Ref, Ref]
"""The begin of what is written, and where surfaces go that only complete a pair."""


def copied(
    moving: Moving, order: AtomOrder, places: Places, fill: int, matrix: DeviceTensor
) -> Iterator[ConvTask]:
    """Write ``matrix``, whose pixels are the rows, in ``order``. ``fill``: of elements behind the
    last one of a row. Raises LoweringError.
    """
    source, row_bytes = matrix.as_bytes, matrix.view.channels
    for first in range(0, order.rows, order.unit):
        together = min(order.unit, order.rows - first)
        real = min(together, matrix.view.pixels - first)
        for atoms in _pieces(order, row_bytes // ATOM_BYTES):
            lanes = min(row_bytes - atoms[0] * ATOM_BYTES, len(atoms) * ATOM_BYTES)
            window = source.window(
                View(1, real, 1, lanes),
                pixel=first,
                surface=atoms[0],
                row_pixels=1,
                surface_bytes=source.surface_stride_bytes * atoms.step,
            )
            unit = np.eye(lanes, dtype=np.int8)
            yield from _rows(moving, order, places, fill, window, first, atoms, unit)
            if real < together:
                view = View(1, together - real, 1, ATOM_BYTES)
                zeros = moving.constants.add(bytes(view.height * ATOM_BYTES))
                nothing, empty = source.alone(view, zeros), np.zeros((0, ATOM_BYTES), np.int8)
                yield from _rows(moving, order, places, fill, nothing, first + real, atoms, empty)


def _rows(
    moving: Moving,
    order: AtomOrder,
    places: Places,
    fill: int,
    window: DeviceTensor,
    row: int,
    atoms: range,
    weights: npt.NDArray[np.int8],
) -> Iterator[ConvTask]:
    """The pixels of ``window`` as ``atoms`` of the rows from ``row`` on."""
    target, waste = places
    place = target.moved(order.place(row, atoms[0]))
    if len(atoms) % SURFACES_AT_ONCE:
        assert len(atoms) == 1
        surface = waste.offset - place.offset
    else:
        surface = order.place(row, atoms[1]) - order.place(row, atoms[0])
    result = replace(
        window,
        view=View(1, window.view.height, 1, len(atoms) * ATOM_BYTES),
        location=place,
        within=Strides(surface, 0, order.stored(atoms[0]) * ATOM_BYTES),
    )
    kernels = np.zeros((len(atoms) * ATOM_BYTES, 1, 1, weights.shape[1]), np.int8)
    kernels[: len(weights), 0, 0] = weights
    yield from _moved(moving, window, result, kernels, fill)


def turned(
    moving: Moving, order: AtomOrder, target: Ref, rows: int, fill: int, matrix: DeviceTensor
) -> Iterator[ConvTask]:
    """Write ``matrix``, whose pixels are the columns, at ``target`` in ``order``, of which the
    first ``rows`` are read; see ``copied``. Raises LoweringError.
    """
    per = matrix.element.lanes

    def kind(atom: int) -> tuple[int, int, int]:
        real = min(max(matrix.view.pixels - atom * per, 0), per)
        return order.stored(atom), atom % order.block, real

    for surface in range(surfaces_of(matrix.view.channels)):
        first = surface * per
        for (_, _, real), found in groupby(sorted(range(order.atoms), key=kind), kind):
            written = target, min(per, rows - first)
            yield from _block(moving, order, written, fill, matrix, surface, list(found), real)


def _block(
    moving: Moving,
    order: AtomOrder,
    written: tuple[Ref, int],
    fill: int,
    matrix: DeviceTensor,
    surface: int,
    atoms: list[int],
    real: int,
) -> Iterator[ConvTask]:
    """``real`` pixels for each of ``atoms``, which lie evenly: those of the columns in a surface,
    and rows behind the last column that are read.
    """
    target, rows = written
    size, per = matrix.element.bytes, matrix.element.lanes
    first = surface * per
    columns = min(per, matrix.elements.channels - first)
    apart = atoms[1] - atoms[0] if len(atoms) > 1 else 0
    view = View(1, len(atoms), max(real, 1), columns * size)
    begin = atoms[0] * per if real else 0
    window = matrix.as_bytes.window(view, pixel=begin, surface=surface, row_pixels=apart * per)
    place = order.place(first, atoms[0])
    line = None if not apart else order.place(first, atoms[1]) - place
    result = replace(
        window,
        view=View(1, len(atoms), 1, rows * ATOM_BYTES),
        location=target.moved(place),
        within=Strides(order.stored(atoms[0]) * ATOM_BYTES, 0, line),
    )
    kernels = np.zeros((rows, per, size, max(real, 1), columns, size), np.int8)
    for column in range(columns):
        for pixel in range(real):
            for byte in range(size):
                kernels[column, pixel, byte, pixel, column, byte] = 1
    shape = (rows * ATOM_BYTES, 1, max(real, 1), columns * size)
    yield from _moved(moving, window, result, kernels.reshape(shape), fill)


def _moved(
    moving: Moving,
    window: DeviceTensor,
    result: DeviceTensor,
    kernels: npt.NDArray[np.int8],
    fill: int,
) -> Iterator[ConvTask]:
    """Lanes without a weight get ``fill``."""
    summands = None
    if fill:
        summands = np.where(kernels.any(axis=(1, 2, 3)), 0, fill).astype(np.int64)
    yield from moving.move(window, result, kernels, summands=summands)


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
