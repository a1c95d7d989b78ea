"""All values of a float graph in float64, from the model's own numbers: what bounds of whole graphs
are held to. What nodes compute is ``half_oracle``'s; what they move is moved here. It shares no
code with the compiler.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.pack import PackOptions
from delegate.ops.unpack import UnpackOptions
from rk3588_conformance.half_judge import clamped, in_half, outside_bound
from rk3588_conformance.reference import selecting
from rk3588_conformance.reference.arithmetic import Call
from rk3588_conformance.reference.half_oracle import EXACT, Array, most_of

Values = dict[int, Array]
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


def is_bounded(graph: Graph) -> bool:
    """Return whether a model is one operator that has a bound, beside what makes its constants."""
    ops = [node.op for node in graph.nodes if node.op != "DEQUANTIZE"]
    return len(ops) == 1 and ops[0] in EXACT


def outside(graph: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
    """Return what of a model in fp16 is outside of its bound: of one operator's, or, where several
    only move values, what is not one of the inputs, as the host rounds them, where it belongs.
    """
    if is_bounded(graph):
        return outside_bound(graph, inputs, outputs)
    values = exact_values(graph, {index: in_half(x) for index, x in inputs.items()})
    problems = []
    for number, (ours, index) in enumerate(zip(outputs, graph.outputs, strict=True)):
        exact = values[index]
        if ours.shape != exact.shape:
            problems.append(f"output {number} is {list(ours.shape)}, not {list(exact.shape)}")
        elif not np.array_equal(ours, exact, equal_nan=True):
            wrong = ~((ours == exact) | (np.isnan(ours) & np.isnan(exact)))
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            problems.append(
                f"output {number}, element {list(place)}: {ours[place]} instead of "
                f"{exact[place]}; {int(wrong.sum())} of {wrong.size} differ"
            )
    return problems


def node_results(graph: Graph, node: Node, values: Mapping[int, Array]) -> Values:
    """Return the results of one node, by tensor, from ``values`` of what it reads and from
    constants. Raises KeyError as ``exact_values``.
    """

    constants = {t: graph.tensor(t).constant for t in node.inputs if t >= 0 and t not in values}
    known = {t: c.astype(np.float64) for t, c in constants.items()
             if c is not None and c.dtype.kind != "i"}  # fmt: skip
    call = Call(graph, node, {**values, **known})
    if node.op in _MOVES:
        found = _MOVES[node.op](call)
        results = found if isinstance(found, list) else [found]
    else:
        exact = _COMPUTES[node.op](call) if node.op in _COMPUTES else EXACT[node.op](call)[0]
        results = [clamped(exact, most_of(call))]
    return {
        tensor: result.reshape(graph.tensor(tensor).shape)
        for tensor, result in zip(node.outputs, results, strict=True)
    }


def _sloped(x: Array, slope: Array | float) -> Array:
    return np.where(x >= 0, x, x * slope)


_COMPUTES: dict[str, Callable[[Call], Array]] = {
    "MUL": lambda call: np.asarray(call.value(0) * call.value(1)),
    "PRELU": lambda call: _sloped(call.value(), call.value(1)),
    "LEAKY_RELU": lambda call: _sloped(call.value(), call.options(LeakyReluOptions).alpha),
}
"""Unlike in ``half_oracle``, constants are as they are; so are slopes."""


def _kept(call: Call) -> Array:
    return call.value()


def _every(call: Call) -> list[Array]:
    return [call.value(place) for place in call.places]


def _split(call: Call) -> list[Array]:
    axis, whole = _every(call)
    return list(np.split(whole, len(call.node.outputs), int(axis.item())))


def _split_unevenly(call: Call) -> list[Array]:
    whole, sizes, axis = _every(call)
    return list(np.split(whole, np.cumsum(sizes[:-1]), int(axis.item())))


def _sliced(call: Call) -> Array:
    whole, begin, size = _every(call)
    ends = [None if n < 0 else b + n for b, n in zip(begin, size, strict=True)]
    return np.asarray(whole[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))])


def _strided(call: Call) -> Array:
    """Slice without masks: from ``begin`` to ``end`` in steps."""
    whole, *box = _every(call)
    return np.asarray(whole[tuple(slice(*bounds) for bounds in zip(*box, strict=True))])


_MOVES: dict[str, Callable[[Call], Array | list[Array]]] = {
    "RESHAPE": _kept,
    "SQUEEZE": _kept,
    "EXPAND_DIMS": _kept,
    "CONCATENATION": lambda call: np.concatenate(
        _every(call), call.options(ConcatenationOptions).axis
    ),
    "SPLIT": _split,
    "SPLIT_V": _split_unevenly,
    "PACK": lambda call: np.stack(_every(call), call.options(PackOptions).axis),
    "UNPACK": lambda call: list(np.moveaxis(call.value(), call.options(UnpackOptions).axis, 0)),
    "SLICE": _sliced,
    "STRIDED_SLICE": _strided,
    "TRANSPOSE": lambda call: call.value().transpose(call.value(1)),
    "TILE": selecting.tile,
    "GATHER": selecting.gather,
    "REVERSE_V2": selecting.reverse_v2,
    "MIRROR_PAD": selecting.mirror_pad,
    "SPACE_TO_DEPTH": selecting.space_to_depth,
    "DEPTH_TO_SPACE": selecting.depth_to_space,
    "RESIZE_NEAREST_NEIGHBOR": selecting.resize_nearest_neighbor,
}
