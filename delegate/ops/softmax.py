"""SOFTMAX over the last axis: tables, one sum and one product.

How a row becomes tables: see ``delegate.lower.numerics.softmax``.

A class is a channel; how its row's largest value is found: see ``row_maxima``. The sum's
convolution has the planes as channels, side by side, and brings the reciprocal to all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.errors import LoweringError
from delegate.lower.binary_elementwise import pair_tasks
from delegate.lower.conv_stages import conv_stages
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.image_parts import row_lengths
from delegate.lower.legalize import (
    allows_steps,
    exact_product,
    is_known,
    pair,
    table_behind,
    ties_away,
)
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View, default_surfaces
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    Difference,
    Ew,
    EwOperation,
    Joined,
    Pipeline,
)
from delegate.lower.numerics.softmax import MOST_CLASSES, softmax
from delegate.lower.numerics.softmax_proof import Chain
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.rules import EQUAL_IF_EXACT, FORM_IS_KNOWN
from delegate.lower.selection import Moving, Selection
from delegate.lower.tables import function_tasks
from delegate.lower.task import Ref, Task, TaskKind
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import common
from delegate.ops.shared.common import feature_rank
from delegate.ops.shared.dense_sums import sum_behind
from delegate.ops.shared.functions import same_shapes
from delegate.ops.shared.image_rules import probability_scale
from delegate.ops.shared.row_maxima import RowMaxima, are_sums

_LEAST_STEP: Final = 2.0**-26
"""A step of the input times beta has 26 bits below the unit in the kernels."""


@dataclass(frozen=True, slots=True)
class SoftmaxOptions(Options):
    UNION_TYPE = 9

    beta: float = option(FieldKind.FLOAT32, slot=0, offset=0)


@constraint(most=MOST_CLASSES)
def classes_in_range(facts: GraphFacts, node: Node) -> str | None:
    """There must be at most {most} classes: of larger sums the kernels give what shifts of more
    than 31 bits are.
    """
    classes = facts.features(node)[0].shape[-1]
    return f"there are {classes}" if classes > MOST_CLASSES else None


@constraint()
def step_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The input's scale times beta must be finite and above 2^-26, where the runtime's kernels
    abort.
    """
    step = _step(facts, node)
    return None if _LEAST_STEP < step < float("inf") else f"it is {step}"


