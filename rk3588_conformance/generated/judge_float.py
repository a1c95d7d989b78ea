"""Judge what the delegate gives for a float model with ``float=fp16`` by each operator alone.

Bounds of float32 models grow with their depth, so no whole model can be compared closely. But fp16
values stay what they are when they leave the device and come back as float32. So a model whose
tensors are all outputs must give the same bits, and every operator alone, in a model taken apart,
must give them again: a difference is a tensor that another task destroyed, one in the wrong place,
or one that was read before it was written. What an operator alone gives is judged here only for
being near float32 kernels; the conformance families ``Half.*`` bound it element by element. What
moves or selects values is judged exactly: its results are what float32 kernels give, rounded to
fp16 if its operands were not.

A node may stay on the CPU in one of the models and not in another: what only moves there is not
rounded.

Behind a value beyond fp16's range nothing is compared: lanes to spare are NaN where channels need
not be (0 times infinity), and all that the next convolution makes of them. Outside of the device
they are 0.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from delegate.model.graph import DType, Graph
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.cut_model import cut_model, exposed_model
from rk3588_conformance.generated.judge import BrokenContractError
from rk3588_conformance.generated.run import Array, Run

OPTIONS = {"float": "fp16", "deny_ops": ""}
# Of the largest magnitude: fp16 has 11 bits, sums of some thousand products lose a few more.
NEAR = 2.0**-7
MOVES = frozenset(
    {
        *("CONCATENATION", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE", "PACK", "UNPACK"),
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"),
        *("PAD", "MIRROR_PAD", "RESIZE_NEAREST_NEIGHBOR", "MAX_POOL_2D", "MAXIMUM", "MINIMUM"),
        *("RELU", "RELU6", "REDUCE_MAX", "TILE", "GATHER", "REVERSE_V2"),
    }
)
"""Operators whose results are among their operands' values, or limits that fp16 holds."""
_END_STEP = 2.0**-20
"""The step of fp32 below 16, up to where such a number is taken from values and added again."""
CANCELLING = 2.0**10
"""Larger numbers than ordinary inputs give: sums of a few of them may be small."""
INFINITE = 65504.0  # beyond it fp16 has no numbers


def judge_float(model: bytes, inferences: Sequence[Mapping[int, Array]]) -> dict[str, int]:
    """Runs ``inferences``. Counts of what was compared. Raises BrokenContractError."""
    graph = read_graph(model)
    ours = Run(model, is_delegated=True, options=OPTIONS)
    exposed = Run(exposed_model(model), is_delegated=True, options=OPTIONS)
    cut = cut_model(model)
    apart = Run(cut.content, is_delegated=True, options=OPTIONS)
    alone = Run(cut.content, is_delegated=False)
    moved = (t for node in ours.rejected ^ exposed.rejected for t in graph.node(node).outputs)
    elsewhere = _following(graph, moved)
    counts: collections.Counter[str] = collections.Counter(
        float_models=1, float_nodes=len(graph.nodes), float_nodes_delegated=ours.delegated_nodes
    )
    for number, feeds in enumerate(inferences):
        where = f"float, inference {number}"
        results, values = ours.run(feeds), exposed.run(feeds)
        known = {**feeds, **values}
        is_finite = {t: np.isfinite(v.astype(np.float64)).all() for t, v in known.items()}
        beyond = _following(graph, (t for t in known if not is_finite[t]))
        for tensor, result in results.items():
            is_same = _is_near if tensor in elsewhere else _is_same
            if tensor not in beyond and not is_same(result, values[tensor]):
                raise BrokenContractError(f"{where}: output {tensor} is another if others are too")
        given = {clone: known[tensor] for tensor, clone in cut.inputs}
        again, expected = apart.run(given), alone.run(given)
        for node, tensor in cut.outputs:
            value, op = values[tensor], graph.node(node).op
            if graph.tensor(tensor).dtype is not DType.FLOAT32:
                continue
            if tensor in beyond:
                counts["float_elements_behind_what_is_beyond_range"] += value.size
                continue
            has_same_home = len({node in run.rejected for run in (exposed, apart)}) == 1
            if has_same_home and not _is_same(value, again[tensor]):
                raise BrokenContractError(
                    f"{where}: node {node} ({op}) gives something else alone: "
                    f"{_first(value, again[tensor])}"
                )
            read = [known[t] for t in graph.node(node).inputs if t in known]
            if op in MOVES:
                if not _is_moved(op, _rounded(value), _rounded(expected[tensor])):
                    raise BrokenContractError(
                        f"{where}: node {node} ({op}) does not only move: "
                        f"{_first(value, expected[tensor])}"
                    )
                counts["float_elements_moved"] += value.size
            elif not (_is_huge(read) or _is_near(value, expected[tensor], _largest(read))):
                raise BrokenContractError(
                    f"{where}: node {node} ({op}) is far from float32: "
                    f"{_first(value, expected[tensor])}"
                )
            counts["float_elements"] += value.size
    return dict(counts)


def _following(graph: Graph, tensors: Iterable[int]) -> set[int]:
    """Return ``tensors``, and all that follows from them."""
    found = set(tensors)
    for node in graph.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return found


def _rounded(value: Array) -> Array:
    """Return the values as the host rounds inputs."""
    return np.clip(value, -INFINITE, INFINITE).astype(np.float16)


def _is_moved(op: str, one: Array, other: Array) -> bool:
    """Return whether values are the same, but for what a number of MAXIMUM and MINIMUM takes from
    small ones, which docs/numerics.md has.
    """
    if op not in ("MAXIMUM", "MINIMUM") or one.shape != other.shape:
        return _is_same(one, other)
    return np.allclose(one, other, rtol=0, atol=_END_STEP, equal_nan=True)


def _is_same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=True)


def _is_huge(values: Sequence[Array]) -> bool:
    """Return whether fp16 may hold something else than float32."""
    return not all(np.abs(value).max(initial=0) < INFINITE / 2 for value in values)


def _largest(values: Sequence[Array]) -> float:
    """Return the largest of terms that may cancel to ordinary results; 0: there are none."""
    found = max((float(np.abs(value).max(initial=0)) for value in values), default=0.0)
    return found if found > CANCELLING else 0.0


def _is_near(value: Array, expected: Array, terms: float = 0.0) -> bool:
    if value.shape != expected.shape or _is_huge([expected]):
        return value.shape == expected.shape
    largest = max(float(np.abs(expected).max(initial=1)), terms)
    return bool((np.abs(value - expected) <= NEAR * largest).all())


def _first(value: Array, expected: Array) -> str:
    wrong = np.argwhere(~((value == expected) | (np.isnan(value) & np.isnan(expected))))
    worst = max(map(tuple, wrong), key=lambda p: abs(float(value[p]) - float(expected[p])))
    return f"{len(wrong)} of {value.size}, worst {worst}: {value[worst]}, {expected[worst]}"
