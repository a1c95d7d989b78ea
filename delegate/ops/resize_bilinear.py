"""RESIZE_BILINEAR to twice the size: a transposed convolution whose weights are quarters, of the
image with its outermost pixels repeated. On a chip of which no program writes pixels apart, see
``blends``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.limits import surfaces_of
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Memory, Operation, Plan, Planning, image_by_image, layer_of
from delegate.lower.padding import Mirror, Side
from delegate.lower.rows_as_surfaces import writes_no_pixels_apart
from delegate.lower.selection import (
    Moving,
    Selection,
    is_depthwise,
    kernels,
    map_bytes,
    surfaces_written,
)
from delegate.lower.task import Ref, Task
from delegate.lower.weights import depthwise_channels
from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import resizing
from delegate.ops.shared.blends import BLENDS, QUARTERS, Blend, BlendPlan, sixteenths

_MOST_TAPS = 16
"""Of a stencil of rows and columns, of which four meet pixels."""
_BITS = 10
"""Of the kernels' fractions."""


@dataclass(frozen=True, slots=True)
class ResizeBilinearOptions(Options):
    UNION_TYPE = 15

    align_corners: bool = option(FieldKind.BOOL, slot=2, offset=0)
    half_pixel_centers: bool = option(FieldKind.BOOL, slot=3, offset=1)


@dataclass(frozen=True, slots=True)
class Stencil:
    """What becomes of one side: ``weights``, in quarters, over rows ``spread`` apart, ``padding``
    zeros before the first, of the image with ``border`` rows repeated.
    """

    weights: tuple[int, ...]
    spread: int
    padding: int
    border: Side

    def rows(self, size: int, output: int) -> npt.NDArray[np.int64]:
        """The quarters of every row of the image in every row of the result."""
        found = np.zeros((output, size), np.int64)
        for row in range(output):
            for tap, weight in enumerate(self.weights):
                place, between = divmod(row + tap - self.padding, self.spread)
                if not between and 0 <= place < size + sum(self.border):
                    found[row, min(max(place - self.border[0], 0), size - 1)] += weight
        return found


_Side = TypeVar("_Side", Stencil, Blend)

SAME = Stencil((4,), 1, 0, (0, 0))
CENTRES = Stencil((1, 3, 3, 1), 2, 0, (1, 1))
CORNERS = Stencil((2, 4, 2), 2, 1, (0, 1))
ALIGNED = Stencil((2, 4, 2), 2, 1, (0, 0))


