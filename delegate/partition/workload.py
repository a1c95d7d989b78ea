"""Turn a partition's nodes into a workload: operations with tasks and the neighbours in them,
aliases.

In: ``Graph`` and ``Partition``. Out: ``Workload``. Raises LoweringError for a node that cannot be
what its operator's record says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from delegate.chip.chip import Chip
from delegate.chip.chips import DEFAULT
from delegate.errors import LoweringError
from delegate.lower.operation import Operation, Workload
from delegate.model.graph import Graph, Node
from delegate.model.partition import Partition
from delegate.ops import record_of
from delegate.ops.operator import GraphFacts, Lowering
from delegate.ops.shared.functions import TablePlan
from delegate.ops.shared.reshaping import reorder_operations
from delegate.partition.pixel_pairs import pair_pixels
from delegate.partition.plans import PartitionPlan, plan_partition
from delegate.partition.rules import RESULT_USED, facts_of


def workload_of(
    graph: Graph, partition: Partition, chip: Chip = DEFAULT, plan: PartitionPlan | None = None
) -> Workload:
    """Operations in execution order, as ``chip`` is to run them. ``plan``: of ``graph``, if it is
    known.
    """
    if not partition.outputs:
        raise LoweringError(partition.nodes[0], RESULT_USED, "nothing does")
    paired = pair_pixels(graph, partition, chip)
    if plan is None or paired is not graph:
        plan = plan_partition(paired, partition)
    edges, joined, functions = plan.edges, plan.joined, plan.functions
    for refusal in plan.refusals:
        raise refusal.error
    graph, partition = edges.graph, edges.inner
    nodes = [graph.node(index) for index in partition.nodes]
    facts = facts_of(graph, chip)
    neighbours = _neighbours(facts, partition, nodes)
    free = {node.index for node in joined.aliases}
    moved = [
        node
        for node in nodes
        if record_of(graph, node).order is not None and node.index not in free
    ]
    reordered = reorder_operations(facts, moved, partition.outputs)
    without_tasks = {*free, *functions.within, *(node.index for node in neighbours.values())}
    operations: list[Operation] = []
    for node in nodes:
        operator = record_of(graph, node)
        if node.index in functions.chains:
            chain, table = functions.chains[node.index], functions.tables[node.index]
            operations.append(_table(node, chain.nodes, chain.source, node.outputs[0], table))
        elif operator.order is not None:
            if node.index in reordered:
                operations.append(reordered[node.index])
        elif operator.lowering is not Lowering.HOST and node.index not in without_tasks:
            operations += (_operation(graph, node, neighbours, t) for t in node.outputs)
    for item in edges.functions:  # the host has the moves before; of one part
        made = item.function
        last = graph.node(made.nodes[-1])
        operations.append(_table(last, made.nodes, item.source, item.result, made.table))
    return Workload(
        graph,
        partition,
        edges.inputs,
        edges.outputs,
        tuple(operations),
        joined.aliases,
        joined.places,
    )


def _table(
    node: Node, nodes: tuple[int, ...], source: int, result: int, function: bytes
) -> Operation:
    """``nodes``, of which ``node`` is the last, as a function of ``source``."""
    return Operation(node, nodes, (source,), result, partial(TablePlan, function=function))


def _neighbours(facts: GraphFacts, partition: Partition, nodes: list[Node]) -> Mapping[int, Node]:
    """Nodes that are a part of their readers, by their result."""
    found = {}
    for node in nodes:
        hides = facts.operator(node).hides
        if hides is not None and node.outputs[0] not in partition.outputs and hides(facts, node):
            found[node.outputs[0]] = node
    return found


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
