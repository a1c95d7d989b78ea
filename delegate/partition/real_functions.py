"""Say DEQUANTIZE, a function of float32 and QUANTIZE as one function of an 8-bit value.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.errors import LoweringError
from delegate.ops.shared.real_functions import neighbours
from delegate.partition.rewriting import Rewriter, Rewritten
from delegate.partition.rules import HOST_CONVERTS, facts_of


def join_real_functions(given: Rewritten, chip: Chip) -> Rewritten:
    """Return ``given`` with one node for each three. Raises LoweringError for a function whose
    neighbours are not in the partition.
    """
    facts, before = facts_of(given.graph, chip), {**given.before}
    to, partition = Rewriter(given.graph, given.partition), given.partition
    for node in map(given.graph.node, partition.nodes):
        if not facts.operator(node).is_real:
            continue
        found = neighbours(facts, node)
        between = {*node.inputs, *node.outputs}
        if (
            found is None
            or not between.isdisjoint(partition.outputs)
            or not all(one.index in partition.nodes for one in found)
        ):
            problem = "its DEQUANTIZE or QUANTIZE is in no partition with it"
            raise LoweringError(node.index, HOST_CONVERTS, problem)
        enters, leaves = found
        to.put(enters.index)
        to.put(leaves.index)
        to.put(node.index, replace(node, inputs=enters.inputs, outputs=leaves.outputs))
        before[node.index] = (enters.index, node.index, leaves.index)
    return Rewritten(*to.made(), before)
