"""Drives lowering: from operations to placed tensors, packed constants and tiled tasks.

In: ``Workload``. Out: ``LoweredPartition``. Raises LoweringError naming the node that
does not fit.

Tasks rely on a little state of the chip from one kick of a job to the next. The mainline driver
starts every task of a job by itself: it waits for the interrupt of one before it kicks the next.
Three things then have to outlive a kick:

* **weights in CBUF**: tasks that share kernels fetch them once (CBUF_CON0.WEIGHT_REUSE). Mesa's
  programs, which run on boards, do the same; no document says it.
* **the ping-pong of the register groups**: a task writes all registers that it uses, but which of
  the two groups is written and which runs alternates from kick to kick. Every program of every
  driver relies on it, so there is no other way.
* **the DPU's tables**: one task loads them, the next ones use them. The vendor's programs do so, in
  chains; that a kick does not clear them is assumed. Every job loads what it uses.

Nothing else is carried over: tasks meet in memory only.

Folding of a partition's input: windows of pixels become channels while the host converts it.

The MAC array takes 32 channels in a step, so a first layer of 1 to 4 channels wastes most of it. A
3 x 3 kernel of stride 2 on 3 channels becomes 2 x 2 of stride 1 on 12 (space to depth): 4 steps
instead of 9, and a quarter of the pixels in CBUF. Along an axis of stride s the window is j * s
pixels wide (j = 1: space to depth; up to the whole kernel) and starts at the leading padding, so
that padding becomes fill and the folded convolution has none. Results are exactly the same: lanes
without a weight have the weights' zero point, as padding lanes always have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from delegate.chip.chip import Chip, Primitive
from delegate.chip.chips import DEFAULT
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.group_padding import with_group_padding
from delegate.lower.image_parts import planned_cycles
from delegate.lower.legalize import REWRITTEN, legal_layer
from delegate.lower.lowered import Fold, Layer, LoweredPartition, TensorBinding
from delegate.lower.memory.check import check_memory
from delegate.lower.memory.placement import (
    NO_WORK,
    MemoryPlan,
    check_sizes,
    place_tensors,
    results_in_place,
    tensor_uses,
)
from delegate.lower.memory.tensors import DeviceTensor, View, view_of
from delegate.lower.operation import ConstantPool, Edge, Memory, Operation, Plan, Planning, Workload
from delegate.lower.packed_weights import PackedMatrices
from delegate.lower.rules import BUFFERS_IN_RANGE, FORM_IS_KNOWN
from delegate.lower.tables import share_loads
from delegate.lower.task import BufferId, DpuTask, Ref
from delegate.lower.tiling.geometry import Axis
from delegate.model.graph import Graph


def lower_partition(
    workload: Workload,
    name: str,
    chip: Chip = DEFAULT,
    *,
    joins: bool = False,
    when_lowered: Callable[[Sequence[int]], None] = lambda _: None,
    check_layers: Callable[[Sequence[Layer]], None] = lambda _: None,
) -> LoweredPartition:
    """Lower all operations of ``workload`` for ``chip``. ``joins``: with operations joined to
    convolutions where that changes results a little. ``when_lowered`` is told the nodes of each
    layer that is done: their constants are read no more. ``check_layers`` is told the layers, and
    may raise what ends the work. Raises LoweringError for a node that does not fit the hardware.
    """
    graph, partition, places = workload.graph, workload.partition, workload.places
    may_fold = any(operation.fold is not None for operation in workload.operations)
    folds = folded_inputs(chip, workload) if may_fold else {}
    planning = Planning(chip, graph, folds, places)
    plans = [operation.plan(planning, operation) for operation in workload.operations]
    if joins and len(plans) > 1:
        plans = fuse(plans, planning, (*partition.outputs, *places))
    if places or len(plans) > 1:  # one alone has no neighbour
        plans = with_group_padding(planning, plans, partition.inputs)
    footprints = [plan.footprint for plan in plans]
    packed = _packed(plans, len(partition.inputs)) if any(p.packed for p in plans) else {}
    layouts = {**folds, **{t: (matrices.view, None) for t, matrices in packed.items()}}
    in_place: Mapping[int, int] = {}
    if len(plans) > 1:
        fixed = {*partition.inputs, *partition.outputs, *places}
        in_place = results_in_place(graph, footprints, fixed)
    uses = tensor_uses(graph, partition, footprints, places, layouts, in_place)
    memory = place_tensors(graph, uses, footprints)
    nodes = [footprint.node for footprint in footprints]
    constants = ConstantPool()
    check_sizes(graph, nodes, memory.sizes_bytes)
    lowered: list[Layer] = []
    # A plan may hold its weights in the device's terms, which are among the constants once it is
    # lowered: none is kept longer.
    plans.reverse()
    while plans:
        work = Ref(BufferId.SCRATCH, memory.work.get(len(lowered), NO_WORK).start)
        lowered.append(plans.pop().emit(Memory(memory.tensors, constants, work)))
        when_lowered(lowered[-1].nodes)
    tasks = (task for layer in lowered for task in layer.tasks)
    has_tables = any(isinstance(task, DpuTask) and task.table is not None for task in tasks)
    ready = share_loads(lowered) if has_tables else lowered
    layers = tuple(ready)
    if not chip.lacks.isdisjoint(REWRITTEN):
        layers = tuple(legal_layer(chip, layer, constants) for layer in ready)
    check_layers(layers)
    table_atoms, behind = _table_atoms(memory, constants) if has_tables else (None, 0)
    content = constants.content()
    sizes_bytes = {
        **memory.sizes_bytes,
        BufferId.CONSTANTS: len(content),
        BufferId.SCRATCH: memory.sizes_bytes[BufferId.SCRATCH] + behind,
    }
    check_sizes(graph, nodes, sizes_bytes)
    check_memory(partition, footprints, layers, memory, places, in_place)
    return LoweredPartition(
        chip=chip,
        name=name,
        layers=layers,
        constants=content,
        sizes_bytes=sizes_bytes,
        inputs=tuple(_bindings(graph, memory, workload.inputs, packed)),
        outputs=tuple(_bindings(graph, memory, workload.outputs, {})),
        live_bytes=memory.live_bytes,
        table_atoms=table_atoms,
    )


MOST_BINDINGS = 4096
"""The bindings on one side of a program that the runtime takes; ``native/program/program.cpp`` has
the same.
"""


def _packed(plans: Sequence[Plan], inputs: int) -> Mapping[int, PackedMatrices]:
    """Return the tensors that the host packs. ``inputs``: how many the partition has. Raises
    LoweringError where plans read one in several ways, or the host would write too many boxes.
    """
    packed = dict(plan.packed for plan in plans if plan.packed is not None)
    for plan in plans:
        mine, operands = plan.packed, plan.operation.operands
        for tensor in packed.keys() & operands:
            if mine != (tensor, packed[tensor]) or operands.count(tensor) > 1:
                problem = f"tensor {tensor} is read as weights and in another way"
                raise LoweringError(plan.operation.node.index, FORM_IS_KNOWN, problem)
    count = inputs + sum(matrices.box_count - 1 for matrices in packed.values())
    if count > MOST_BINDINGS:
        sizes = [(p.packed[1].box_count, p.operation.node.index) for p in plans if p.packed]
        problem = f"the host would write {count} boxes of inputs, at most {MOST_BINDINGS}"
        raise LoweringError(max(sizes)[1], BUFFERS_IN_RANGE, problem)
    return packed


def _bindings(
    graph: Graph, memory: MemoryPlan, edges: Iterable[Edge], packed: Mapping[int, PackedMatrices]
) -> Iterator[TensorBinding]:
    """Yield what the host needs to convert the tensors at the partition's ``edges``: one binding
    each, or of those that it packs one for each box.
    """
    for edge in edges:
        source, tensor = graph.tensor(edge.outer), memory.tensors[edge.inner]
        if edge.channels is not None:
            tensor = tensor.surfaces_from(*edge.channels)
        is_alone = tensor.within is None  # else what follows belongs to another tensor
        whole = TensorBinding(
            tensor=source.index,
            name=source.name,
            shape=source.shape if source.stored_shape is None else source.stored_shape,
            element=source.dtype.element,
            images=tensor.view.images,
            height=tensor.view.height,
            width=tensor.view.width,
            channels=tensor.elements.channels,
            surfaces=tensor.surfaces if is_alone else surfaces_of(tensor.view.channels),
            surface_stride_bytes=tensor.surface_stride_bytes,
            image_stride_bytes=tensor.image_stride_bytes,
            location=tensor.location,
            fill=tensor.zero_point,
            fold=tensor.fold,
            affine=edge.affine,
            table=edge.table,
            spread=edge.spread,
        )
        if edge.inner in packed:
            view = view_of(graph.tensor(edge.inner).shape)
            yield from packed[edge.inner].boxes(whole, view, edge.spread)
        else:
            yield whole


def folded_inputs(chip: Chip, workload: Workload) -> Mapping[int, tuple[View, Fold]]:
    """Inputs that the host folds for the one operation that reads them."""
    whole = (edge.inner for edge in workload.inputs if edge.spread is None)
    readers: dict[int, list[Operation]] = {t: [] for t in whole if t not in workload.places}
    for operation in workload.operations:
        for tensor in operation.operands:
            if tensor in readers:
                readers[tensor].append(operation)
    folds = {}
    for tensor, found in readers.items():
        if len(found) != 1 or found[0].fold is None or found[0].operands[0] != tensor:
            continue
        folded = found[0].fold(chip, workload.graph, found[0])
        if folded is not None:
            folds[tensor] = folded
    return folds


def _table_atoms(memory: MemoryPlan, constants: ConstantPool) -> tuple[tuple[Ref, Ref], int]:
    """Return the atom that loads of tables copy and its target, and the bytes that these take
    behind SCRATCH.
    """
    end = memory.sizes_bytes[BufferId.SCRATCH]
    behind = align(end, DMA_ALIGN_BYTES) + ATOM_BYTES - end
    copied = Ref(BufferId.SCRATCH, end + behind - ATOM_BYTES)
    return (constants.add(bytes(ATOM_BYTES)), copied), behind


def fuse(plans: Sequence[Plan], planning: Planning, kept: Sequence[int]) -> list[Plan]:
    """Return ``plans`` with functions and sums joined. ``kept``: tensors that others than ``plans``
    need.
    """
    readers = Counter(tensor for plan in plans for tensor, _ in plan.footprint.reads)
    found: dict[int, Plan] = {}  # by result
    made = {plan.footprint.result: number for number, plan in enumerate(plans)}
    for plan in plans:
        result = plan
        operands = plan.summands if plan.results is None else plan.operation.operands
        # The one that was made last first.
        for tensor in sorted(found.keys() & operands, key=made.__getitem__, reverse=True):
            leader = found[tensor]
            is_hidden = readers[tensor] == 1 and tensor not in kept
            if is_hidden and leader.followed_by is not None:
                joined = leader.followed_by(planning, plan)
                if joined is not None:
                    del found[tensor]
                    result = joined
                    break
        found[plan.footprint.result] = result
    return list(found.values())


# Lanes of a folded pixel that the native conversion has room for.
MAX_FOLDED_LANES = 64


_FoldedAxis = tuple[int, Axis]
"""The input pixels of a window, each a stride behind the one before, and what the convolution's
axis becomes. Window 1: the axis is as it was.
"""


def choose_fold(
    chip: Chip, source: View, rows: Axis, columns: Axis, outputs: int
) -> tuple[View, Fold] | None:
    """Return the folded view of ``source`` for a dense convolution with ``outputs`` kernels over
    ``rows`` and ``columns`` that see several pixels, or None where that saves nothing.
    """
    channels = source.channels
    best: tuple[int, _FoldedAxis, _FoldedAxis] | None = None
    is_square = Primitive.UNEQUAL_SIDES in chip.lacks
    for row, column in product(_with_even_sizes(_folded(chip, rows)), _folded(chip, columns)):
        lanes = row[0] * column[0] * channels
        if lanes > MAX_FOLDED_LANES and max(row[0], column[0]) > 1:
            continue
        if is_square and not _has_equal_sides(row[1], column[1]):
            continue
        cost = _cost(chip, row[1], column[1], lanes, outputs, source.images)
        if cost is not None and (best is None or cost < best[0]):
            best = cost, row, column
    if best is None or best[1][0] == best[2][0] == 1:
        return None
    _, (window_h, row_axis), (window_w, column_axis) = best
    (step_h, top), (step_w, left) = (
        (axis.stride, axis.pad) if window > 1 else (1, 0)
        for window, axis in ((window_h, rows), (window_w, columns))
    )
    size = source.height, source.width, channels
    fold = Fold(*size, window_h, window_w, step_h, step_w, top, left)
    return View(source.images, row_axis.input_size, column_axis.input_size, fold.lanes), fold


def _folded(chip: Chip, axis: Axis) -> Iterator[_FoldedAxis]:
    yield 1, axis
    taps = 0
    spread = 0
    while taps != 1:
        spread += 1
        taps = -(-axis.reach // (spread * axis.stride))
        window = min(spread * axis.stride, axis.reach)
        size = axis.output_size + (taps - 1) * spread
        if window > 1 and size <= chip.limits.feature_size:
            yield window, Axis(size, axis.output_size, taps, dilation=spread if taps > 1 else 1)


def _with_even_sizes(axes: Iterable[_FoldedAxis]) -> Iterator[_FoldedAxis]:
    """Yield ``axes``, and those of an odd number of rows with one more, which no window meets: then
    rows may lie in pairs.
    """
    for window, axis in axes:
        yield window, axis
        if window > 1 and axis.input_size % 2:
            yield window, replace(axis, input_size=axis.input_size + 1)


def _has_equal_sides(rows: Axis, columns: Axis) -> bool:
    sides = [(axis.kernel, axis.stride, axis.dilation) for axis in (rows, columns)]
    return sides[0] == sides[1]


def _cost(
    chip: Chip, rows: Axis, columns: Axis, channels: int, outputs: int, images: int
) -> int | None:
    """Return the estimated cycles of the layer and of the host's conversion; None if it cannot be
    planned.
    """
    try:
        cycles = planned_cycles(chip, rows, columns, channels, outputs, images)
    except LoweringError:
        return None
    lanes = align(channels, CHANNELS_PER_SURFACE)
    converted = images * rows.input_size * columns.input_size * lanes
    return cycles + converted // chip.rates.host_bytes_per_cycle


def host_tensor(source: DeviceTensor) -> DeviceTensor:
    """Return ``source`` as the model sees it; only its view, scale and zero point are of use."""
    assert source.fold is not None
    fold = source.fold
    view = View(source.view.images, fold.height, fold.width, fold.channels)
    return replace(source, view=view, fold=None)


def fold_convolution(conv: Convolution, source: DeviceTensor) -> Convolution:
    """Return ``conv``, resolved for the tensor as the model sees it, on the folded ``source``."""
    fold = source.fold
    assert fold is not None
    outputs, kh, kw, channels = conv.weights.shape
    windows = fold.window_h, fold.window_w
    (rows, row_pitch, row_dilation), (columns, pitch, dilation) = map(
        _taps, (kh, kw), conv.strides, conv.dilations, windows
    )
    shape = (outputs, rows, columns, fold.window_h, fold.window_w, channels)
    weights = np.full(shape, conv.weight_zero_point, np.int8)
    for ky in range(kh):
        tap_y, dy = divmod(ky * conv.dilations[0], row_pitch)
        for kx in range(kw):
            tap_x, dx = divmod(kx * conv.dilations[1], pitch)
            weights[:, tap_y, tap_x, dy, dx] = conv.weights[:, ky, kx]
    folds_rows, folds_columns = (window > 1 for window in windows)
    return replace(
        conv,
        weights=weights.reshape(outputs, rows, columns, fold.lanes),
        source=source,
        input_view=source.view,
        strides=(1 if folds_rows else conv.strides[0], 1 if folds_columns else conv.strides[1]),
        dilations=(row_dilation, dilation),
        padding=(0 if folds_rows else conv.padding[0], 0 if folds_columns else conv.padding[1]),
    )


def _taps(kernel: int, stride: int, dilation: int, window: int) -> tuple[int, int, int]:
    """Return how many taps are left along an axis, how many original pixels they are apart, and
    their dilation.
    """
    if window == 1:
        return kernel, dilation, dilation
    reach = (kernel - 1) * dilation + 1
    if window == reach:
        return 1, reach, 1
    return -(-reach // window), window, window // stride
