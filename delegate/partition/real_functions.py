"""Say all that is computed in float32 between 8-bit tensors as one function of them.

Comes from: a partition whose nodes keep the rules. Goes to: ``workload``, which lowers the graph
that this gives instead.
"""

from __future__ import annotations

from collections import Counter

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
        if not any(read[t] for t in node.outputs):
            read.subtract(node.inputs)
            to.put(node.index)
        elif is_real:  # a DEQUANTIZE may be the host's, too
            problem = "its DEQUANTIZE or QUANTIZE is in no partition with it"
            raise LoweringError(node.index, HOST_CONVERTS, problem)
    return Rewritten(*to.made(), before)
