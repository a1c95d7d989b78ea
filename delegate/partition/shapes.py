"""Compute the shapes of a partition's tensors from those of its inputs.

The runtime knows the shapes of a partition's inputs when it prepares the kernel that stands for
the nodes; those of the tensors beyond are old after a resize, and some kernels tell theirs only
while they run. The operators' records tell them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from delegate.model.graph import Graph, Node, Partition
from delegate.ops.operator import ABSENT, Shape, known_record
from delegate.ops.shared.shape_arithmetic import (
    INTEGERS,
    may_follow_from_shapes,
    with_shape_constants,
)


def following_shapes(graph: Graph, partition: Partition) -> Mapping[int, Shape]:
    """Return the shapes of the partition's inputs and of what its nodes write, up to the first node
    from whose inputs no shape follows. What ``graph`` says of results does not count.
    """
    from delegate.ops.shared.dilations import with_dilations

    graph = with_dilations(graph)
    known = {index: graph.tensor(index).shape for index in partition.inputs}
    changed = graph
    shapes: tuple[Shape, ...] | None
    for node in map(graph.node, partition.delegated):
        changed = with_shapes(changed, {t: known[t] for t in node.inputs if t in known})
        if node.index in partition.computed:
            # What was made of old shapes is none of the new ones.
            changed = with_shape_constants(changed, (node,))
            shapes = _computed_shapes(changed, node)
        else:
            shapes = _shapes(changed, node)
        if shapes is None:
            break
        known.update(zip(node.outputs, shapes, strict=True))
    return known


def _computed_shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shapes of results that are constants: numbers have theirs in any batch."""
    results = [graph.tensor(t) for t in node.outputs]
    is_number = all(tensor.dtype in INTEGERS for tensor in results)
    found = None if is_number else _shapes(graph, node)
    return found or tuple(tensor.shape for tensor in results)


def _shapes(graph: Graph, node: Node) -> tuple[Shape, ...] | None:
    record = known_record(graph, node)
    if record is None:  # it is part of another one's record, see in_half
        return None
    try:
        found = record.output_shapes(graph, node)
    except (ValueError, IndexError):  # also ranks that the rules do not allow
        return None
    return None if found is None or len(found) != len(node.outputs) else tuple(found)


def with_following_shapes(graph: Graph) -> Graph:
    """Return ``graph`` with the results of shape arithmetic as constants, and the shapes that files
    leave open where they follow from those of inputs: as Keras exports Dense of rank 3, which
    computes its matrix's shape.
    """
    changed = with_shape_constants(graph)
    found = {t for t in changed.folded if changed.tensor(t).shape != graph.tensor(t).shape}
    for node in changed.nodes:
        results = [changed.tensor(t) for t in node.outputs if t != ABSENT]
        if may_follow_from_shapes(changed, node) and any(t.constant is None for t in results):
            before, changed = changed, with_shape_constants(changed, (node,))
            if changed is not before:
                found.update(t.index for t in results if t.shape != changed.tensor(t.index).shape)
                continue
        is_open = not all(tensor.has_fixed_image for tensor in results)
        if not is_open and found.isdisjoint(node.inputs):
            continue
        inputs = (changed.tensor(t) for t in node.inputs if t != ABSENT)
        is_known = all(tensor.has_fixed_image for tensor in inputs)
        shapes = _shapes(changed, node) if is_known else None
        if shapes is not None:
            known = with_shapes(changed, dict(zip(node.outputs, shapes, strict=True)))
            found.update(t for t in node.outputs if known.tensor(t) is not changed.tensor(t))
            changed = known
    return changed


def first_unknown(graph: Graph, partition: Partition, known: Mapping[int, Shape]) -> Node | None:
    """The first node whose results have no shapes in ``known``."""
    for node in map(graph.node, partition.delegated):
        if any(t not in known for t in node.outputs if t != ABSENT):
            return node
    return None


def with_shapes(graph: Graph, shapes: Mapping[int, Shape]) -> Graph:
    """``graph`` with these fixed shapes of tensors."""
    changed = {
        index: replace(graph.tensor(index), shape=shape, shape_signature=())
        for index, shape in shapes.items()
        if graph.tensor(index).shape != shape or graph.tensor(index).shape_signature
    }
    if not changed:
        return graph
    return replace(graph, tensors=tuple(changed.get(t.index, t) for t in graph.tensors))
