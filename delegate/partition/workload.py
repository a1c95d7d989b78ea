"""Turn a partition's nodes into a workload: operations with tasks and the neighbours in them,
aliases.

In: ``Graph`` and ``Partition``. Out: ``Workload``. Raises LoweringError for a node that cannot be
what its operator's record says.

Plan what a partition's nodes are to one another: edges that the host converts, tensors inside
others, functions of one value. Planned once, for the partitioner's verdict and for ``workload``.

Find what the host converts at a partition's edges, and the partition that is left inside.

Comes from: the records that have ``host_values``. Goes to: ``workload`` and all that looks at what
happens between the edges. A node that the host's conversion does needs no task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from delegate.chip.chip import Chip
from delegate.chip.chips import DEFAULT
from delegate.errors import LoweringError
from delegate.lower.operation import Edge, Operation, Workload
from delegate.model.graph import Graph, Node, Partition
from delegate.ops.conv_2d import OPERATOR as CONVOLUTION
from delegate.ops.operator import GraphFacts, Movement, Role, Side, record_of
from delegate.ops.shared.common import is_float32
from delegate.ops.shared.functions import plan_function
from delegate.ops.shared.parts import is_free
from delegate.ops.shared.reshaping import reorder_operations
from delegate.partition.aliases import (
    NO_FUNCTIONS,
    NOTHING_JOINED,
    AliasPlan,
    FunctionPlan,
    place_aliases,
    plan_functions,
)
from delegate.partition.heads import unfold_heads
from delegate.partition.host_layout import Applied, Placed, host_layout_of
from delegate.partition.joined_nodes import (
    early_products,
    flatten_by_weights,
    join_nodes,
    join_real_functions,
    turn_products,
    undo_moves,
)
from delegate.partition.partitions import Rewritten
from delegate.partition.rules import HOST_CONVERTS, RESULT_USED, Refusal
from delegate.partition.siblings import join_siblings


def workload_of(
    graph: Graph, partition: Partition, chip: Chip = DEFAULT, plan: PartitionPlan | None = None
) -> Workload:
    """Operations in execution order, as ``chip`` is to run them. ``plan``: that of
    ``plan_partition``, if it is known.
    """
    if not partition.outputs:
        raise LoweringError(partition.nodes[0], RESULT_USED, "nothing does")
    plan = plan or plan_partition(graph, partition, chip)
    edges = plan.edges
    for refusal in plan.refusals:
        raise refusal.error
    return Workload(
        edges.graph,
        edges.inner,
        edges.inputs,
        edges.outputs,
        tuple(_operations(GraphFacts(edges.graph, chip), plan)),
        plan.joined.places,
    )


def _operations(facts: GraphFacts, plan: PartitionPlan) -> Iterator[Operation]:
    """Yield the operations between the edges, then functions of boxes at them, of which the host
    has the moves before, of one part.
    """
    graph, partition, functions = facts.graph, plan.edges.inner, plan.functions
    nodes = [graph.node(index) for index in partition.nodes]
    neighbours = {  # nodes that are a part of their readers, by their result
        node.outputs[0]: node
        for node in nodes
        if (hides := facts.operator(node).hides) is not None
        and node.outputs[0] not in partition.outputs
        and hides(facts, node)
    }
    free = {node.index for node in plan.joined.aliases}
    moved = [
        node
        for node in nodes
        if record_of(graph, node).movement is Movement.KEEP and node.index not in free
    ]
    reordered = reorder_operations(facts, moved, partition.outputs) if moved else {}
    without_tasks = {*free, *functions.within, *(node.index for node in neighbours.values())}
    for node in nodes:
        operator = record_of(graph, node)
        if node.index in functions.chains:
            chain, table = functions.chains[node.index], functions.tables[node.index]
            parts = (n for i in chain.nodes for n in plan.before.get(i, (i,)))
            members = tuple(dict.fromkeys(parts))
            yield _table(node, members, chain.source, node.outputs[0], table)
        elif operator.movement is Movement.KEEP:
            if node.index in reordered:
                yield reordered[node.index]
        elif (operator.plan or operator.function) and node.index not in without_tasks:
            others = plan.before.get(node.index, ())
            for result in node.outputs:
                one = _operation(graph, node, neighbours, result)
                yield replace(one, nodes=tuple(dict.fromkeys((*others, *one.nodes))))
    for item in plan.edges.functions:
        members, table = item.function.nodes, item.function.table
        yield _table(graph.node(members[-1]), members, item.source, item.result, table)


def _are_taken(graph: Graph, partition: Partition, nodes: Collection[int]) -> bool:
    """Return whether the host's conversion does all of ``nodes``."""
    return not {*plan_edges(graph, partition).inner.nodes} & {*nodes}


