"""RESIZE_BILINEAR to two, four or eight times the size: a transposed convolution whose weights are
fractions of pixels, of the image with its outermost pixels repeated. On a chip of which no program
writes pixels apart, to twice the size, see ``blends``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.element import surfaces_of
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import Side, mirror
from delegate.lower.selection import Moving, Selection, is_depthwise, kernels, map_bytes
from delegate.lower.task import Ref, Task
from delegate.lower.upsample import lie_in_memory
from delegate.lower.weights import depthwise_channels
from delegate.model.graph import DType, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import reshaping
from delegate.ops.shared.blends import BLENDS, Blend, divided, plan_blends
from delegate.ops.shared.moving import move_plan

_MOST_TAPS = 64
"""The most taps of a stencil of rows and columns, of which four meet pixels. A task takes a cycle
for each tap of 64 channels; with more the CPU is faster, which takes about 1 ns a result.
"""
_BITS = 10
"""The bits of the kernels' fractions."""


@dataclass(frozen=True, slots=True)
class ResizeBilinearOptions(Options):
    UNION_TYPE = 15

    align_corners: bool = option(FieldKind.BOOL, slot=2, offset=0)
    half_pixel_centers: bool = option(FieldKind.BOOL, slot=3, offset=1)


@dataclass(frozen=True, slots=True)
class Stencil:
    """The stencil of one side: ``weights`` over rows ``spread`` apart, ``padding`` zeros before the
    first, of the image with ``border`` rows repeated.
    """

    weights: tuple[int, ...]
    spread: int
    padding: int
    border: Side

    @property
    def whole(self) -> int:
        """The sum of the weights that meet pixels, a power of two."""
        return sum(self.weights) // self.spread

    def rows(self, size: int, output: int) -> npt.NDArray[np.int64]:
        """Return how much of every row of the image is in each of the result, as ``shares``."""
        found = np.zeros((output, size), np.int64)
        for row in range(output):
            for tap, weight in enumerate(self.weights):
                place, between = divmod(row + tap - self.padding, self.spread)
                if not between and 0 <= place < size + sum(self.border):
                    found[row, min(max(place - self.border[0], 0), size - 1)] += weight
        return found * (1 << _BITS) // self.whole


_Side = TypeVar("_Side", Stencil, Blend)

SAME = Stencil((4,), 1, 0, (0, 0))


def _stencils_of(factor: int) -> tuple[Stencil, Stencil, Stencil]:
    """Return the stencils of rows that become ``factor`` rows: with corners aligned, from the
    corner, from the centre.
    """
    rising = range(2, 2 * factor, 2)
    corner = (*rising, 2 * factor, *reversed(rising))
    centre = (*range(1, 2 * factor, 2), *reversed(range(1, 2 * factor, 2)))
    return (
        Stencil(corner, factor, factor - 1, (0, 0)),
        Stencil(corner, factor, factor - 1, (0, 1)),
        Stencil(centre, factor, factor // 2 - 1, (1, 1)),
    )


def _ratio(options: ResizeBilinearOptions, size: int, output: int) -> tuple[int, int]:
    """Rows of the image to rows of the result."""
    is_aligned = options.align_corners and output > 1
    return (size - 1, output - 1) if is_aligned else (size, output)


def shares(options: ResizeBilinearOptions, size: int, output: int) -> npt.NDArray[np.int64] | None:
    """Return how much of every row of the image is in each of the result, as the kernels compute it
    in fixed point of ``_BITS`` bits; None: a row would be of none.
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
        part = place - (lower << _BITS)
        if lower >= size:
            return None
        found[row, lower] += (1 << _BITS) - part
        found[row, max(upper, 0)] += part
    return found


FACTORS = (2, 4, 8)
STENCILS = (SAME, *(stencil for factor in FACTORS for stencil in _stencils_of(factor)))


def stencil(
    options: ResizeBilinearOptions, size: int, output: int, known: Sequence[_Side]
) -> _Side | None:
    """Return which of ``known`` gives the very shares from as few rows as that takes; None:
    nothing.
    """
    wanted = shares(options, size, output)
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
    if rows is None or columns is None or len(rows.weights) * len(columns.weights) > _MOST_TAPS:
        return None
    return rows, columns


@constraint(taps=_MOST_TAPS)
def resized_by_power_of_two(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must stay or become 2, 4 or 8 times as large, with at most {taps} taps (on
    some chips twice).
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
) -> Plan:
    """Image by image: the border is copied byte by byte, if there is one."""
    chip, view = planning.chip, planning.tensor(operation.operands[0]).view
    stencils = _stencils(planning.graph, operation.node, STENCILS)
    assert stencils is not None  # resized_by_power_of_two ran before
    rows, columns = stencils

    def image(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        if any((*rows.border, *columns.border)):
            height = source.view.height + sum(rows.border)
            width = source.view.width + sum(columns.border)
            wide = source.alone(replace(source.view, height=height, width=width), work)
            maps = source.as_bytes, wide.as_bytes
            yield from mirror(moving, *maps, rows.border, columns.border, edge=0)
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
    """Plan the resizing, without pixels apart where the chip does not write them."""
    chip, channels = planning.chip, planning.tensor(operation.operands[0]).view.channels
    if lie_in_memory(chip, (2, 2)):
        blends = _stencils(planning.graph, operation.node, BLENDS)
        assert blends is not None  # resized_by_power_of_two ran before
        return plan_blends(planning, operation, *blends)
    depthwise = is_depthwise(chip, channels)
    offset = planning.graph.tensor(operation.result).dtype.element.offset

    def interpolate(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, rows: Stencil, columns: Stencil
    ) -> Iterable[Task]:
        taps = np.outer(rows.weights, columns.weights)
        padding, spread = (rows.padding, columns.padding), (rows.spread, columns.spread)
        summand, out = divided(chip, offset, rows.whole * columns.whole)
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
    from delegate.lower.half.bound import sum_bound
    from delegate.ops.shared import half, half_ranges

    def plan(planning: Planning, operation: Operation) -> Plan:
        def interpolate(
            moving: Moving,
            source: DeviceTensor,
            target: DeviceTensor,
            rows: Stencil,
            columns: Stencil,
        ) -> Iterable[Task]:
            """Weights are fractions by powers of two, which fp16 holds."""
            taps = np.outer(rows.weights, columns.weights) / (rows.whole * columns.whole)
            padding, spread = (rows.padding, columns.padding), (rows.spread, columns.spread)
            ends, given = (planning, operation, source, target), (taps, padding, spread)
            return half.spread_tasks(*ends, *given, moving.constants)

        channels = planning.tensor(operation.operands[0]).view.channels
        read = surfaces_of(depthwise_channels(channels, planning.chip.groups))
        found = _plan_stencils(planning, operation, interpolate, depthwise=True, reads=read)
        return found.within(sum_bound(_MOST_TAPS))

    rules = (*half.FIRST, *reshaping.GEOMETRY, resized_by_power_of_two)
    return half.half_record(operator, plan, rules, half_ranges.of_means)


OPERATOR = Operator(
    name="RESIZE_BILINEAR",
    options=ResizeBilinearOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reshaping.shapes,
    rules=(*reshaping.RULES, resized_by_power_of_two),
    half=half,
)
