"""Drives lowering: from operations to placed tensors, packed constants and tiled tasks.

In: ``Workload``. Out: ``LoweredPartition``. Raises LoweringError naming the node that
does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.chip.chips import DEFAULT
from delegate.chip.limits import ATOM_BYTES, DMA_ALIGN_BYTES, align
from delegate.lower.constants import ConstantPool
from delegate.lower.fusion import Joined, fuse
from delegate.lower.kick_state import TRUSTED, KickState, keep_only
from delegate.lower.lowered import BufferSpec, Fold, Layer, LoweredPartition, TensorBinding
from delegate.lower.memory.check import check_memory
from delegate.lower.memory.in_place import results_in_place
from delegate.lower.memory.limits import check_sizes
from delegate.lower.memory.placement import NO_WORK, MemoryPlan, place_tensors
from delegate.lower.memory.tensors import View, binding_of
from delegate.lower.memory.unwritten import unwritten_reads
from delegate.lower.memory.uses import tensor_uses, work_spans
from delegate.lower.operation import Edge, Memory, Operation, Plan, Planning, Workload
from delegate.lower.spare_lanes import with_spare_lanes
from delegate.lower.staged import in_possible_order
from delegate.lower.tables import share_loads, uses_tables
from delegate.lower.task import BufferId, Ref
from delegate.model.graph import Graph


def lower_partition(
    workload: Workload,
    name: str,
    kick_state: KickState = TRUSTED,
    chip: Chip = DEFAULT,
    *,
    joins: bool = False,
    when_lowered: Callable[[Sequence[int]], None] = lambda _: None,
) -> LoweredPartition:
    """Lower all operations of ``workload`` for ``chip``, relying on no more than ``kick_state``
    between the kicks of a job. ``joins``: with operations joined to convolutions where that changes
    results a little. ``when_lowered`` is told the nodes of each layer that is done: their constants
    are read no more. Raises LoweringError for a node that does not fit the hardware.
    """
    graph, partition, places = workload.graph, workload.partition, workload.places
    folds = folded_inputs(chip, workload)
    planning = Planning(chip, graph, folds, places)
    plans = _ordered(planning, workload, fuses=joins)
    footprints = [plan.footprint for plan in plans]
    fixed = {*partition.inputs, *partition.outputs, *places}
    in_place = results_in_place(graph, footprints, fixed)
    uses = tensor_uses(graph, partition, footprints, places, folds, in_place)
    memory = place_tensors(graph, uses, work_spans(footprints))
    nodes = [footprint.node for footprint in footprints]
    constants = ConstantPool()
    check_sizes(graph, nodes, _buffers(memory, constants))
    lowered = []
    for number, plan in enumerate(_taken_from(plans)):
        layer = plan.lower(_memory_of(memory, constants, number))
        lowered.append(keep_only(layer, kick_state))
        when_lowered(layer.nodes)
    layers = share_loads(lowered)
    if chip.forms.operand_blocks:
        from delegate.lower.known_forms import in_known_forms

        layers = tuple(in_known_forms(layer, constants) for layer in layers)
    table_atoms, behind = _table_atoms(layers, memory, constants)
    buffers = _buffers(memory, constants, behind)
    check_sizes(graph, nodes, buffers)
    check_memory(partition, footprints, layers, memory, places, in_place)
    return LoweredPartition(
        chip=chip,
        name=name,
        layers=layers,
        buffers=buffers,
        inputs=tuple(_binding(graph, memory, edge) for edge in workload.inputs),
        outputs=tuple(_binding(graph, memory, edge) for edge in workload.outputs),
        live_bytes=memory.live_bytes,
        table_atoms=table_atoms,
    )


def _ordered(planning: Planning, workload: Workload, *, fuses: bool) -> list[Plan]:
    """Plans of all operations as they can run, none over what others still read."""
    plans, inputs = _plans(planning, workload, fuses=fuses), workload.partition.inputs
    plans = with_spare_lanes(planning, plans, inputs, workload.places)
    return in_possible_order(planning, plans, inputs, workload.aliases, workload.places)


def _plans(planning: Planning, workload: Workload, *, fuses: bool) -> list[Plan]:
    """Plan all operations so that no reader meets surfaces that stay unwritten."""
    operations = workload.operations
    made = [operation.plan(planning, operation) for operation in operations]
    known: Joined = {}
    while True:
        kept = (*workload.partition.outputs, *workload.places)
        plans = fuse(made, planning, kept, known) if fuses else made
        missed = unwritten_reads(planning, [plan.footprint for plan in plans])
        if missed <= frozenset(planning.writes_groups):
            return plans
        planning = replace(planning, writes_groups={*planning.writes_groups, *missed})
        made = [
            operation.plan(planning, operation) if operation.node.index in missed else plan
            for operation, plan in zip(operations, made, strict=True)
        ]


def _taken_from(plans: list[Plan]) -> Iterator[Plan]:
    """Each in turn, and kept no longer: a plan may hold its weights in the device's terms, which
    are among the constants once it is lowered.
    """
    plans.reverse()
    while plans:
        yield plans.pop()


def _binding(graph: Graph, memory: MemoryPlan, edge: Edge) -> TensorBinding:
    tensor = memory.tensors[edge.inner]
    if edge.channels is not None:
        tensor = tensor.surfaces_from(*edge.channels)
    found = binding_of(graph.tensor(edge.outer), tensor)
    return replace(found, affine=edge.affine, table=edge.table, spread=edge.spread)


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


def _table_atoms(
    layers: tuple[Layer, ...], memory: MemoryPlan, constants: ConstantPool
) -> tuple[tuple[Ref, Ref] | None, int]:
    """Return the atom that loads of tables copy and its target, and the bytes that these take
    behind SCRATCH.
    """
    if not uses_tables(layers):
        return None, 0
    end = memory.sizes_bytes[BufferId.SCRATCH]
    behind = align(end, DMA_ALIGN_BYTES) + ATOM_BYTES - end
    copied = Ref(BufferId.SCRATCH, end + behind - ATOM_BYTES)
    return (constants.add(bytes(ATOM_BYTES)), copied), behind


def _memory_of(memory: MemoryPlan, constants: ConstantPool, number: int) -> Memory:
    return Memory(memory.tensors, constants, memory.work.get(number, NO_WORK))


def _buffers(
    memory: MemoryPlan, constants: ConstantPool, behind: int = 0
) -> tuple[BufferSpec, ...]:
    """``behind``: bytes of SCRATCH beyond what tensors and operations have."""
    content = constants.content()
    sizes = memory.sizes_bytes
    return (
        BufferSpec(BufferId.CONSTANTS, len(content), content),
        BufferSpec(BufferId.SCRATCH, sizes[BufferId.SCRATCH] + behind),
        BufferSpec(BufferId.INPUT, sizes[BufferId.INPUT]),
        BufferSpec(BufferId.OUTPUT, sizes[BufferId.OUTPUT]),
    )
