"""The judge of the float families: whether results are within what fp16 may be off from the exact
ones that ``half_oracle`` gives. It shares no code with the compiler.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from delegate.model.graph import Graph, Tensor
from rk3588_conformance.reference.arithmetic import Call
from rk3588_conformance.reference.half_oracle import (
    EXACT,
    FP16,
    FP32,
    Array,
    Terms,
    most_of,
)

_SUBNORMAL = 2.0**-25
_MOST = 65504.0
_INFINITE_FROM = 65520.0


def outside_bound(graph: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
    """Return what is outside the bound, of a graph of one node beside those that make its
    constants.
    """
    terms, most = exact_terms(graph, inputs)
    return _judged(terms, most, outputs[0].reshape(graph.tensor(graph.outputs[0]).shape))


def exact_terms(graph: Graph, inputs: Mapping[int, Array]) -> tuple[Terms, float | None]:
    """Return the exact results of the only node of ``graph`` that makes no constant, and the most
    that its clamp leaves, see ``most_of``.
    """
    node = next(n for n in graph.nodes if n.outputs[0] in graph.outputs)
    made = {n.outputs[0]: n.inputs[0] for n in graph.nodes if n is not node}
    values = {index: in_half(given) for index, given in inputs.items()}
    for index in node.inputs:
        if index >= 0 and index not in values:
            values[index] = _numbers(graph.tensor(made.get(index, index)))
    call = Call(graph, node, values)
    return EXACT[node.op](call), most_of(call)


def in_half(values: Array) -> Array:
    """Return inputs as the host rounds them to fp16, as float64."""
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    return np.where(np.isfinite(values), np.clip(half.astype(np.float64), -_MOST, _MOST), half)


def _numbers(tensor: Tensor) -> Array:
    """Return a constant as float64; quantised weights as the float32 that they stand for."""
    assert tensor.constant is not None
    values, scaling = tensor.constant.astype(np.float64), tensor.quantization
    if scaling is None:
        return values
    along = np.moveaxis(values, scaling.axis, -1)
    real = (along - np.array(scaling.zero_points)) * np.array(scaling.scales)
    return np.asarray(np.moveaxis(real.astype(np.float32).astype(np.float64), -1, scaling.axis))


def _judged(terms: Terms, most: float | None, ours: Array) -> list[str]:
    exact, magnitude = (np.reshape(part, ours.shape) for part in terms[:2])
    roundings = terms[2]
    before = ((1 + FP32) ** roundings - 1) * magnitude
    if len(terms) > 3:
        before = before + np.reshape(terms[3], ours.shape)
    bound = before + FP16 * (np.abs(exact) + before) + _SUBNORMAL * (roundings > 0)
    wanted = clamped(exact, most)
    beyond = np.abs(wanted) + bound >= _INFINITE_FROM
    with np.errstate(invalid="ignore"):
        error = np.abs(ours.astype(np.float64) - wanted)
    wrong = ~(error <= bound) & ~beyond
    if most is not None:
        wrong |= ~((ours >= 0) & (ours <= most))
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


def clamped(exact: Array, most: float | None) -> Array:
    """Return results behind a clamp at 0 and ``most``; None: there is none."""
    return exact if most is None else np.clip(exact, 0.0, most)
