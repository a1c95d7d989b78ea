"""The judge of the float families: whether results are within what fp16 may be off from the exact
ones that ``half_oracle`` gives. It shares no code with the compiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, Graph, Node
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.case import Outside

Array = npt.NDArray[Any]
Terms = tuple[Array, Array, int] | tuple[Array, Array, int, Array]
"""The exact result before its clamp, the magnitudes in it, the roundings to fp32; what the rounding
of weights may have moved it by.
"""

Judge = Callable[[Graph, Node, Any], tuple[Terms, Activation]]
"""The results of an operator in exact arithmetic; of a graph, a node, and tensors' values by index.
"""

FP32 = 2.0**-24
FP16 = 2.0**-11
"""How far a rounding may move a number, of itself."""
_SUBNORMAL = 2.0**-25
_MOST = 65504.0
_INFINITE_FROM = 65520.0


def judged_by(judge: Judge) -> Outside:
    """Return the check of cases of the operator that ``judge`` knows."""
    return functools.partial(_outside, judge)


def judged_as(judge: Judge, same: Callable[[], bytes]) -> Outside:
    """By the model ``same``, whose weights are constants, with the same inputs."""

    def outside(_: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
        return _outside(judge, read_graph(same()), inputs, outputs)

    return outside


def _outside(
    judge: Judge, graph: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]
) -> list[str]:
    """Return what is outside the bound, of a graph of one node beside those that make its
    constants. ``judge``: that of the node's operator.
    """
    terms, activation = exact_terms(judge, graph, inputs)
    return _judged(terms, activation, outputs[0].reshape(graph.tensor(graph.outputs[0]).shape))


def exact_terms(
    judge: Judge, graph: Graph, inputs: Mapping[int, Array]
) -> tuple[Terms, Activation]:
    """Return what ``judge`` says of the only node of ``graph`` that makes no constant."""
    node = next(n for n in graph.nodes if n.outputs[0] in graph.outputs)
    made = {n.outputs[0]: n.inputs[0] for n in graph.nodes if n is not node}

    def values(index: int) -> Array:
        if index in inputs:
            with np.errstate(over="ignore"):
                half = inputs[index].astype(np.float16)
            finite = np.isfinite(inputs[index])
            return np.where(finite, np.clip(half.astype(np.float64), -_MOST, _MOST), half)
        constant = graph.tensor(made.get(index, index)).constant
        assert constant is not None
        return constant.astype(np.float64)

    return judge(graph, node, values)


def _judged(terms: Terms, activation: Activation, ours: Array) -> list[str]:
    exact, magnitude = (np.reshape(part, ours.shape) for part in terms[:2])
    roundings = terms[2]
    before = ((1 + FP32) ** roundings - 1) * magnitude
    if len(terms) > 3:
        before = before + np.reshape(terms[3], ours.shape)
    bound = before + FP16 * (np.abs(exact) + before) + _SUBNORMAL * (roundings > 0)
    wanted = clamped(exact, activation)
    beyond = np.abs(wanted) + bound >= _INFINITE_FROM
    with np.errstate(invalid="ignore"):
        error = np.abs(ours.astype(np.float64) - wanted)
    wrong = ~(error <= bound) & ~beyond
    if activation is not Activation.NONE:  # the clamp ends where fp16 does, at the latest
        wrong |= ~((ours >= 0) & (ours <= clamped(np.array(np.inf), activation)))
    if not wrong.any():
        # Beyond the range: an infinity of the right sign.
        surely = np.abs(wanted) - bound >= _INFINITE_FROM
        wrong = surely & ~(np.isinf(ours) & (np.sign(ours) == np.sign(wanted)))
    if not wrong.any():
        return []
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return [
        f"element {list(place)}: {ours[place]} instead of {wanted[place]}, bound {bound[place]}; "
        f"{int(wrong.sum())} of {wrong.size} are outside"
    ]


def clamped(exact: Array, activation: Activation) -> Array:
    """Behind a fused activation, which ends where fp16 does at the latest."""
    if activation is Activation.NONE:
        return exact
    return np.clip(exact, 0.0, 6.0 if activation is Activation.RELU6 else _MOST)
