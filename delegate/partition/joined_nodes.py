"""Say nodes that are never computed alone as one, with those that belong to them, as the nodes of a
deviation in fp16.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.errors import LoweringError
from delegate.partition.rewriting import Rewriter, Rewritten
from delegate.partition.rules import HOST_CONVERTS, facts_of


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
