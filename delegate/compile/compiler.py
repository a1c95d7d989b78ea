"""Drives the stages: graph -> partition -> lower -> npu -> serialised programs.

In: a ``Graph`` and ``Options``. Out: a program per partition, and a ``Rejection`` for every node
left out. A node that turns out not to fit the hardware is rejected with its reason and the rest is
partitioned again, so a compile failure means that node runs on the CPU, never a broken model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from delegate.chip.chip import Chip
from delegate.chip.chips import DEFAULT
from delegate.compile.weighing import Weigher
from delegate.errors import (
    EncodingError,
    LoweringError,
    MissingFormError,
    Rejection,
    UnknownFormError,
    is_memory_exhausted,
)
from delegate.host.chosen import chosen_chip, drivers_of, proved_forms
from delegate.log import get_logger
from delegate.lower.lowered import Layer, widest
from delegate.lower.lowering import lower_partition
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.model.graph import Graph, Partition
from delegate.model.tflite_reader import PathOrBytes, read_graph
from delegate.npu.evidence import evidence_for
from delegate.npu.perf import Work, work_of
from delegate.npu.program import Program, ProgramTask, build_program, serialized
from delegate.npu.program_types import WORD_BYTES, Estimate, total
from delegate.ops.operator import Role, record_of
from delegate.ops.shared.reshaping import SHARING
from delegate.options import Options
from delegate.partition.half import as_computed
from delegate.partition.joined_nodes import parts_of
from delegate.partition.partitioner import (
    Computed,
    PartitionCost,
    SlowerError,
    incomplete,
    overwritten,
    parted,
    read_while_running,
    select_nodes,
    sharing_chains,
    slower,
)
from delegate.partition.partitions import PartitionsOf, partition_graph
from delegate.partition.rules import (
    BOARD_IS_RIGHT,
    PARTITION_COMPILES,
    REGISTERS_HOLD_VALUES,
)
from delegate.partition.workload import PartitionPlan, plan_partition, workload_of
from delegate.version import __version__

logger = get_logger()

_LARGE_BYTES = 1 << 18
"""The size of a constant: below it there is nothing worth giving back."""

COMPILER = f"rk3588-delegate {__version__}"

CheckLayers = Callable[[Sequence[Layer]], None]
Preview = Callable[[list[int]], Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]]]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPartition:
    """A partition and its serialised Program, whose tasks are ``launches``. ``live_bytes``: the
    least its SCRATCH can be.
    """

    partition: Partition
    program: bytes
    layers: tuple[Layer, ...]
    launches: tuple[ProgramTask, ...]
    buffers_bytes: int
    chip: Chip
    live_bytes: int

    @property
    def tasks(self) -> int:
        return len(self.launches)

    @property
    def estimate(self) -> Estimate:
        """Return the sum over all tasks."""
        return total(task.estimate for task in self.launches)

    @property
    def command_bytes(self) -> int:
        """Return the bytes of the commands of all tasks."""
        return sum(task.regcmd_count for task in self.launches) * WORD_BYTES

    @property
    def work(self) -> Work:
        """Return what its time is estimated from."""
        return work_of(self.chip, self.layers, self.tasks, self.command_bytes)

    @property
    def bound(self) -> str:
        """Return the bound of every result in fp16, as a text; empty: there are none."""
        bounds = [layer.bound for layer in self.layers if layer.bound is not None]
        return widest(bounds).text if bounds else ""


@dataclass(frozen=True, slots=True, eq=False)
class CompileResult:
    """All partitions of a graph. ``rejections`` has exactly one entry per node left out.
    ``slower``: what nodes that the CPU keeps, because it runs them as fast, cost at least.
    """

    chip: Chip
    graph: Graph
    partitions: tuple[CompiledPartition, ...]
    rejections: tuple[Rejection, ...]
    compile_seconds: float
    slower: tuple[PartitionCost, ...] = ()

    @property
    def delegated_nodes(self) -> int:
        return sum(len(compiled.partition.delegated) for compiled in self.partitions)

    @property
    def total_nodes(self) -> int:
        return len(self.graph.nodes)


def compile_model(
    model: PathOrBytes | Graph,
    options: Options,
    chip: Chip | None = None,
) -> CompileResult:
    """Compiles the first subgraph of a .tflite file (a path, or its content), partitioned as TFLite
    would. ``chip``: instead of the one that ``options`` name, on its board.

    Raises ModelError if the file cannot be read.
    """
    graph = as_computed(model if isinstance(model, Graph) else read_graph(model), options)
    chip = chip or replace(chosen_chip(options), proved=proved_forms(options))
    return _compile(graph, options, lambda nodes: partition_graph(graph, nodes), chip)


def compile_context(graph: Graph, options: Options, preview: Preview, chip: Chip) -> CompileResult:
    """Compiles what a running interpreter holds. ``preview`` asks it how it would partition."""

    graph = as_computed(graph, options)

    def partitions(nodes: frozenset[int]) -> Sequence[Partition]:
        return [
            Partition(
                tuple(members), tuple(t for t in inputs if t not in graph.folded), tuple(outputs)
            )
            for members, inputs, outputs in preview(sorted(nodes))
        ]

    return _compile(graph, options, partitions, chip=chip)


def compile_partition(
    graph: Graph,
    partition: Partition,
    chip: Chip = DEFAULT,
    *,
    numerics: str = "exact",
    plan: PartitionPlan | None = None,
    check_layers: CheckLayers = lambda _: None,
) -> CompiledPartition:
    """Lower, encode and serialise one partition. ``numerics``: the option; ``plan``: see
    ``workload_of``; ``check_layers`` is told the layers before they are encoded, and may raise
    what ends the work. Raises LoweringError naming the node, ProgramError for what no device takes.
    """
    from delegate._native import check_program

    joins = numerics != "exact"
    if chip.evidence is None:
        chip = replace(chip, evidence=evidence_for(chip, is_exact=not joins))
    name = f"{graph.name or 'main'} nodes {partition.nodes[0]}..{partition.nodes[-1]}"
    workload = workload_of(graph, partition, chip, plan)
    lowered = lower_partition(
        workload, name, chip,
        joins=joins, when_lowered=lambda nodes: _make_room(graph, nodes), check_layers=check_layers,
    )  # fmt: skip
    program = build_program(lowered, COMPILER)
    content = serialized(program)
    check_program(content)
    if chip.missing:
        _require_forms(chip, program, content)
    layers, live_bytes, launches = lowered.layers, lowered.live_bytes, program.tasks
    buffers_bytes = sum(buffer.size_bytes for buffer in program.buffers)
    del lowered, program  # else the bytes would be a third copy of the weights
    return CompiledPartition(
        *(partition, bytes(content), layers, launches, buffers_bytes, chip, live_bytes)
    )


def _require_forms(chip: Chip, program: Program, content: bytearray) -> None:
    """Raises MissingFormError for the nodes of all tasks that the board must not be given; for all
    nodes, where it is the program as a whole.
    """
    from delegate._native import program_id

    named = program_id(content)
    found = program.tasks if named in chip.missing else ()
    if not found:
        lacking = {name for task in program.tasks for name in task.form.split()} & set(chip.missing)
        named = min(lacking, default="")
        found = tuple(task for task in program.tasks if not lacking.isdisjoint(task.form.split()))
    if found:
        nodes = {node for task in found for node in program.layers[task.layer].nodes}
        raise MissingFormError(tuple(sorted(nodes)), named, chip.missing[named])


def _make_room(graph: Graph, nodes: Sequence[int]) -> None:
    """Once ``nodes`` are lowered, large weights of theirs are in the program and the model's are
    read no more: those, and what lowering took, need not be in memory at the same time.
    """
    from delegate._native import release_memory

    constants = (graph.tensor(t).constant for n in nodes for t in graph.node(n).inputs if t >= 0)
    large = [
        c for c in constants if c is not None and c.nbytes >= _LARGE_BYTES and c.flags.c_contiguous
    ]
    if large:
        release_memory(large)


def _compile(
    graph: Graph,
    options: Options,
    partitions_of: PartitionsOf,
    chip: Chip = DEFAULT,
) -> CompileResult:
    start = time.perf_counter()
    if chip.evidence is None:
        chip = replace(chip, evidence=evidence_for(chip, is_exact=options.numerics == "exact"))
    supported, rejections = select_nodes(graph, options.deny_ops, chip)
    weigher = None
    if options.leaves_slow:
        weigher = Weigher(graph, chip, drivers_of(options.device, chip))
    attempts = _Attempts(graph, options.numerics, chip, weigher)
    known = Computed(graph, rejections) if graph.folded else None
    has_products = any(Role.MATRIX in record_of(graph, graph.node(n)).inputs for n in supported)
    shares_memory = any(node.op in SHARING for node in graph.nodes)
    while True:
        if graph.together:
            parts = incomplete(graph, supported)
            supported, rejections = supported - {one.node for one in parts}, (*rejections, *parts)
        if shares_memory and (lost := overwritten(graph, supported)):
            supported, rejections = frozenset(), (*rejections, *lost)
        partitions = (
            known.split(partitions_of, supported) if known else list(partitions_of(supported))
        )
        if has_products:
            partitions = _in_parts(graph, supported, partitions, chip, partitions_of)
        failed = attempts.compile(partitions)
        if not failed:
            break
        supported = supported - {rejection.node for rejection in failed}
        rejections = (*rejections, *failed)
    if known:
        rejections = known.explained(rejections, partitions)
    return CompileResult(
        chip=chip,
        graph=graph,
        partitions=tuple(attempts.compiled[partition] for partition in partitions),
        rejections=tuple(sorted(rejections, key=lambda one: one.node)),
        compile_seconds=time.perf_counter() - start,
        slower=tuple(attempts.slower),
    )


def _in_parts(
    graph: Graph,
    supported: frozenset[int],
    partitions: Sequence[Partition],
    chip: Chip,
    partitions_of: PartitionsOf,
) -> list[Partition]:
    """Return ``partitions``, those whose products read what they compute in parts. As they are
    where the order of nodes on the CPU counts, which ``overwritten`` follows without parts.
    """
    if sharing_chains(graph, supported):
        return list(partitions)
    return [part for whole in partitions for part in parts_of(graph, whole, chip, partitions_of)]


@dataclass(slots=True, eq=False)
class _Attempts:
    """The partitions of one graph that were tried, in rounds of ever fewer nodes, with the programs
    of those that compile.
    """

    graph: Graph
    numerics: str
    chip: Chip
    weigher: Weigher | None
    plans: dict[Partition, PartitionPlan | None] = field(default_factory=dict)
    compiled: dict[Partition, CompiledPartition] = field(default_factory=dict)
    slower: list[PartitionCost] = field(default_factory=list)

    def compile(self, partitions: Sequence[Partition]) -> list[Rejection]:
        """Compile what is new; return why some nodes have to go, none if all may stay."""
        plans, graph = self.plans, self.graph
        self.plans = {}
        for partition in partitions:
            if partition not in plans:
                with suppress(Exception):  # compiling meets it again, and rejects its nodes
                    plans[partition] = plan_partition(graph, partition, self.chip)
            self.plans[partition] = plans.get(partition)
        made = [plan for plan in self.plans.values() if plan is not None]
        failed = [refusal.rejection for plan in made for refusal in plan.refusals]
        if failed:
            return failed
        return [one for partition in partitions for one in self._try(partition)]

    def _try(self, partition: Partition) -> list[Rejection]:
        if partition in self.compiled:
            return []
        reading = read_while_running(self.graph, partition) if self.graph.folded else []
        if not reading and self.graph.together:
            reading = parted(self.graph, partition)
        if reading:
            return reading
        numerics, plan, weigher = self.numerics, self.plans[partition], self.weigher
        weigh: CheckLayers = (
            (lambda _: None) if weigher is None else partial(weigher.check, partition)
        )
        try:
            compiled = compile_partition(
                self.graph, partition, self.chip, numerics=numerics, plan=plan, check_layers=weigh
            )
            if weigher is not None:
                weigher.check(partition, compiled.layers, compiled.work)
        except SlowerError as error:
            self.slower.append(error.cost)
            return slower(self.graph, error)
        except Exception as error:
            return _rejections(self.graph, partition, error)
        self.compiled[partition] = compiled
        return []


def _rejections(graph: Graph, partition: Partition, error: Exception) -> list[Rejection]:
    """Return the rejections of a partition that does not compile: the nodes that ``error`` names,
    or all, so that the rest is tried again. A limit that nobody foresaw, or a mistake of ours, must
    not cost the user the model.
    """
    nodes: tuple[int, ...] = ()
    name = PARTITION_COMPILES.name
    problem = "memory ran out: " if is_memory_exhausted(error) else ""
    detail = f"{PARTITION_COMPILES.sentence}: {problem}{type(error).__name__}: {error}"
    if isinstance(error, LoweringError):
        nodes, name, detail = (error.node,), error.rule, error.detail
    elif isinstance(error, MissingFormError):
        nodes, name = error.nodes, BOARD_IS_RIGHT.name
        detail = f"{BOARD_IS_RIGHT.sentence}: {error}"
    elif isinstance(error, UnknownFormError):
        nodes, name = error.nodes, FORM_IS_KNOWN.name
        detail = f"{FORM_IS_KNOWN.sentence}: {error}"
    elif isinstance(error, EncodingError):
        nodes, name = error.nodes, REGISTERS_HOLD_VALUES.name
        detail = f"{REGISTERS_HOLD_VALUES.sentence}: {error}"
    else:
        logger.warning("nodes %s stay on the CPU: %s", list(partition.nodes), detail)
        logger.debug("the compiler failed", exc_info=error)
    known = [node for node in nodes if node in partition.nodes]
    return [
        Rejection(node, graph.node(node).stored_op, name, detail)
        for node in known or partition.nodes
    ]