def _free_nodes(graph: Graph, partition: Partition) -> int | None:
    """Return how many nodes that move data are free; None: one cannot run."""
    edges = plan_edges(graph, partition)
    joined = place_aliases(edges.graph, edges.inner)
    return None if edges.refusals or joined.refusals else len(joined.aliases)


def _table(
    node: Node, nodes: tuple[int, ...], source: int, result: int, function: bytes
) -> Operation:
    """``nodes``, of which ``node`` is the last, as a function of ``source``."""
    return Operation(node, nodes, (source,), result, partial(plan_function, function=function))


def _operation(graph: Graph, node: Node, neighbours: Mapping[int, Node], result: int) -> Operation:
    """One result of ``node``, with the padding before it."""
    operator = record_of(graph, node)
    assert operator.plan is not None, node.op
    operands = operator.feature_inputs(node)
    made = Operation(node, (node.index,), operands, result, operator.plan, fold=operator.fold)
    before = neighbours.get(operands[0])
    if before is None:
        return made
    pads = record_of(graph, before).pads
    assert pads is not None, before.op
    return replace(
        made,
        nodes=(before.index, node.index),
        operands=(before.inputs[0], *operands[1:]),
        padding=pads(graph, before),
    )


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """``joined`` and ``functions``: of what ``edges`` leave inside. ``before``: see
    ``Rewritten``. ``refusals``: of nodes that only the host can do and that are at no edge,
    concatenations or slices that are not free, nodes that can only be part of a function and are
    none, and products before their weights are there.
    """

    edges: EdgePlan
    joined: AliasPlan
    functions: FunctionPlan
    before: Mapping[int, tuple[int, ...]]
    refusals: tuple[Refusal, ...]


def plan_partition(graph: Graph, partition: Partition, chip: Chip) -> PartitionPlan:
    """Plan a partition in the way in which it is lowered; where nodes cannot be what they are to
    be, as it stands, see ``refusals``.
    """
    found = Rewritten(graph, partition, {})
    operators = [record_of(graph, graph.node(index)) for index in partition.nodes]
    if any(operator.real is not None for operator in operators):
        found = join_real_functions(found, chip)
    if any(operator.whole is not None for operator in operators):
        found = join_nodes(found, chip)
    joined = found
    convolutions = operators.count(CONVOLUTION)
    if any(operator.turn is not None for operator in operators):
        found = turn_products(found, chip)
    if any(operator.on_image is not None for operator in operators):
        found = flatten_by_weights(found, chip)
    if [operator.movement for operator in operators].count(Movement.KEEP) > 1:
        found = undo_moves(found, chip)
    if convolutions and any(operator.movement is Movement.CUT for operator in operators):
        found = unfold_heads(found, chip, _are_taken)
    if convolutions > 1:
        found = join_siblings(found, chip, _free_nodes)
    if found.graph is not joined.graph:
        given = _planned(joined)
        if given.refusals:
            return given
    made = _planned(found)
    if any(Role.MATRIX in operator.inputs for operator in operators):
        early = early_products(made.edges.graph, made.edges.inner, chip)
        made = replace(made, refusals=(*made.refusals, *early))
    return made


def _planned(rewritten: Rewritten) -> PartitionPlan:
    """Plan a partition as it stands. Functions of one that has refusals may be missing."""
    edges = plan_edges(rewritten.graph, rewritten.partition)
    graph, joined, functions = edges.graph, NOTHING_JOINED, NO_FUNCTIONS
    nodes = [graph.node(index) for index in edges.inner.nodes]
    operators = [record_of(graph, node) for node in nodes]
    if any(operator.movement is not None for operator in operators):
        joined = place_aliases(graph, edges.inner)
    # Needed though no node reads them.
    sources = frozenset(item.source for item in edges.functions)
    # A function of one value begins where one tensor is read, perhaps beside constants; what can
    # only be a part of one is refused elsewhere.
    begins = any(
        operator.plan is None
        or len({t for t in operator.feature_inputs(node) if graph.tensor(t).constant is None}) == 1
        for operator, node in zip(operators, nodes, strict=True)
        if operator.function is not None
    )
    if begins:
        try:
            functions = plan_functions(graph, edges.inner, sources)
        except Exception:
            if not (edges.refusals or joined.refusals):
                raise
    refusals = (*edges.refusals, *joined.refusals, *functions.refusals)
    return PartitionPlan(edges, joined, functions, rewritten.before, refusals)


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """``inner``: the partition of ``graph`` without what the host does. ``inputs`` and ``outputs``:
    one for each tensor of the whole partition, or several for the boxes that make an output, in its
    order. ``functions``: of boxes, for which there is no node in ``inner``.
    """

    graph: Graph
    inner: Partition
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    refusals: tuple[Refusal, ...]
    functions: tuple[Applied, ...]


