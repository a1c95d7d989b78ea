"""All values of a float graph in float64, from the model's own numbers: what bounds of whole graphs
are held to. What nodes compute is ``half_oracle``'s; what they move is moved here. It shares no
code with the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delegate.model.graph import Activation, Graph, Node
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from rk3588_conformance import half_oracle
from rk3588_conformance.half_judge import Array, Judge, Terms, clamped
from rk3588_conformance.reference import depth_to_space, mirror_pad, space_to_depth
from rk3588_conformance.reference.arithmetic import Call

Values = dict[int, Array]
ValueOf = Callable[[int], Array]
Rounded = Callable[[int, Array], Array]
"""A function that gives what is held of a tensor (index) instead of its exact values."""


def exact_values(
    graph: Graph, inputs: Mapping[int, Array], rounded: Rounded = lambda _, values: values
) -> Values:
    """By tensor, those of ``inputs`` too. ``graph``: as ``in_half`` gives it. Raises KeyError: an
    operator is not known here.
    """
    values = {t: rounded(t, value.astype(np.float64)) for t, value in inputs.items()}
    for node in graph.nodes:
        if graph.tensor(node.outputs[0]).constant is not None:
            continue
        found = node_results(graph, node, values)
        values.update((tensor, rounded(tensor, result)) for tensor, result in found.items())
    return values


def node_results(graph: Graph, node: Node, values: Mapping[int, Array]) -> Values:
    """Return the results of one node, by tensor, from ``values`` of what it reads and from
    constants. Raises KeyError as ``exact_values``.
    """

    def value_of(index: int) -> Array:
        constant = graph.tensor(index).constant
        if constant is None:
            return values[index]
        return constant if constant.dtype.kind == "i" else constant.astype(np.float64)

    if node.op in _MOVES:
        results = _MOVES[node.op](graph, node, value_of)
    else:
        terms, activation = _COMPUTES[node.op](graph, node, value_of)
        results = [clamped(terms[0], activation)]
    return {
        tensor: result.reshape(graph.tensor(tensor).shape)
        for tensor, result in zip(node.outputs, results, strict=True)
    }


def to_half(values: Array) -> Array:
    """The nearest fp16."""
    return values.astype(np.float16).astype(np.float64)


def _of_exact(result: Array) -> Terms:
    return result, np.abs(result), 0


def _product(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    """Unlike the oracle's, of constants as they are; so are slopes."""
    x, y = map(values, node.inputs)
    return _of_exact(x * y), node.known_options(MulOptions).activation


def _prelu(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    x, slope = map(values, node.inputs)
    return _of_exact(np.where(x >= 0, x, x * slope)), Activation.NONE


def _leaky(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    x, slope = values(node.inputs[0]), node.known_options(LeakyReluOptions).alpha
    return _of_exact(np.where(x >= 0, x, x * slope)), Activation.NONE


_COMPUTES: dict[str, Judge] = {
    "CONV_2D": half_oracle.convolution,
    "DEPTHWISE_CONV_2D": half_oracle.depthwise,
    "FULLY_CONNECTED": half_oracle.dense,
    "BATCH_MATMUL": half_oracle.matrix_product,
    "TRANSPOSE_CONV": half_oracle.transposed,
    "ADD": half_oracle.total,
    "SUB": half_oracle.difference,
    "MUL": _product,
    "MAXIMUM": half_oracle.maximum,
    "MINIMUM": half_oracle.minimum,
    "RELU": half_oracle.relu,
    "RELU6": half_oracle.relu6,
    "PRELU": _prelu,
    "LEAKY_RELU": _leaky,
    "HARD_SWISH": half_oracle.hard_swish,
    "LOGISTIC": half_oracle.logistic,
    "TANH": half_oracle.tanh,
    "MAX_POOL_2D": half_oracle.largest,
    "AVERAGE_POOL_2D": half_oracle.averages,
    "MEAN": half_oracle.mean,
    "REDUCE_MAX": half_oracle.highest,
    "RESIZE_BILINEAR": half_oracle.bilinear,
    "PAD": half_oracle.padded,
}


def _kept(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    return [value_of(node.inputs[0])]


def _joined(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    axis = node.known_options(ConcatenationOptions).axis
    return [np.concatenate([value_of(t) for t in node.inputs], axis)]


def _split(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    axis, whole = (value_of(t) for t in node.inputs)
    return list(np.split(whole, len(node.outputs), int(axis.item())))


def _sliced(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    whole, begin, size = (value_of(t) for t in node.inputs)
    ends = [None if n < 0 else b + n for b, n in zip(begin, size, strict=True)]
    return [whole[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))]]


def _transposed(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    return [value_of(node.inputs[0]).transpose(value_of(node.inputs[1]))]


def _by(reference: Callable[[Call], Array]) -> Any:
    """Return the reference of an operator from that of integers."""

    def moved(graph: Graph, node: Node, value_of: ValueOf) -> list[Array]:
        return [reference(Call(graph, node, {node.inputs[0]: value_of(node.inputs[0])}))]

    return moved


_MOVES: dict[str, Callable[[Graph, Node, ValueOf], list[Array]]] = {
    "RESHAPE": _kept,
    "SQUEEZE": _kept,
    "EXPAND_DIMS": _kept,
    "CONCATENATION": _joined,
    "SPLIT": _split,
    "SLICE": _sliced,
    "TRANSPOSE": _transposed,
    "MIRROR_PAD": _by(mirror_pad.reference),
    "SPACE_TO_DEPTH": _by(space_to_depth.reference),
    "DEPTH_TO_SPACE": _by(depth_to_space.reference),
}

OPERATORS = frozenset((*_COMPUTES, *_MOVES))
"""The operators that are known here."""
