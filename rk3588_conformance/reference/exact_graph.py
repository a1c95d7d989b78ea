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
from delegate.ops.pack import PackOptions
from delegate.ops.unpack import UnpackOptions
from rk3588_conformance.half_judge import clamped
from rk3588_conformance.reference import selecting
from rk3588_conformance.reference.arithmetic import Call
from rk3588_conformance.reference.half_oracle import EXACT, Array, Terms

Values = dict[int, Array]
ValueOf = Callable[[int], Array]
Rounded = Callable[[int, Array], Array]
"""A function that gives what is held of a tensor (index) instead of its exact values."""


def exact_values(
    graph: Graph, inputs: Mapping[int, Array], rounded: Rounded = lambda _, values: values
) -> Values:
    """Return the values by tensor, those of ``inputs`` too. ``graph``: as ``in_half`` gives it.
    Raises KeyError: an operator is not known here.
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
    """Unlike in ``half_oracle``, constants are as they are; so are slopes."""
    x, y = map(values, node.inputs)
    return _of_exact(x * y), node.known_options(MulOptions).activation


def _prelu(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    x, slope = map(values, node.inputs)
    return _of_exact(np.where(x >= 0, x, x * slope)), Activation.NONE


def _leaky(_: Graph, node: Node, values: Any) -> tuple[Terms, Activation]:
    x, slope = values(node.inputs[0]), node.known_options(LeakyReluOptions).alpha
    return _of_exact(np.where(x >= 0, x, x * slope)), Activation.NONE


_COMPUTES = EXACT | {"MUL": _product, "PRELU": _prelu, "LEAKY_RELU": _leaky}


def _kept(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    return [value_of(node.inputs[0])]


def _joined(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    axis = node.known_options(ConcatenationOptions).axis
    return [np.concatenate([value_of(t) for t in node.inputs], axis)]


def _split(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    axis, whole = (value_of(t) for t in node.inputs)
    return list(np.split(whole, len(node.outputs), int(axis.item())))


def _split_unevenly(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    whole, sizes, axis = (value_of(t) for t in node.inputs)
    return list(np.split(whole, np.cumsum(sizes[:-1]), int(axis.item())))


def _unpacked(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    axis = node.known_options(UnpackOptions).axis
    return list(np.moveaxis(value_of(node.inputs[0]), axis, 0))


def _packed(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    axis = node.known_options(PackOptions).axis
    return [np.stack([value_of(t) for t in node.inputs], axis)]


def _sliced(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    whole, begin, size = (value_of(t) for t in node.inputs)
    ends = [None if n < 0 else b + n for b, n in zip(begin, size, strict=True)]
    return [whole[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))]]


def _strided(_: Graph, node: Node, value_of: ValueOf) -> list[Array]:
    """Slice without masks: from ``begin`` to ``end`` in steps."""
    whole, *box = (value_of(t) for t in node.inputs)
    return [whole[tuple(slice(*bounds) for bounds in zip(*box, strict=True))]]


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
    "SPLIT_V": _split_unevenly,
    "PACK": _packed,
    "UNPACK": _unpacked,
    "SLICE": _sliced,
    "STRIDED_SLICE": _strided,
    "TRANSPOSE": _transposed,
    "TILE": _by(selecting.tile),
    "GATHER": _by(selecting.gather),
    "MIRROR_PAD": _by(selecting.mirror_pad),
    "SPACE_TO_DEPTH": _by(selecting.space_to_depth),
    "DEPTH_TO_SPACE": _by(selecting.depth_to_space),
    "RESIZE_NEAREST_NEIGHBOR": _by(selecting.resize_nearest_neighbor),
}
