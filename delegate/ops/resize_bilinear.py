"""RESIZE_BILINEAR to twice the size: a transposed convolution whose weights are quarters, of the
image with its outermost pixels repeated. On a chip of which no program writes pixels apart, see
``blends``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.limits import surfaces_of
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import Mirror, Side
from delegate.lower.rows_as_surfaces import lie_in_memory
from delegate.lower.selection import Moving, Selection, is_depthwise, kernels, map_bytes
from delegate.lower.task import Ref, Task
from delegate.lower.weights import depthwise_channels
from delegate.model.graph import DType, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import resizing
from delegate.ops.shared.blends import BLENDS, QUARTERS, Blend, plan_blends, sixteenths
from delegate.ops.shared.task_plans import TaskPlan, move_plan

_MOST_TAPS = 16
"""The most taps of a stencil of rows and columns, of which four meet pixels."""
_BITS = 10
"""The bits of the kernels' fractions."""


@dataclass(frozen=True, slots=True)
class ResizeBilinearOptions(Options):
    UNION_TYPE = 15

    align_corners: bool = option(FieldKind.BOOL, slot=2, offset=0)
    half_pixel_centers: bool = option(FieldKind.BOOL, slot=3, offset=1)


@dataclass(frozen=True, slots=True)
class Stencil:
    """The stencil of one side: ``weights``, in quarters, over rows ``spread`` apart, ``padding``
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


def _ratio(options: ResizeBilinearOptions, size: int, output: int) -> tuple[int, int]:
    """Rows of the image to rows of the result."""
    is_aligned = options.align_corners and output > 1
    return (size - 1, output - 1) if is_aligned else (size, output)


def quarters(
    options: ResizeBilinearOptions, size: int, output: int
) -> npt.NDArray[np.int64] | None:
    """How much of every row of the image is in each of the result, as the kernels compute it in
    fixed point; None: not in quarters.
    """
    above, below = _ratio(options, size, output)
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
    """Return which of ``known`` gives the very quarters from as few rows as that takes; None:
    nothing.
    """
    wanted = quarters(options, size, output)
    if wanted is None:
        return None
    return next((s for s in known if (s.rows(size, output) == wanted).all()), None)


def _stencils(graph: Graph, node: Node, known: Sequence[_Side]) -> tuple[_Side, _Side] | None:
    options = node.known_options(ResizeBilinearOptions)
    _, *before, _ = graph.tensor(node.inputs[0]).shape
    _, *after, _ = graph.tensor(node.outputs[0]).shape
    sides = list(zip(before, after, strict=True))
    # Kernels of other types compute in float32: no large image is as near to twice its size as
    # fixed point has it.
    if graph.tensor(node.inputs[0]).dtype is not DType.INT8:
        ratios = [_ratio(options, *sizes) for sizes in sides]
        if any((above << _BITS) % below for above, below in ratios):
            return None
    rows, columns = (stencil(options, *sizes, known) for sizes in sides)
    return None if rows is None or columns is None else (rows, columns)


@constraint()
def resized_to_twice(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must stay or become twice as large, with corners aligned 2 n - 1: quarters
    of pixels, and exact.
    """
    found = (
        _stencils(facts.graph, node, BLENDS)
        if lie_in_memory(facts.chip, (2, 2))
        else _stencils(facts.graph, node, STENCILS)
    )
    if found is not None:
        return None
    before, after = (tensor.shape for tensor in facts.features(node))
    return f"from {list(before[1:3])} to {list(after[1:3])}"


Interpolate = Callable[[Moving, DeviceTensor, DeviceTensor, Stencil, Stencil], Iterable[Task]]
"""The tasks from an image with its border to the result, by the stencils of rows and columns."""


def _plan_stencils(
    planning: Planning,
    operation: Operation,
    interpolate: Interpolate,
    *,
    depthwise: bool,
    reads: int,
) -> TaskPlan:
    """Image by image: the border is copied byte by byte, if there is one."""
    chip, view = planning.chip, planning.tensor(operation.operands[0]).view
    stencils = _stencils(planning.graph, operation.node, STENCILS)
    assert stencils is not None  # resized_to_twice ran before
    rows, columns = stencils

    def image(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        if any((*rows.border, *columns.border)):
            height = source.view.height + sum(rows.border)
            width = source.view.width + sum(columns.border)
            wide = source.alone(replace(source.view, height=height, width=width), work)
            mirror = Mirror(rows.border, columns.border, edge=0)
            yield from mirror.tasks(moving, source.as_bytes, wide.as_bytes)
            source = wide
        yield from interpolate(moving, source, target, rows, columns)

    return move_plan(
        planning,
        operation,
        image,
        reads=reads,
        writes=chip.groups.surfaces_written(view.channels, is_depthwise=depthwise),
        work_bytes=map_bytes(chip, (view.height + 2) * (view.width + 2), view.channels),
        by_image=True,
        as_bytes=False,
    )


def plan(planning: Planning, operation: Operation) -> Plan:
    """Without pixels apart where the chip does not write them."""
    chip, channels = planning.chip, planning.tensor(operation.operands[0]).view.channels
    if lie_in_memory(chip, (2, 2)):
        blends = _stencils(planning.graph, operation.node, BLENDS)
        assert blends is not None  # resized_to_twice ran before
        return plan_blends(planning, operation, *blends)
    depthwise = is_depthwise(chip, channels)
    summand, out = sixteenths(chip, planning.graph.tensor(operation.result).dtype.element.offset)

    def interpolate(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, rows: Stencil, columns: Stencil
    ) -> Iterable[Task]:
        taps = np.outer(rows.weights, columns.weights)
        padding, spread = (rows.padding, columns.padding), (rows.spread, columns.spread)
        return moving.move(
            *(source, target, kernels(taps, channels, depthwise=depthwise)),
            Selection(padding=padding, spread=spread),
            is_depthwise=depthwise,
            summands=np.full(channels, summand, np.int64),
            out=out,
        )

    return _plan_stencils(
        planning, operation, interpolate, depthwise=depthwise, reads=surfaces_of(channels)
    )


def half(operator: Operator) -> Operator:
    """The same stencils in fp16, depthwise: what is in a channel never meets another."""
    from delegate.lower.half.bound import BoundedPlan, sum_bound
    from delegate.ops.shared import half, half_errors

    def plan(planning: Planning, operation: Operation) -> Plan:
        def interpolate(
            moving: Moving,
            source: DeviceTensor,
            target: DeviceTensor,
            rows: Stencil,
            columns: Stencil,
        ) -> Iterable[Task]:
            """Weights are sixteenths, which fp16 holds."""
            taps = np.outer(rows.weights, columns.weights) / (QUARTERS * QUARTERS)
            padding, spread = (rows.padding, columns.padding), (rows.spread, columns.spread)
            ends, given = (planning, operation, source, target), (taps, padding, spread)
            return half.spread_tasks(*ends, *given, moving.constants)

        channels = planning.tensor(operation.operands[0]).view.channels
        read = surfaces_of(depthwise_channels(channels, planning.chip.groups))
        found = _plan_stencils(planning, operation, interpolate, depthwise=True, reads=read)
        return BoundedPlan(found, sum_bound(_MOST_TAPS))

    rules = (*half.FIRST, *resizing.GEOMETRY, resized_to_twice)
    return half.half_record(operator, plan, rules, half_errors.BY_CHANNEL)


OPERATOR = Operator(
    name="RESIZE_BILINEAR",
    options=ResizeBilinearOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=resizing.shapes,
    rules=(*resizing.RULES, resized_to_twice),
    half=half,
)