def quarters(
    options: ResizeBilinearOptions, size: int, output: int
) -> npt.NDArray[np.int64] | None:
    """How much of every row of the image is in each of the result, as the kernels compute it in
    fixed point; None: not in quarters.
    """
    is_aligned = options.align_corners and output > 1
    above, below = (size - 1, output - 1) if is_aligned else (size, output)
    scale = ((above << _BITS) + below // 2) // below
    found = np.zeros((output, size), np.int64)
    for row in range(output):
        place = row * scale
        if options.half_pixel_centers:
            place += scale // 2 - (1 << (_BITS - 1))
        lower = max(place, 0) >> _BITS
        upper = min((place + (1 << _BITS) - 1) >> _BITS, size - 1)
        part, rest = divmod(place - (lower << _BITS), (1 << _BITS) // QUARTERS)
        if rest or lower >= size:
            return None
        found[row, lower] += QUARTERS - part
        found[row, max(upper, 0)] += part
    return found


STENCILS = (SAME, ALIGNED, CORNERS, CENTRES)


def stencil(
    options: ResizeBilinearOptions, size: int, output: int, known: Sequence[_Side]
) -> _Side | None:
    """What of ``known`` gives the very quarters from as few rows as that takes; None: nothing."""
    wanted = quarters(options, size, output)
    if wanted is None:
        return None
    return next((s for s in known if (s.rows(size, output) == wanted).all()), None)


def _stencils(graph: Graph, node: Node, known: Sequence[_Side]) -> tuple[_Side, _Side] | None:
    options = node.known_options(ResizeBilinearOptions)
    _, *before, _ = graph.tensor(node.inputs[0]).shape
    _, *after, _ = graph.tensor(node.outputs[0]).shape
    rows, columns = (stencil(options, *sizes, known) for sizes in zip(before, after, strict=True))
    return None if rows is None or columns is None else (rows, columns)


@constraint()
def resized_to_twice(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must stay or become twice as large, with corners aligned 2 n - 1: quarters
    of pixels, and exact.
    """
    found = (
        _stencils(facts.graph, node, BLENDS)
        if writes_no_pixels_apart(facts.chip)
        else _stencils(facts.graph, node, STENCILS)
    )
    if found is not None:
        return None
    before, after = (tensor.shape for tensor in facts.features(node))
    return f"from {list(before[1:3])} to {list(after[1:3])}"


@dataclass(frozen=True, slots=True, eq=False)
class BilinearPlan:
    """Image by image."""

    planning: Planning
    operation: Operation

    @property
    def footprint(self) -> Footprint:
        operation, planning = self.operation, self.planning
        view = planning.tensor(operation.operands[0]).view
        reads = ((operation.operands[0], surfaces_of(view.channels)),)
        written = surfaces_written(planning.chip, view.channels)
        bordered = (view.height + 2) * (view.width + 2)
        work = map_bytes(planning.chip, bordered, view.channels)
        return Footprint(operation.node, reads, operation.result, written, work_bytes=work)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""

        moving = Moving(self.planning.chip, self.operation.node, memory.constants)

        def tasks(source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
            return self._image(moving, source, target, memory.work.place)

        images = image_by_image(self.operation, memory, tasks)
        return layer_of(self.planning, self.operation, images)

    def _image(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        stencils = _stencils(self.planning.graph, moving.node, STENCILS)
        assert stencils is not None  # resized_to_twice ran before
        rows, columns = stencils
        if any((*rows.border, *columns.border)):
            height = source.view.height + sum(rows.border)
            width = source.view.width + sum(columns.border)
            view = replace(source.view, height=height, width=width)
            wide = source.alone(view, work)
            mirror = Mirror(rows.border, columns.border, edge=0)
            yield from mirror.tasks(moving, source.as_bytes, wide.as_bytes)
            source = wide
        yield from self.interpolated(moving, source, target, rows, columns)

    def interpolated(
        self,
        moving: Moving,
        source: DeviceTensor,
        target: DeviceTensor,
        rows: Stencil,
        columns: Stencil,
    ) -> Iterable[Task]:
        """``target`` from ``source``, which has its border. Raises LoweringError."""
        chip, channels = moving.chip, source.view.channels
        taps, depthwise = np.outer(rows.weights, columns.weights), is_depthwise(chip, channels)
        selection = Selection(
            padding=(rows.padding, columns.padding), spread=(rows.spread, columns.spread)
        )
        offset = self.planning.graph.tensor(self.operation.result).dtype.element.offset
        summand, out = sixteenths(chip, offset)
        return moving.move(
            *(source, target, kernels(taps, channels, depthwise=depthwise), selection),
            is_depthwise=depthwise,
            summands=np.full(channels, summand, np.int64),
            out=out,
        )


class HalfBilinearPlan(BilinearPlan):
    """Image by image, depthwise: what is in a channel never meets another. The border is copied
    byte by byte.
    """

    @property
    def footprint(self) -> Footprint:
        operation, chip = self.operation, self.planning.chip
        channels = self.planning.tensor(operation.result).view.channels
        read = surfaces_of(depthwise_channels(channels, chip.groups))
        return replace(
            super().footprint,
            reads=((operation.operands[0], read),),
            writes=chip.groups.surfaces_written(channels, is_depthwise=True),
        )

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        from delegate.lower.half.bound import sum_bound, told

        return told(super().lower(memory), sum_bound(_MOST_TAPS))

    def interpolated(
        self,
        moving: Moving,
        source: DeviceTensor,
        target: DeviceTensor,
        rows: Stencil,
        columns: Stencil,
    ) -> Iterable[Task]:
        """Weights are sixteenths, which fp16 holds."""
        from delegate.ops.shared.half import spread_tasks

        taps = np.outer(rows.weights, columns.weights) / (QUARTERS * QUARTERS)
        padding, spread = (rows.padding, columns.padding), (rows.spread, columns.spread)
        return spread_tasks(
            self.planning, self.operation, source, target, taps, padding, spread, moving.constants
        )


def plan(planning: Planning, operation: Operation) -> Plan:
    """Without pixels apart where the chip does not write them."""
    if not writes_no_pixels_apart(planning.chip):
        return BilinearPlan(planning, operation)
    blends = _stencils(planning.graph, operation.node, BLENDS)
    assert blends is not None  # resized_to_twice ran before
    return BlendPlan(planning, operation, *blends)


def half(operator: Operator) -> Operator:
    """The same stencils in fp16."""
    from delegate.ops.shared import half, half_errors, half_ranges

    rules = (*half.FIRST, *resizing.GEOMETRY, resized_to_twice)
    ranges, spread = half_ranges.of_means, half_errors.by_channel
    return half.half_record(operator, HalfBilinearPlan, rules, ranges=ranges, spread=spread)


OPERATOR = Operator(
    name="RESIZE_BILINEAR",
    options=ResizeBilinearOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=resizing.shapes,
    rules=(*resizing.RULES, resized_to_twice),
    half=half,
    needs=("convolution", "depthwise_convolution"),
)
