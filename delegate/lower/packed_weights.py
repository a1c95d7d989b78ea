"""Matrices that the host packs as weights, where they enter the partition.

The array multiplies by weights that lie in memory, whoever put them there. Of a matrix that another
partition or the CPU computed, the host writes every element to its place in the order of the
weights, instead of that of a feature map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delegate.chip.element import ATOM_BYTES, DMA_ALIGN_BYTES, align
from delegate.lower.lowered import Spread, TensorBinding
from delegate.lower.memory.tensors import View


@dataclass(frozen=True, slots=True)
class PackedMatrices:
    """``matrices`` of ``inputs`` x ``kernels`` numbers in the order of weights, one behind the
    other. ``columns_are_kernels``: on the host; else rows are. ``stored`` and ``stored_inputs``:
    with those that complete a group; ``unit``: kernels that lie together; ``block``: inputs that
    do; ``lanes``: numbers of an atom. Every number lies there once for each of ``taps``.
    """

    matrices: int
    kernels: int
    inputs: int
    columns_are_kernels: bool
    stored: int
    unit: int
    stored_inputs: int
    block: int
    lanes: int
    taps: int

    @property
    def kernel_bytes(self) -> int:
        return self.taps * self.stored_inputs * self._number_bytes

    @property
    def _number_bytes(self) -> int:
        return ATOM_BYTES // self.lanes

    @property
    def matrix_bytes(self) -> int:
        return self.stored * self.kernel_bytes

    @property
    def _apart_bytes(self) -> int:
        return align(self.matrix_bytes, DMA_ALIGN_BYTES)

    def place(self, matrix: int) -> int:
        """Return the byte where a matrix begins."""
        return matrix * self._apart_bytes

    @property
    def box_count(self) -> int:
        """Return how many boxes the host writes."""
        whole, rest = divmod(self.inputs, self.block)
        units = -(-self.kernels // self.unit)
        return self.matrices * units * self.taps * (min(whole, 1) + -(-rest // self.lanes))

    @property
    def view(self) -> View:
        """Return the view of the memory that all take, as pixels of one atom."""
        return View(1, self.matrices * self._apart_bytes // ATOM_BYTES, 1, ATOM_BYTES)

    def boxes(
        self, whole: TensorBinding, view: View, spread: Spread | None
    ) -> Iterator[TensorBinding]:
        """Yield the boxes of an input that the host writes. ``whole``: its binding, which lies
        where the matrices do; ``view``: the matrices on the host, whose elements are at ``spread``
        there (None: in order).
        """
        pixels = view.height * view.width * view.channels
        at = spread or Spread(0, pixels, view.width * view.channels, view.channels, 1)
        kernel, lane = at.pixel, at.channel
        if self.columns_are_kernels:
            kernel, lane = lane, kernel
        for matrix in range(self.matrices):
            image, row = divmod(matrix, view.height)
            first = at.first + image * at.image + row * at.row
            for start in range(0, self.kernels, self.unit):
                place = whole.location.moved(self.place(matrix) + start * self.kernel_bytes)
                unit = replace(whole, location=place)
                yield from self._unit(unit, start, first + start * kernel, kernel, lane)

    def _unit(
        self, at: TensorBinding, start: int, first: int, kernel: int, lane: int
    ) -> Iterator[TensorBinding]:
        """Yield the boxes of the kernels from ``start`` on that lie together, from ``at`` on: whole
        blocks of their inputs, and atoms behind the last of these. ``first``: on the host; the next
        ``kernel`` and the next ``lane`` are so far apart there.
        """
        real, stored = (min(self.unit, n - start) for n in (self.kernels, self.stored))
        whole, lanes, number = self.inputs // self.block, self.lanes, self._number_bytes
        block_bytes, ended = stored * self.block * number, whole * self.block
        rest = (self.stored_inputs - ended) * number
        for tap in range(self.taps):
            if whole:
                size = View(whole, real, self.block // lanes, lanes)
                steps = Spread(first, self.block * lane, kernel, lanes * lane, lane)
                yield _box(at, tap * block_bytes, size, self.taps * block_bytes, steps)
            place = whole * self.taps * block_bytes + tap * stored * rest
            for atom in range(ended, self.inputs, lanes):
                size = View(real, 1, 1, min(lanes, self.inputs - atom))
                steps = Spread(first + atom * lane, kernel, 0, 0, lane)
                yield _box(at, place + (atom - ended) * number, size, rest, steps)


def _box(
    at: TensorBinding, place: int, size: View, image_bytes: int, spread: Spread
) -> TensorBinding:
    """Return the binding of a box whose images lie ``image_bytes`` apart, ``place`` bytes behind
    ``at``.
    """
    return replace(
        at,
        images=size.images,
        height=size.height,
        width=size.width,
        channels=size.channels,
        surfaces=1,
        surface_stride_bytes=size.pixels * ATOM_BYTES,
        image_stride_bytes=image_bytes,
        location=at.location.moved(place),
        spread=spread,
    )
