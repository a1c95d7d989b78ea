"""What a partition's nodes become: operations with tasks and the neighbours in them, aliases.

In: ``Graph`` and ``Partition``. Out: ``Workload``. Raises LoweringError for a node that cannot be
what its operator's record says.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from delegate.partition.functions import FunctionPlan
from delegate.partition.pixel_pairs import pair_pixels
from delegate.partition.plans import PartitionPlan, plan_partition
from delegate.partition.rules import ALIAS_IS_FREE, RESULT_USED, facts_of
from delegate.partition.spreading import Applied


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
    for refusal in edges.refusals:
        raise LoweringError(refusal.node.index, refusal.rule, refusal.problem)
    graph, partition = edges.graph, edges.inner
    for rejection in joined.rejections:
        raise LoweringError(rejection.node, ALIAS_IS_FREE, rejection.detail.partition(": ")[2])
    for refusal in functions.refusals:
        raise LoweringError(refusal.node.index, refusal.rule, refusal.problem)
    nodes = [graph.node(index) for index in partition.nodes]
    facts = facts_of(graph, chip)
    neighbours = _neighbours(facts, partition, nodes)
    free = {node.index for node in joined.aliases}
    orders = [node for node in nodes if record_of(graph, node).order is not None]
    moved = [node for node in orders if node.index not in free]
    members = {node.index for node in moved}
    reordered = reorder_operations(facts, moved, members, partition.outputs)
    operations: list[Operation] = []
    for node in nodes:
        if node.index in functions.chains:
            operations.append(_function(graph, node, functions))
        elif record_of(graph, node).order is not None:
            if node.index in reordered:
                operations.append(reordered[node.index])
        elif record_of(graph, node).lowering is Lowering.TASKS:
            if node.index not in functions.within and node.outputs[0] not in neighbours:
                operations.append(_operation(graph, node, neighbours))
        elif record_of(graph, node).lowering is Lowering.ALIAS and node.index not in free:
            operations += [_move(graph, node, result) for result in node.outputs]
    operations += (_applied(graph, item) for item in edges.functions)
    return Workload(
        graph,
        partition,
        edges.inputs,
        edges.outputs,
        tuple(operations),
        joined.aliases,
        joined.places,
    )


def _move(graph: Graph, node: Node, result: int) -> Operation:
    """One result of a node that brings data elsewhere."""
    operator = record_of(graph, node)
    assert operator.plan is not None, node.op
    operands = operator.feature_inputs(node)
    return Operation(node, (node.index,), operands, result, operator.plan)


def _function(graph: Graph, node: Node, functions: FunctionPlan) -> Operation:
    """The chain that ends with ``node``."""
    chain = functions.chains[node.index]
    return Operation(
        node=node,
        nodes=chain.nodes,
        operands=(chain.source,),
        result=node.outputs[0],
        plan=partial(TablePlan, function=functions.tables[node.index]),
    )


def _applied(graph: Graph, item: Applied) -> Operation:
    """A function that the host has the moves before, of one part."""
    return Operation(
        node=graph.node(item.function.nodes[-1]),
        nodes=item.function.nodes,
        operands=(item.source,),
        result=item.result,
        plan=partial(TablePlan, function=item.function.table),
    )


def _neighbours(facts: GraphFacts, partition: Partition, nodes: list[Node]) -> Mapping[int, Node]:
    """Nodes that are a part of their readers, by their result."""
    found = {}
    for node in nodes:
        hides = facts.operator(node).hides
        if hides is not None and node.outputs[0] not in partition.outputs and hides(facts, node):
            found[node.outputs[0]] = node
    return found


def _operation(graph: Graph, node: Node, neighbours: Mapping[int, Node]) -> Operation:
    operator = record_of(graph, node)
    assert operator.plan is not None, node.op
    operands = operator.feature_inputs(node)
    before = neighbours.get(operands[0])
    padding = None
    if before is not None:
        pads = record_of(graph, before).pads
        assert pads is not None, before.op
        padding = pads(graph, before)
        operands = (before.inputs[0], *operands[1:])
    return Operation(
        node=node,
        nodes=(node.index,) if before is None else (before.index, node.index),
        operands=operands,
        result=node.outputs[0],
        plan=operator.plan,
        padding=padding,
        fold=operator.fold,
    )
