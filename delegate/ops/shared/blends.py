"""RESIZE_BILINEAR to twice the size on a chip of which no program writes pixels apart: pixels are
repeated first, and rows' ends once more; then a convolution takes neighbours together.

Rows of the result at the image's ends are convolutions of their own, whose kernels count the
outermost row for those beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.lower.conv_stages import out_convert
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.last_rounding import last_roundings
from delegate.lower.numerics.pipeline import OutCvt, Pipeline
from delegate.lower.operation import Memory, Operation, Planning, image_by_image, layer_of
from delegate.lower.padding import Side
from delegate.lower.rows_as_surfaces import Repeat
from delegate.lower.selection import Moving, Selection, is_depthwise, kernels, surfaces_written
from delegate.lower.task import ConvTask, OutConvert, Ref

QUARTERS = 4


@dataclass(frozen=True, slots=True)
class Blend:
    """What becomes of one side: ``weights``, in quarters, over rows that are repeated ``factor``
    times, and the outermost of them ``ends`` times more.
    """

    weights: tuple[int, ...]
    factor: int
    ends: Side

    def rows(self, size: int, output: int) -> npt.NDArray[np.int64]:
        """The quarters of every row of the image in every row of the result."""
        found = np.zeros((output, size), np.int64)
        for row in range(output):
            for tap, weight in enumerate(self.weights):
                place = row + tap - self.ends[0]
                if place < size * self.factor + self.ends[1]:
                    found[row, min(max(place // self.factor, 0), size - 1)] += weight
        return found

    def at(self, row: int, size: int) -> tuple[int, ...]:
        """The weights of a row of the result without what is beyond ``size`` rows of the image."""
        found = [0] * len(self.weights)
        for tap, weight in enumerate(self.weights):
            place = row + tap - self.ends[0]
            inside = min(max(place, 0), size * self.factor - 1)
            found[tap + inside - place] += weight
        return tuple(found)

    def parts(self, output: int) -> Iterator[range]:
        """Rows of the result with the same weights."""
        before, behind = self.ends
        yield from (range(row, row + 1) for row in range(before))
        if before < output - behind:
            yield range(before, output - behind)
        yield from (range(row, row + 1) for row in range(output - behind, output))


BLENDS = (
    Blend((4,), 1, (0, 0)),
    Blend((2, 2), 2, (0, 0)),
    Blend((2, 2), 2, (0, 1)),
    Blend((1, 2, 1), 2, (1, 1)),
)
"""As it is; to 2 n - 1, with corners aligned; from the corner; from the centre."""


def sixteenths(chip: Chip, offset: int) -> tuple[int, OutConvert]:
    """What is added to sums of sixteenths, and how they become results. ``offset``: of the type, 0
    or 128; the kernels round halves away from zero, and uint8 has no negative values.
    """
    shift = (QUARTERS * QUARTERS).bit_length() - 1
    # The sums are below 2^14: the first way is equal.
    whole = Pipeline(out=OutCvt(1, shift, -offset))
    last = next(last_roundings(whole, has_ties_away=chip.has("ties_away")))
    return offset << shift, out_convert(last)


@dataclass(frozen=True, slots=True, eq=False)
class BlendPlan:
    """Image by image."""

    planning: Planning
    operation: Operation
    rows: Blend
    columns: Blend

    @property
    def _repeat(self) -> Repeat:
        factors, ends = (self.rows.factor, self.columns.factor), self.columns.ends
        view = self.planning.tensor(self.operation.operands[0]).view
        return Repeat(self.planning.chip, view, factors, ends=ends, is_staged=True)

    @property
    def footprint(self) -> Footprint:
        operation, chip = self.operation, self.planning.chip
        source, repeat = self.planning.tensor(operation.operands[0]), self._repeat
        image = replace(source, view=replace(source.view, images=1))
        channels = source.view.channels
        return Footprint(
            operation.node,
            ((source.index, repeat.surfaces_read),),
            operation.result,
            surfaces_written(chip, channels),
            work_bytes=repeat.staged_bytes(image),
            surface_pixels=chip.forms.surface_pixels(is_depthwise(chip, channels)),
        )

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""

        moving = Moving(self.planning.chip, self.operation.node, memory.constants)

        def tasks(source: DeviceTensor, target: DeviceTensor) -> Iterator[ConvTask]:
            return self._image(moving, source, target, memory.work.place)

        images = image_by_image(self.operation, memory, tasks)
        return layer_of(self.planning, self.operation, images)

    def _image(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[ConvTask]:
        repeated = self._repeat.staged(source, work)
        yield from self._repeat.tasks(moving, source, repeated)
        channels, view = source.view.channels, target.view
        offset = self.planning.graph.tensor(self.operation.result).dtype.element.offset
        summand, out = sixteenths(moving.chip, offset)
        depthwise = is_depthwise(moving.chip, channels)
        for rows in self.rows.parts(view.height):
            taps = np.outer(self.rows.at(rows.start, source.view.height), self.columns.weights)
            yield from moving.move(
                *(repeated, target, kernels(taps, channels, depthwise=depthwise)),
                Selection(padding=(self.rows.ends[0], 0)),
                is_depthwise=depthwise,
                summands=np.full(channels, summand, np.int64),
                out=out,
                region=(rows, range(view.width)),
            )
