"""What a partition's nodes are to one another: edges that the host converts, tensors inside others,
functions of one value. Planned once, for the partitioner's verdict and for ``workload``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delegate.errors import Rejection
from delegate.model.graph import Graph
from delegate.model.partition import Partition
from delegate.partition.aliases import AliasPlan, place_aliases
from delegate.partition.edges import EdgePlan, plan_edges
from delegate.partition.functions import FunctionPlan, plan_functions
from delegate.partition.rules import refused


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """``joined`` and ``functions``: of what ``edges`` leave inside."""

    edges: EdgePlan
    joined: AliasPlan
    functions: FunctionPlan


def plan_partition(graph: Graph, partition: Partition) -> PartitionPlan:
    """Also where nodes cannot be what they are to be, see ``refused_nodes``; functions of such a
    partition may then be missing.
    """
    edges = plan_edges(graph, partition)
    joined = place_aliases(edges.graph, edges.inner)
    try:
        functions = plan_functions(edges.graph, edges.inner, edges.sources)
    except Exception:
        if not (edges.refusals or joined.rejections):
            raise
        functions = FunctionPlan({}, {}, frozenset(), ())
    return PartitionPlan(edges, joined, functions)


def refused_nodes(plans: Iterable[PartitionPlan]) -> list[Rejection]:
    """A rejection for every node that only the host can do and that is at no edge, every
    concatenation or slice that is not free, and every node that can only be part of a function
    and is none.
    """
    plans = list(plans)
    found = [refused(r.node, r.rule, r.problem) for p in plans for r in p.edges.refusals]
    found += [rejection for p in plans for rejection in p.joined.rejections]
    found += [refused(r.node, r.rule, r.problem) for p in plans for r in p.functions.refusals]
    return found
