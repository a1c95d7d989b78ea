"""Say nodes that are never computed alone as one node: all that is computed in float32 between
8-bit tensors as one function of them, and the nodes of a deviation in fp16.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.errors import LoweringError
from delegate.ops.shared.real_functions import chain_to, is_end
from delegate.partition.rewriting import Rewriter, Rewritten
from delegate.partition.rules import HOST_CONVERTS, facts_of


def join_real_functions(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with one node for each function's result. Raises LoweringError for a node
    of one whose neighbours are not in the partition.
    """
    facts, before = facts_of(given.graph, chip), {**given.before}
    to, partition = Rewriter(given.graph, given.partition), given.partition
    members = {*partition.nodes}
    inner: set[int] = set()
    for node in map(given.graph.node, partition.nodes):
        found = chain_to(facts, node, members) if is_end(facts, node) else None
        if found is None:
            continue
        made, before[node.index] = found
        to.put(node.index, made)
        inner.update(before[node.index])
    read = Counter(t for node in to.nodes for t in node.inputs)
    read.update(partition.outputs)
    for node in reversed([given.graph.node(index) for index in partition.nodes]):
        is_real = facts.operator(node).real is not None
        if node.index in before or not (is_real or node.index in inner):
            continue
        if node.index in inner and not any(read[t] for t in node.outputs):
            read.subtract(node.inputs)
            to.put(node.index)
        elif is_real:  # a DEQUANTIZE may be the host's, too
            problem = "its DEQUANTIZE or QUANTIZE is in no partition with it"
            raise LoweringError(node.index, HOST_CONVERTS, problem)
    return Rewritten(*to.made(), before)


def join_nodes(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with one node for each whole. Raises LoweringError for a node whose others
    are not in the partition.
    """
    facts, before = facts_of(given.graph, chip), {**given.before}
    to, partition = Rewriter(given.graph, given.partition), given.partition
    for node in map(given.graph.node, partition.nodes):
        whole = facts.operator(node).whole
        if whole is None:
            continue
        found = whole(facts, node)
        between = set() if found is None else {t for n in found.nodes for t in n.outputs}
        between.difference_update(() if found is None else found.outputs)
        if (
            found is None
            or not between.isdisjoint(partition.outputs)
            or not all(one.index in partition.nodes for one in found.nodes)
        ):
            problem = "a node that it is computed with is in no partition with it"
            raise LoweringError(node.index, HOST_CONVERTS, problem)
        for one in found.nodes:
            if one is not node:
                to.put(one.index)
        to.put(node.index, replace(node, inputs=found.inputs, outputs=found.outputs))
        before[node.index] = tuple(one.index for one in found.nodes)
    return Rewritten(*to.made(), before)