def _step(facts: GraphFacts, node: Node) -> float:
    quantization = facts.features(node)[0].quantization
    assert quantization is not None  # eight_bit_features ran before
    return quantization.scale * node.known_options(SoftmaxOptions).beta


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError."""
    source, chip = planning.tensor(operation.operands[0]), planning.chip
    chain = _chain(planning, operation, source.view.channels)
    view = source.view
    if all(map(planning.has_whole_surfaces, (source.index, operation.result))):
        view = _in_short_rows(chip, view)
    room = _Room(chip, view, len(chain.planes.weights))
    footprint = Footprint(
        operation.node,
        ((source.index, room.surfaces),),
        operation.result,
        surfaces_touched(chip, source.view.channels),
        work_bytes=room.size_bytes,
    )

    def tasks(memory: Memory) -> Iterator[Task]:
        moving = Moving(chip, operation.node, memory.constants)
        given, target = memory.tensors[source.index], memory.tensors[operation.result]
        for image in range(source.view.images):
            first = image * view.pixels
            maps = (map_.part(first, view.height, view.width) for map_ in (given, target))
            yield from _Rows(moving, chain, room, memory.work, *maps).tasks()

    return plan_of(planning, operation, footprint, tasks)


def _in_short_rows(chip: Chip, view: View) -> View:
    """Return ``view`` with other rows where a task takes none of its own whole: what a row is does
    not matter here, and no known task has gaps between rows of a result alone.
    """
    widths = row_lengths(chip, view) if view.width > chip.limits.feature_size else []
    return replace(view, height=view.pixels // widths[0], width=widths[0]) if widths else view


def _chain(planning: Planning, operation: Operation, classes: int) -> Chain:
    chip, node = planning.chip, operation.node
    if not (are_sums(chip) and is_known(chip, TaskKind.DENSE, table_behind(multiplies=False))):
        problem = f"no known program of {chip.name} has a table, or a map, behind a convolution"
        raise LoweringError(node.index, FORM_IS_KNOWN, problem)
    if not allows_steps(chip):
        problem = "of rows of any values one in twenty is"
        raise LoweringError(node.index, EQUAL_IF_EXACT, problem)
    has_largest = is_known(chip, TaskKind.ALONE, pair(EwOperation.MAX))
    scale = planning.tensor(operation.operands[0]).scale
    return softmax(
        *(node.index, classes, scale * node.known_options(SoftmaxOptions).beta),
        has_ties_away=ties_away(chip, TaskKind.ALONE, exact_product()),
        rounds_in_bn=is_known(chip, TaskKind.ALONE, exact_product()),
        may_split=has_largest and is_known(chip, TaskKind.DENSE, table_behind(multiplies=True)),
    )


@dataclass(frozen=True, slots=True)
class _Room:
    """The work area of an image of ``view``: three maps of its size, with whatever tasks write
    beyond, and planes one behind the other.
    """

    chip: Chip
    view: View
    planes: int

    @property
    def surfaces(self) -> int:
        """Return the surfaces that any task reads or writes of a map."""
        return default_surfaces(self.view.channels, self.chip.groups)

    @property
    def map_bytes(self) -> int:
        surfaces = max(self.surfaces, default_surfaces(2 * CHANNELS_PER_SURFACE, self.chip.groups))
        return align(surfaces * self._surface_bytes, DMA_ALIGN_BYTES)

    @property
    def plane_bytes(self) -> int:
        return surfaces_of(self.view.channels) * self._surface_bytes

    @property
    def size_bytes(self) -> int:
        return 3 * self.map_bytes + (self.planes - 1) * self.plane_bytes + self.map_bytes

    @property
    def _surface_bytes(self) -> int:
        return self.view.pixels * ATOM_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of an image, by a chain with a work area."""

    moving: Moving
    chain: Chain
    room: _Room
    work: Ref
    source: DeviceTensor
    target: DeviceTensor

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks. Raises LoweringError."""
        distances = self.source
        if self.chain.has_maximum:
            rows = RowMaxima(self.moving, self.source, self.work, self.room.map_bytes)
            largest = yield from rows.tasks()
            distances = self._map(2)
            yield from self._distances(largest, distances)
        chip, planes = self.moving.chip, self.chain.planes
        for number, function in enumerate(planes.functions):
            yield from function_tasks(chip, distances, self._plane(number), function)
        reciprocals = yield from self._reciprocals()
        factors = self._plane(planes.factor), reciprocals
        yield from pair_tasks(chip, factors, self.target, self.chain.product)

    @property
    def _classes(self) -> int:
        return self.source.view.channels

    def _map(self, number: int, channels: int | None = None) -> DeviceTensor:
        """Return one of three maps, of ``channels`` instead of as many as there are classes."""
        view = replace(self.source.view, channels=channels or self._classes)
        return self.source.alone(view, self.work.moved(number * self.room.map_bytes))

    def _plane(self, number: int) -> DeviceTensor:
        place = 3 * self.room.map_bytes + number * self.room.plane_bytes
        return self.source.alone(self.source.view, self.work.moved(place))

    def _distances(self, largest: DeviceTensor, made: DeviceTensor) -> Iterator[Task]:
        """Yield the task of x - largest + 127."""
        weights = _weights(self._classes, largest.view.channels)
        weights[..., 0] = -1
        found = self.moving, largest, made, weights, self.source
        yield from sum_behind(*found, bias=INT8_MAX)

    def _reciprocals(self) -> Generator[Task, None, DeviceTensor]:
        """Yield the tasks of the sums' reciprocals; return the map that has them in all lanes."""
        lanes = CHANNELS_PER_SURFACE
        if not self.chain.reciprocal.is_split:
            made = self._map(0)
            yield from self._sums(made)
            return made
        both, larger, made = self._map(0, 2 * lanes), self._map(1, lanes), self._map(2)
        yield from self._sums(both)
        halves = both.surfaces_from(0, lanes), both.surfaces_from(lanes, lanes)
        yield from pair_tasks(self.moving.chip, halves, larger, Pipeline(ew=Ew(EwOperation.MAX)))
        one = self._map(1, 1)
        yield from self.moving.move(one, made, np.ones((self._classes, 1, 1, 1), np.int8))
        return made

    def _sums(self, made: DeviceTensor) -> Iterator[Task]:
        """Yield the task of the sums over all planes and the curve behind them."""
        planes, reciprocal = self.chain.planes, self.chain.reciprocal
        channels, classes = made.view.channels, self._classes
        apart = surfaces_of(classes) * CHANNELS_PER_SURFACE
        weights = _weights(channels, len(planes.weights) * apart)
        for number, weight in enumerate(planes.weights):
            weights[..., number * apart : number * apart + classes] = weight
        first = self._plane(0)
        view = replace(first.view, channels=weights.shape[-1])
        conv = self.moving.convolution(
            first.alone(view, first.location), made, weights, Selection(), is_depthwise=False
        )
        bias = classes * planes.offset - reciprocal.centre
        conv = replace(conv, bias=np.full(channels, bias, np.int64))
        index = reciprocal.index
        if reciprocal.is_split:
            multiply = np.repeat(index.bs.multiply, channels // 2)
            index = replace(index, bs=replace(index.bs, multiply=multiply))
        joined = Joined(index, reciprocal.entries, lambda: Difference(1, 0.0))
        constants = self.moving.constants
        stages = conv_stages(conv, constants, joined)
        yield from tile_tasks(conv, stages, constants)


def _weights(outputs: int, inputs: int) -> npt.NDArray[np.int8]:
    return np.zeros((outputs, 1, 1, inputs), np.int8)


OPERATOR = Operator(
    name="SOFTMAX",
    options=SoftmaxOptions,
    inputs=(Role.FEATURE,),
    plan=plan,
    shapes=common.same_shape,
    rules=(
        *common.FIRST,
        common.quantization_in_range,
        feature_rank,
        same_shapes,
        probability_scale,
        classes_in_range,
        step_in_range,
    ),
    is_dear=True,
)
