"""Say a partition in another way: tensors and nodes that are added to its graph, or put in place of
others.

Comes from: what pays (``heads``, ``siblings``, ``width_packing``). Goes to: ``workload``, which
lowers the graph that this gives instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Graph, Node, Partition, Tensor

RESHAPE, SLICE = "RESHAPE", "SLICE"
"""The operators that bring elements back in the model's order, and that cut a part."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph that says a partition in another way. ``before``: the model's nodes that a
    convolution of ``graph`` also does, by the index that it has.
    """

    graph: Graph
    partition: Partition
    before: Mapping[int, tuple[int, ...]]


class Rewriter:
    """A graph while it is rewritten. ``tensors`` and ``nodes``: as they are by now, the nodes in an
    order in which they can run. Those that are added belong to ``partition``. ``changed``: the
    nodes that were put in the place of others, by index.
    """

    def __init__(self, graph: Graph, partition: Partition) -> None:
        self.graph, self.partition = graph, partition
        self.tensors = list(graph.tensors)
        self.nodes = list(graph.nodes)
        self.changed: list[int] = []

    def add(
        self, like: Tensor, shape: Sequence[int], constant: npt.NDArray[np.generic] | None = None
    ) -> int:
        """Add a tensor as ``like``, of another shape, and return its index."""
        index = len(self.tensors)
        size = tuple(shape)
        made = replace(like, index=index, shape=size, constant=constant, shape_signature=())
        self.tensors.append(made)
        return index

    def numbers(self, values: Sequence[int]) -> int:
        """Add a constant that says a shape, a place or a size."""
        array = np.array(values, np.int32)
        return self.add(Tensor(0, "numbers", array.shape, DType.INT32), array.shape, array)

    @property
    def spare(self) -> int:
        """Return the first index from which on no node has one."""
        return max(node.index for node in (*self.graph.nodes, *self.nodes)) + 1

    def put(self, index: int, *nodes: Node) -> None:
        """Put ``nodes`` in the place of node ``index``; none: it goes."""
        at = next(place for place, node in enumerate(self.nodes) if node.index == index)
        self.nodes[at : at + 1] = nodes
        self.changed += [node.index for node in nodes]

    def put_behind(self, tensor: int, *nodes: Node) -> None:
        """Put ``nodes`` behind the one that makes ``tensor``."""
        at = next(place for place, node in enumerate(self.nodes) if tensor in node.outputs) + 1
        self.nodes[at:at] = nodes

    def made(self) -> tuple[Graph, Partition]:
        """Return the graph and the partition as they are by now."""
        indices = [node.index for node in self.nodes]
        mine = {*indices}.difference(node.index for node in self.graph.nodes)
        mine.update(self.partition.nodes)
        graph = replace(self.graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))
        return graph, replace(self.partition, nodes=tuple(i for i in indices if i in mine))
