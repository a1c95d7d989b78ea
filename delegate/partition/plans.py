"""Plan what a partition's nodes are to one another: edges that the host converts, tensors inside
others, functions of one value. Planned once, for the partitioner's verdict and for ``workload``.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Graph
from delegate.model.partition import Partition
from delegate.partition.aliases import AliasPlan, place_aliases
from delegate.partition.edges import EdgePlan, plan_edges
from delegate.partition.functions import FunctionPlan, plan_functions
from delegate.partition.rules import Refusal


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """``joined`` and ``functions``: of what ``edges`` leave inside."""

    edges: EdgePlan
    joined: AliasPlan
    functions: FunctionPlan

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Return the refusals of nodes that only the host can do and that are at no edge,
        concatenations or slices that are not free, and nodes that can only be part of a function
        and are none.
        """
        return (*self.edges.refusals, *self.joined.refusals, *self.functions.refusals)


def plan_partition(graph: Graph, partition: Partition) -> PartitionPlan:
    """Also where nodes cannot be what they are to be, see ``refusals``; functions of such a
    partition may then be missing.
    """
    edges = plan_edges(graph, partition)
    joined = place_aliases(edges.graph, edges.inner)
    try:
        functions = plan_functions(edges.graph, edges.inner, edges.sources)
    except Exception:
        if not (edges.refusals or joined.refusals):
            raise
        functions = FunctionPlan({}, {}, frozenset(), ())
    return PartitionPlan(edges, joined, functions)