def plan_edges(graph: Graph, partition: Partition) -> EdgePlan:
    """Gives the host what it can do; a refusal of nodes that only it can, but not here. What it
    need not do it does only beside nodes with tasks.
    """
    operators = [record_of(graph, graph.node(index)) for index in partition.nodes]
    found: Mapping[int, Edge] = {}
    refusals: Sequence[Refusal] = ()
    if any(operator.host_values is not None for operator in operators):
        found, refusals = _on_host(graph, partition)
    by_outer = {edge.outer: edge for edge in found.values()}
    inputs = [by_outer.get(tensor) or Edge(tensor, tensor) for tensor in partition.inputs]
    outputs = [by_outer.get(tensor) or Edge(tensor, tensor) for tensor in partition.outputs]
    inner = Partition(
        tuple(index for index in partition.nodes if index not in found),
        tuple(dict.fromkeys(edge.inner for edge in inputs)),
        tuple(dict.fromkeys(edge.inner for edge in outputs)),
    )
    facts = GraphFacts(graph)
    moving = (graph.node(i) for i in inner.nodes if record_of(graph, graph.node(i)).movement)
    # Where all moves are free the host has none to do.
    if refusals or all(is_free(facts, node) for node in moving):
        return EdgePlan(graph, inner, tuple(inputs), tuple(outputs), tuple(refusals), ())
    moved = host_layout_of(facts, inner)
    return EdgePlan(
        moved.graph,
        moved.inner,
        tuple(_edge_at(edge, moved.inputs.get(edge.inner)) for edge in inputs),
        tuple(
            _edge_at(edge, box)
            for edge in outputs
            for box in moved.outputs.get(edge.inner, (None,))
        ),
        (),
        moved.functions,
    )


def _on_host(graph: Graph, partition: Partition) -> tuple[Mapping[int, Edge], Sequence[Refusal]]:
    """Return what the host's conversion does of a partition, by node, and what it had to do but
    cannot.
    """
    found = _converted(graph, partition)
    if not _has_tasks(graph, partition, found):
        found = {index: edge for index, edge in found.items() if _is_needed(graph, index)}
    refusals = [
        Refusal(graph.node(index), HOST_CONVERTS, _problem(graph, index))
        for index in partition.nodes
        if index not in found and _is_needed(graph, index)
    ]
    if found and not _has_tasks(graph, partition, found):
        problem = "no operator of its partition computes anything"
        refusals += [Refusal(graph.node(i), HOST_CONVERTS, problem) for i in found]
        found = {}
    return found, refusals


def _edge_at(edge: Edge, placed: Placed | None) -> Edge:
    if placed is None:
        return edge
    return replace(edge, inner=placed.tensor, spread=placed.spread, channels=placed.channels)


def _converted(graph: Graph, partition: Partition) -> dict[int, Edge]:
    """Return nodes at the edges of a partition that the host's conversion can do, and what it
    does.
    """
    nodes = [graph.node(index) for index in partition.nodes]
    readers = Counter(tensor for node in nodes for tensor in node.inputs)
    inputs, outputs = frozenset(partition.inputs), frozenset(partition.outputs)
    converted: set[int] = set()
    found: dict[int, Edge] = {}
    for node in nodes:
        source, result = node.inputs[0], node.outputs[0]
        if source in inputs:
            outer, inner, side = source, result, Side.INPUT
            is_edge = readers[source] == 1 and result not in outputs
        else:
            outer, inner, side = result, source, Side.OUTPUT
            is_edge = result in outputs and not readers[result]
        convert = record_of(graph, node).host_values
        if convert is None or not is_edge or source in converted:
            continue
        values = convert(graph, node, side)
        if values is not None:
            found[node.index] = Edge(outer, inner, values.affine, values.table)
            converted.add(result)
    return found


def _has_tasks(graph: Graph, partition: Partition, found: Collection[int]) -> bool:
    """Return whether anything is left to compute beside what the host does, ``found``."""
    left = (graph.node(index) for index in partition.nodes if index not in found)
    operators = (record_of(graph, node) for node in left if not _is_needed(graph, node.index))
    return any(operator.has_tasks for operator in operators)


def _is_needed(graph: Graph, index: int) -> bool:
    """Return whether nobody but the host can do it."""
    node = graph.node(index)
    return record_of(graph, node).host_values is not None and is_float32(graph, node)


def _problem(graph: Graph, index: int) -> str:
    node = graph.node(index)
    tensors = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    return f"node {index} is {' to '.join(t.dtype.name for t in tensors)} and at no such edge"
