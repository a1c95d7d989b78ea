"""Equality of graphs, field by field, so that a difference names the tensor and the field."""

import dataclasses

import numpy as np

from delegate.model.graph import Graph, Node, Tensor
from delegate.ops import OPERATORS


def assert_same_tensor(a: Tensor, b: Tensor) -> None:
    for field in dataclasses.fields(Tensor):
        left, right = getattr(a, field.name), getattr(b, field.name)
        where = f"tensor {a.index} {a.name!r} {field.name}"
        if field.name == "constant":
            assert (left is None) == (right is None), where
            if left is not None:
                assert left.dtype == right.dtype, where
                assert left.shape == right.shape, where
                assert left.tobytes() == right.tobytes(), where
                assert not right.flags.writeable, where
        elif field.name == "quantization":
            assert repr(left) == repr(right), where
        else:
            assert left == right, where


def assert_same_graph(a: Graph, b: Graph, *, has_ends: bool = True) -> None:
    """``has_ends``: inputs, outputs, name and source are compared too."""
    assert len(a.tensors) == len(b.tensors)
    for left, right in zip(a.tensors, b.tensors, strict=True):
        assert_same_tensor(left, right)
    assert len(a.nodes) == len(b.nodes)
    for one, other in zip(a.nodes, b.nodes, strict=True):
        assert dataclasses.replace(one, options=None) == dataclasses.replace(other, options=None)
        assert _options(one) == _options(other), f"node {one.index} {one.op}"
    if has_ends:
        assert a.inputs == b.inputs
        assert a.outputs == b.outputs


def _options(node: Node) -> object:
    kind = OPERATORS[node.op].options if node.op in OPERATORS else None
    return None if kind is None else node.options_as(kind)


def constants(graph: Graph) -> list[np.ndarray]:
    return [t.constant for t in graph.tensors if t.constant is not None]
