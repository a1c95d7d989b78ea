"""Find the sizes that the graph concatenates to the channels of an output.

The shape of a detector's output fits several heads; which tensors went into it tells them apart (a
v8 head joins a box with the classes, a pose head also with the key points, and so on).
"""

from __future__ import annotations

from delegate.model.graph import Graph, Node

_MOST_STEPS = 16


def output_parts(graph: Graph, tensor: int, channels: int) -> tuple[int, ...]:
    """The sizes of the parts that ``channels`` are joined from; empty where the graph does not say,
    as in a model that was compiled ahead of time. Nodes behind the joint that keep the channels
    (transposed, reshaped, dequantised) are looked through.
    """
    producers: dict[int, Node] = {out: node for node in graph.nodes for out in node.outputs}
    for _ in range(_MOST_STEPS):
        node = producers.get(tensor)
        if node is None or not node.inputs or node.inputs[0] < 0:
            return ()
        if channels not in graph.tensor(tensor).shape:
            return ()
        sizes = _joined(graph, node, channels)
        if sizes:
            return sizes
        tensor = node.inputs[0]
    return ()


def _joined(graph: Graph, node: Node, channels: int) -> tuple[int, ...]:
    """Sizes of a node's inputs that differ along one axis alone and have ``channels`` in sum."""
    if len(node.inputs) < 2 or min(node.inputs) < 0:
        return ()
    shapes = [graph.tensor(index).shape for index in node.inputs]
    if len({len(shape) for shape in shapes}) != 1:
        return ()
    for axis in range(len(shapes[0])):
        sizes = tuple(shape[axis] for shape in shapes)
        others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
        if sum(sizes) == channels and len(others) == 1:
            return sizes
    return ()


def boundaries(parts: tuple[int, ...]) -> frozenset[int]:
    """Return where one part ends and the next begins."""
    ends, total = set(), 0
    for size in parts[:-1]:
        total += size
        ends.add(total)
    return frozenset(ends)
