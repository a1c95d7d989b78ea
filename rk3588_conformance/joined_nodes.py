"""Find which nodes only together are as they are in the model, to compare them so."""

from collections.abc import Iterable, Mapping, Sequence

from delegate.lower.lowered import Layer
from delegate.lower.numerics.pipeline import Difference
from delegate.model.graph import Graph, Node
from rk3588_conformance.tolerance import is_inexact

UNCLAIMED = Difference(255, 1.0)
"""Any result of 8 bits."""


def joined_nodes(layers: Iterable[Layer]) -> dict[int, tuple[list[int], Difference]]:
    """Return, by the last node, nodes that only together are as they are in the model, and how far
    they may be off. Layers that have the last node in common are parts of one result, each before
    its share of what follows the CONCATENATION.
    """
    groups: list[tuple[set[int], Difference]] = []
    for layer in layers:
        if layer.difference is None:
            continue
        nodes, difference = set(layer.nodes), layer.difference
        for group in [group for group in groups if max(group[0]) == max(nodes)]:
            groups.remove(group)
            nodes |= group[0]
            worst = max(difference.most_lsb, group[1].most_lsb)
            difference = Difference(worst, max(difference.share, group[1].share))
        groups.append((nodes, difference))
    return {max(nodes): (sorted(nodes), difference) for nodes, difference in groups}


def with_said_together(
    graph: Graph,
    joined: Mapping[int, tuple[list[int], Difference | None]],
    delegated: Sequence[int],
) -> dict[int, tuple[list[int], Difference | None]]:
    """Return ``joined`` with the nodes that are said in other terms, as a dilated convolution is:
    in between, the runtime has tensors of other shapes or orders. Of several that round, each
    reads what the one before it gives: nothing is claimed of them together.
    """
    found = dict(joined)
    for group in graph.together:
        if not group <= set(delegated):
            continue
        nodes, claims, claimed = set(group), [], set[int]()
        for last, (others, theirs) in list(found.items()):
            if not group.isdisjoint(others):
                nodes |= set(others)
                if theirs is not None:
                    claims.append(theirs)
                    claimed |= set(others)
                del found[last]
        alone = sum(is_inexact(graph, graph.node(index)) for index in nodes - claimed)
        is_one = alone + len(claims) <= 1
        difference = next(iter(claims), None) if is_one else UNCLAIMED
        found[max(nodes)] = (sorted(nodes), difference)
    return found


def with_what_lies_between(graph: Graph, indices: Sequence[int]) -> list[Node]:
    """The nodes, and all on the way from one to another: moves without tasks are in no layer."""
    own, first, last = set(indices), min(indices), max(indices)
    behind: set[int] = set()
    before: set[int] = set()
    span = [graph.node(index) for index in range(first, last + 1)]
    follows = set()
    for node in span:
        if node.index in own or behind.intersection(node.inputs):
            follows.add(node.index)
            behind.update(node.outputs)
    found = []
    for node in reversed(span):
        if node.index in own or (node.index in follows and before.intersection(node.outputs)):
            found.append(node)
            before.update(node.inputs)
    return found[::-1]
