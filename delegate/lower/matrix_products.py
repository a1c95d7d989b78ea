"""Products of two matrices that are computed while running: convolutions whose pixels are the first
one's rows, and whose weights the host packed, or an earlier task wrote.

TensorFlow Lite sums (a - za) * (b - zb). The array sums a * b and the hardware adds -zb times the
sum of a, which is exact for any zb, lanes behind the matrix holding zb. What is left is -za times
the sum of (b - zb) under each kernel.

Where the host packs the second operand (``packed_weights``), taps on padding give that: next to the
tap on a lie others on padding whose values make -za, under the same weights. 128 is no int8 and
comes from two of 64. So the accumulator is exact.

Where the partition computes it, it is brought into the order of weights (``dynamic_weights``); a
first operand that is transposed is turned round before. Matrix by matrix, in the same memory. What
is left then is known constants, and -za times the sum of b, which a convolution of one pixel
whose inputs are all -za writes as int32 where BS then reads its summands.

That the CNA reads as weights what an earlier task of the chain wrote is assumed, as of the features
that it fetches by the same means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.element import ATOM_BYTES, DMA_ALIGN_BYTES, Element, align, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.conv_spec import (
    Convolution,
    operand_channels,
    programmed_channels,
    target_within,
)
from delegate.lower.conv_stages import requantization, requantizing_stages, stages_of
from delegate.lower.conv_tasks import tasks_of_plan
from delegate.lower.dynamic_weights import AtomOrder, copied, map_order, turned
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array, Pipeline
from delegate.lower.operation import ConstantPool, Memory, Operation, Plan, Planning, layer_of
from delegate.lower.packed_weights import PackedMatrices
from delegate.lower.partial_sums import PLACES_OF_SUMS, adding, cube_of_sums
from delegate.lower.reorder import keeping_weights
from delegate.lower.rules import TASKS_IN_RANGE
from delegate.lower.selection import Moving
from delegate.lower.task import (
    ConvTask,
    FeatureInput,
    Ref,
    Stages,
    Task,
    Weights,
)
from delegate.lower.tiling.choices import SUM_BYTES
from delegate.lower.tiling.tiles import TilePlan, plan_tiles
from delegate.lower.weights import padded_operands

HALF_OF_128 = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """``conv``: of one matrix, with weights of no value; the zero point of what they are is
    ``conv.weight_zero_point``. ``pairs``: the numbers of both matrices of each of the result's.
    ``turned``: the first, and the second operand have the inputs as pixels.
    """

    planning: Planning
    operation: Operation
    pairs: tuple[tuple[int, int], ...]
    turned: tuple[bool, bool]
    conv: Convolution
    tiles: TilePlan

    @property
    def _rows(self) -> int:
        return self.conv.input_view.pixels

    @property
    def _inputs(self) -> int:
        return self.conv.input_view.channels

    @property
    def _order(self) -> AtomOrder:
        """Return the order of the weights."""
        geometry, lanes = self.conv.geometry, self.conv.element.lanes
        block = self.conv.chip.groups.input_lanes // lanes
        atoms = geometry.channels // lanes
        kernels = geometry.kernels
        # One block after the other is one order for all kernels.
        return AtomOrder(kernels, atoms, geometry.unit if atoms > block else kernels, block)

    # The operation's own memory, in this order: the weights, what only completes pairs of
    # surfaces, sums, and the first operand's turned matrix.

    @property
    def _waste_start(self) -> int:
        return align(self._order.size_bytes, DMA_ALIGN_BYTES)

    @property
    def _sums_start(self) -> int:
        return align(self._waste_start + self._order.unit * ATOM_BYTES, DMA_ALIGN_BYTES)

    @property
    def _first_start(self) -> int:
        sums = PLACES_OF_SUMS * self._vector_bytes if self._addends else 0
        return align(self._sums_start + sums, DMA_ALIGN_BYTES)

    @property
    def _work_bytes(self) -> int:
        size = _turned_order(self.conv).size_bytes if self.turned[0] else 0
        return align(self._first_start + size, DMA_ALIGN_BYTES)

    @property
    def _vector_bytes(self) -> int:
        return align(self.conv.output_view.channels, self.conv.geometry.group) * SUM_BYTES

    @property
    def _addends(self) -> tuple[int, ...]:
        return addends_of(self.conv)

    @property
    def plan(self) -> Plan:
        """Return the plan of all matrices."""
        reads = tuple(
            (tensor, surfaces_of(self.planning.tensor(tensor).view.channels))
            for tensor in self.operation.operands
        )
        group, lanes = self.conv.geometry.group, self.conv.element.lanes
        written = max(tile.part.surfaces(group, lanes).stop for tile in self.tiles.tiles)
        node, result = self.operation.node, self.operation.result
        footprint = Footprint(node, reads, result, written, work_bytes=self._work_bytes)
        return Plan(self.operation, footprint, self._emit)

    def _emit(self, memory: Memory) -> Layer:
        tasks = list(keeping_weights(self.conv.chip, self._tasks(memory)))
        check_tasks(self.conv, tasks, len(self.pairs))
        choice = "weights made of the second operand"
        if self._addends:
            choice += ", their sums added"
        return layer_of(self.planning, self.operation, tasks, choice)

    def _tasks(self, memory: Memory) -> Iterator[ConvTask]:
        work, constants, rows = memory.work, memory.constants, self._rows
        first, second = (memory.tensors[t] for t in self.operation.operands)
        target = memory.tensors[self.operation.result]
        add, stages = self._stages(constants, work)
        moving = Moving(self.conv.chip, self.operation.node, constants)
        before: tuple[int | None, int | None] = (None, None)
        for number, (left, right) in enumerate(self.pairs):
            made: list[ConvTask] = []
            if right != before[1]:
                made += self._weights(moving, second, right, work)
                made += self._sums(add, work, constants)
            pixels = self._inputs if self.turned[0] else rows
            source, place = first.part(left * pixels, pixels, 1), work.moved(self._first_start)
            if self.turned[0]:
                if left != before[0]:
                    made += _turned_first(moving, self.conv, place, source)
                source = _turned_map(self.conv, source, place)
            result = target.part(number * rows, rows, 1)
            conv = replace(self.conv, source=source, target=result)
            made += tasks_of_plan(conv, self.tiles, self._packed(work), stages)
            before = left, right
            yield from (replace(task, tile=f"matrix {number} {task.tile}") for task in made)

    def _weights(
        self, moving: Moving, second: DeviceTensor, number: int, work: Ref
    ) -> Iterator[ConvTask]:
        is_turned = self.turned[1]
        pixels = self._inputs if is_turned else self.conv.output_view.channels
        matrix = second.part(number * pixels, pixels, 1)
        order, fill = self._order, self.conv.weight_zero_point
        if is_turned:
            yield from turned(moving, order, work, order.rows, fill, matrix)
        else:
            places = work, work.moved(self._waste_start)
            yield from copied(moving, order, places, fill, matrix)

    def _packed(self, work: Ref) -> Weights:
        order = self._order
        return Weights(work, order.size_bytes, order.atoms * ATOM_BYTES, order.rows, 1, 1)

    def _stages(self, constants: ConstantPool, work: Ref) -> tuple[Int64Array, Stages]:
        """Return the start value of the sums, and the stages behind the product."""
        conv = self.conv
        if not self._addends:
            return np.zeros(0, np.int64), _stages_of_sums(conv, constants)
        pipeline = pipeline_of(conv)
        products = self._inputs * conv.source.zero_point * conv.weight_zero_point
        add = conv.bias + pipeline.bs.add
        given = self._vector(work, len(self._addends) - 1), operand_channels(conv)
        return add + products, requantizing_stages(conv, pipeline, *given, constants)

    def _vector(self, work: Ref, number: int) -> Ref:
        return work.moved(self._sums_start + number * self._vector_bytes)

    def _sums(self, add: Int64Array, work: Ref, constants: ConstantPool) -> Iterator[ConvTask]:
        """``add``, and each kernel's sum times the addends, one after the other."""
        conv, inputs = self.conv, self._inputs
        outputs, lanes = conv.output_view.channels, programmed_channels(conv)
        kernels = align(outputs, conv.chip.groups.dense_kernels)
        given = padded_operands(add, kernels, "<i4").tobytes()
        before = constants.add(given) if self._addends else work
        cbuf = conv.chip.cbuf
        for number, value in enumerate(self._addends):
            pixel = np.zeros(lanes, np.int8)
            pixel[:inputs] = value
            entries = self.conv.geometry.row_entries(1, lanes)
            banks = -(-entries // cbuf.bank_entries)
            yield ConvTask(
                tile=f"sums {number}",
                feature=FeatureInput(
                    source=constants.add(pixel.tobytes()),
                    height=1,
                    width=1,
                    channels=lanes,
                    channels_real=inputs,
                    line_stride_bytes=ATOM_BYTES,
                    surface_stride_bytes=ATOM_BYTES,
                    entries_per_row=entries,
                    pad_top=0,
                    pad_left=0,
                    pad_value=0,
                ),
                weights=self._packed(work),
                data_banks=banks,
                weight_banks=cbuf.banks - banks,
                output=cube_of_sums(conv.chip, self._vector(work, number), outputs, outputs),
                bs=adding(before, outputs),
                is_depthwise=False,
            )
            before = self._vector(work, number)


def _turned_order(conv: Convolution) -> AtomOrder:
    """Return the order of the first operand's turned matrix."""
    return map_order(conv.input_view.pixels, programmed_channels(conv) // conv.element.lanes)


def _turned_first(
    moving: Moving, conv: Convolution, place: Ref, matrix: DeviceTensor
) -> Iterator[ConvTask]:
    """Turn ``matrix``, whose pixels are the inputs, round at ``place``."""
    return turned(moving, _turned_order(conv), place, conv.input_view.pixels, 0, matrix)


def _turned_map(conv: Convolution, like: DeviceTensor, place: Ref) -> DeviceTensor:
    """Return the turned matrix at ``place``, as a map."""
    order, rows = _turned_order(conv), conv.input_view.pixels
    view = View(1, rows, 1, conv.input_view.channels * conv.element.bytes)
    strides = Strides(order.rows * ATOM_BYTES, order.size_bytes)
    return replace(like, view=view, location=place, within=strides)


def addends_of(conv: Convolution) -> tuple[int, ...]:
    """Return int8 whose sum is the first operand's zero point with the other sign."""
    wanted = -conv.source.zero_point
    if wanted == 0 or conv.element is Element.FP16:
        return ()
    return (wanted,) if wanted <= INT8_MAX else (HALF_OF_128, HALF_OF_128)


def check_tasks(conv: Convolution, tasks: Sequence[Task], products: int) -> None:
    """Check that a chain holds the tasks of all products. Raises LoweringError."""
    if len(tasks) > conv.chip.limits.chain_tasks:
        problem = f"{products} products take {len(tasks)} tasks"
        raise LoweringError(conv.node, TASKS_IN_RANGE, problem)


def pipeline_of(conv: Convolution) -> Pipeline:
    """Return the pipeline for sums of any products that the zero points allow."""
    first, second = (
        np.array([INT8_MIN - zero_point, INT8_MAX - zero_point], np.int64)
        for zero_point in (conv.source.zero_point, conv.weight_zero_point)
    )
    products = np.multiply.outer(first, second) * conv.input_view.channels
    ones = np.ones(conv.output_view.channels, np.int64)
    bounds = conv.bias + ones * products.min(), conv.bias + ones * products.max()
    return requantization(conv, target_within(conv, bounds))


def planned_product(
    planning: Planning,
    operation: Operation,
    pairs: tuple[tuple[int, int], ...],
    turned: tuple[bool, bool],
    conv: Convolution,
) -> Plan:
    """Return the plan of all matrices; parameters as of ``_Product``. Raises LoweringError."""
    tiles = plan_tiles(conv.geometry)
    return _Product(planning, operation, pairs, turned, conv, tiles).plan


def _stages_of_sums(conv: Convolution, constants: ConstantPool) -> Stages:
    """Return the stages behind sums to which nothing is left to add but a bias."""
    if conv.element is Element.FP16:
        from delegate.lower.half.stages import half_conv_stages

        return half_conv_stages(conv, constants)
    pipeline = pipeline_of(conv)
    return stages_of(conv, pipeline, conv.bias + pipeline.bs.add, constants)


def packed_product(
    planning: Planning,
    operation: Operation,
    pairs: tuple[tuple[int, int], ...],
    turned: tuple[bool, bool],
    conv: Convolution,
) -> Plan:
    """Return the plan of all products; parameters as of ``_Product``. Raises LoweringError."""
    paddings, lanes = addends_of(conv), conv.element.lanes
    taps = len(paddings) + 1
    outputs, rows, inputs = conv.output_view.channels, conv.input_view.pixels, conv.weights.shape[3]
    weights = np.broadcast_to(conv.weights[:, :, :1], (outputs, 1, taps, inputs))
    tapped = replace(conv, weights=weights, padding=(0, taps - 1))
    geometry = tapped.geometry
    packed = PackedMatrices(
        matrices=max(right for _, right in pairs) + 1,
        kernels=outputs,
        inputs=inputs,
        columns_are_kernels=turned[1],
        stored=geometry.kernels,
        unit=geometry.unit,
        stored_inputs=geometry.channels,
        block=conv.chip.groups.input_lanes,
        lanes=lanes,
        taps=taps,
    )
    tiles = plan_tiles(geometry)
    left, right = operation.operands
    surfaces = surfaces_of(planning.tensor(left).view.channels)
    written = max(tile.part.surfaces(geometry.group, lanes).stop for tile in tiles.tiles)
    reads = (left, surfaces), (right, 1)
    size = _turned_order(conv).size_bytes if turned[0] else 0
    work_bytes = align(size, DMA_ALIGN_BYTES)
    footprint = Footprint(operation.node, reads, operation.result, written, work_bytes=work_bytes)

    def tasks(memory: Memory) -> Iterator[ConvTask]:
        stages = _stages_of_sums(conv, memory.constants)
        moving = Moving(conv.chip, operation.node, memory.constants)
        first, second, target = (memory.tensors[t] for t in (*operation.operands, operation.result))
        before = None
        for number, (mine, other) in enumerate(pairs):
            pixels = inputs if turned[0] else rows
            source = first.part(mine * pixels, pixels, 1)
            if turned[0]:
                if mine != before:
                    yield from _turned_first(moving, conv, memory.work, source)
                source, before = _turned_map(conv, source, memory.work), mine
            if paddings:
                source = replace(source, zero_point=paddings[0])
            one = replace(tapped, source=source, target=target.part(number * rows, rows, 1))
            place = second.location.moved(packed.place(other))
            size, per_kernel = packed.matrix_bytes, packed.kernel_bytes
            found = Weights(place, size, per_kernel, packed.stored, 1, taps)
            for task in tasks_of_plan(one, tiles, found, stages):
                yield replace(task, tile=f"matrix {number} {task.tile}")

    def emit(memory: Memory) -> Layer:
        made = list(keeping_weights(conv.chip, tasks(memory)))
        check_tasks(conv, made, len(pairs))
        return layer_of(planning, operation, made, "weights packed by the host")

    return Plan(operation, footprint, emit, packed=(right, packed))


def pairs_of(first: Sequence[int], second: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Numbers of the matrices that meet, of operands with these leading dimensions; in the order of
    the result's. Raises ValueError where they do not broadcast.
    """
    shape = np.broadcast_shapes(tuple(first), tuple(second))
    numbers = (
        np.broadcast_to(np.arange(int(np.prod(lead))).reshape(tuple(lead)), shape).reshape(-1)
        for lead in (first, second)
    )
    return tuple((int(a), int(b)) for a, b in zip(*numbers, strict=True))
