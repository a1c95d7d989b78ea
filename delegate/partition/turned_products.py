"""Products of computed matrices that exchange rows and columns themselves, where a TRANSPOSE beside
them does.

Attention multiplies queries by keys with rows and columns exchanged, and the result may be turned
again before its softmax. On the NPU that moves channels to pixels, a convolution for every few
channels. A product takes its second operand either way, rows as kernels more cheaply, and the
product of the exchanged operands in the other order is the exchanged result: sums and multipliers
are the same. What else the TRANSPOSE does, as bringing heads in front of pixels, it still does.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.model.graph import Node, Partition
from delegate.ops.operator import RESULT, GraphFacts, Turn
from delegate.partition.rewriting import Rewriter, Rewritten
from delegate.partition.rules import check_node, facts_of


def turn_products(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with every exchange in its product that may be there."""
    found, facts = given, facts_of(given.graph, chip)
    for index in given.partition.nodes:
        node = facts.graph.node(index)
        turn = _turn(facts, found.partition, node)
        made = None if turn is None else _turned(facts, found, node, turn)
        if made is not None:
            found, facts = made, facts_of(made.graph, chip)
    return found


def _turn(facts: GraphFacts, partition: Partition, node: Node) -> Turn | None:
    """Return what is left of ``node`` where a product of the partition may do the rest."""
    turn = facts.operator(node).turn
    found = None if turn is None else turn(facts, node)
    if found is None or found.product.index not in partition.nodes:
        return None
    between = node.inputs[0] if found.place == RESULT else node.outputs[0]
    return None if between in partition.outputs else found


def _turned(facts: GraphFacts, given: Rewritten, node: Node, turn: Turn) -> Rewritten | None:
    """Return ``given`` with the exchange in the product; None: the rules forbid it."""
    to = Rewriter(given.graph, given.partition)
    source, result = node.inputs[0], node.outputs[0]
    exchange = facts.operator(turn.product).exchange
    assert exchange is not None
    product = exchange(turn.product, turn.place)
    is_result = turn.place == RESULT
    between = facts.graph.tensor(source if is_result else result)
    left = [] if turn.axes == tuple(range(len(turn.axes))) else [node]
    other = to.add(between, (*between.shape[:-2], *between.shape[:-3:-1])) if left else None
    if is_result:
        product = replace(product, outputs=(result if other is None else other,))
    else:
        inputs = list(product.inputs)
        inputs[turn.place] = source if other is None else other
        product = replace(product, inputs=tuple(inputs))
    if other is not None:
        ends = (other, result) if is_result else (source, other)
        axes = to.numbers(turn.axes)
        left = [replace(node, inputs=(ends[0], axes), outputs=ends[1:])]
    to.put(node.index, *left)
    to.put(product.index, product)
    graph, partition = to.made()
    changed = facts_of(graph, facts.chip)
    if any(check_node(changed, one) is not None for one in (*left, product)):
        return None
    nodes = (*given.before.get(product.index, ()), node.index, product.index)
    before = given.before if left else {**given.before, product.index: tuple(sorted({*nodes}))}
    return Rewritten(graph, partition, before)
