"""Compute what a graph computes from the shapes of its tensors alone, at the batch that is loaded.

Converters write the shape of a RESHAPE as SHAPE, STRIDED_SLICE and PACK where the batch is not
fixed. With the shapes of the loaded graph these are constants. Numbers are int32 or int64. So are
maps of one value or one constant of such a shape, the first states of recurrent layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Graph, Node, Tensor, read_only
from delegate.model.operator_options import Options
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.ops.add import AddOptions
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.gather import GatherOptions
from delegate.ops.mul import MulOptions
from delegate.ops.pack import PackOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.ops.sub import SubOptions

Numbers = npt.NDArray[Any]

MOST_NUMBERS: Final = 64
"""A result of more numbers is no shape: TensorFlow Lite's tensors have up to eight dimensions."""

MOST_VALUES: Final = 1 << 24
"""The most elements of a map that a graph computes from its shapes: states have far fewer."""

INTEGERS = (DType.INT32, DType.INT64)
"""The types of shapes: a graph whose nodes give neither computes none."""


def with_shape_constants(graph: Graph, among: Iterable[Node] | None = None) -> Graph:
    """Return ``graph`` with the results of shape arithmetic as constants, named in ``folded``: of
    all its nodes, or of those ``among`` them.
    """
    nodes = [node for node in among or graph.nodes if node.op in _RULES or node.op in _MAPS]
    if not nodes:
        return graph
    found: dict[int, Tensor] = {}
    known = _constants(graph)
    for node in nodes:
        if len(node.outputs) != 1 or node.outputs[0] < 0:
            continue
        result = graph.tensor(node.outputs[0])
        if node.op in _MAPS:
            if (made := _map(graph, node, known)) is not None:
                found[result.index] = made
            continue
        numbers = _value(graph, node, known)
        if numbers is None or result.dtype not in INTEGERS or result.index in known:
            continue
        if numbers.size > MOST_NUMBERS or numbers.shape != result.shape:
            continue
        known[result.index] = numbers.astype(NUMPY_TYPES[result.dtype])
        found[result.index] = replace(result, constant=read_only(known[result.index]))
    if not found:
        return graph
    tensors = tuple(found.get(tensor.index, tensor) for tensor in graph.tensors)
    return replace(graph, tensors=tensors, folded=graph.folded | frozenset(found))


def is_shape_arithmetic(graph: Graph, node: Node) -> bool:
    """Return whether ``node`` gives numbers that ``with_shape_constants`` found."""
    kinds = [graph.tensor(t).dtype for t in node.outputs]
    return node.op in _RULES and all(kind in INTEGERS for kind in kinds)


def may_follow_from_shapes(graph: Graph, node: Node) -> bool:
    """Return whether ``with_shape_constants`` can find the results of ``node``."""
    return node.op in _MAPS or is_shape_arithmetic(graph, node)


def following_from_shapes(graph: Graph) -> frozenset[int]:
    """Return the nodes whose results are folded and follow from shapes, by index: shape arithmetic,
    and what is computed from its results.
    """
    tensors: set[int] = set()
    nodes: set[int] = set()
    for node in graph.nodes if graph.folded else ():
        is_folded = graph.folded.issuperset(node.outputs)
        if is_folded and (is_shape_arithmetic(graph, node) or not tensors.isdisjoint(node.inputs)):
            tensors.update(node.outputs)
            nodes.add(node.index)
    return frozenset(nodes)


def _constants(graph: Graph) -> dict[int, Numbers]:
    """Return the small integer constants that nobody may change."""
    written = {t for node in graph.nodes for t in node.outputs} - graph.folded
    return {
        tensor.index: tensor.constant
        for tensor in graph.tensors
        if tensor.constant is not None
        and tensor.dtype in INTEGERS
        and tensor.constant.size <= MOST_NUMBERS
        and not tensor.is_variable
        and tensor.index not in written
        and tensor.index not in graph.inputs
    }


def _value(graph: Graph, node: Node, known: Mapping[int, Numbers]) -> Numbers | None:
    if any(t < 0 for t in node.inputs):
        return None
    if node.op == "SHAPE":
        if len(node.inputs) != 1:  # as a file may have it
            return None
        tensor = graph.tensor(node.inputs[0])
        return np.array(tensor.shape, np.int64) if tensor.has_fixed_image else None
    if any(t not in known for t in node.inputs):
        return None
    try:
        return _RULES[node.op](node, [known[t] for t in node.inputs])
    except (ValueError, IndexError, OverflowError):  # what the runtime refuses, too
        return None


def _map(graph: Graph, node: Node, known: Mapping[int, Numbers]) -> Tensor | None:
    """Return a map of a constant that is repeated, which takes no memory; None: it is none."""
    if len(node.inputs) != 2:  # as a file may have it
        return None
    try:
        shape, source = (node.inputs[place] for place in _MAPS[node.op])
        result, sizes = graph.tensor(node.outputs[0]), known.get(shape)
        given = graph.tensor(source)
        if sizes is None or given.constant is None or given.dtype not in NUMPY_TYPES:
            return None
        is_same = given.dtype is result.dtype and given.quantization == result.quantization
        whole = tuple(int(size) for size in sizes.reshape(-1))
        if not is_same or given.constant.shape != given.shape or _may_change(graph, given):
            return None
        if min(whole, default=1) < 0 or math.prod(whole) > MOST_VALUES:
            return None
        if node.op == "FILL" and given.shape not in ((), (1,)):
            return None
        made = np.broadcast_to(given.constant, whole)
    except ValueError:  # what the runtime refuses, too
        return None
    return replace(result, shape=whole, shape_signature=(), constant=made)


def _may_change(graph: Graph, tensor: Tensor) -> bool:
    is_given = tensor.is_variable or tensor.is_sparse or tensor.index in graph.inputs
    return is_given or any(tensor.index in node.outputs for node in graph.nodes)


def _stack(node: Node, parts: Sequence[Numbers]) -> Numbers | None:
    options = node.options_as(PackOptions)
    return None if options is None else np.stack(parts, options.axis)


def _join(node: Node, parts: Sequence[Numbers]) -> Numbers | None:
    options = node.options_as(ConcatenationOptions)
    if options is None or options.activation is not Activation.NONE:
        return None
    return np.concatenate(parts, options.axis)


def _slice(node: Node, parts: Sequence[Numbers]) -> Numbers | None:
    options = node.options_as(StridedSliceOptions)
    source, begin, end, stride = parts
    if options is None or options.ellipsis_mask or options.new_axis_mask or source.ndim != 1:
        return None
    first, last, step = (int(numbers.item()) for numbers in (begin, end, stride))
    if options.shrink_axis_mask & 1:
        return np.asarray(source[first])
    if step == 0:
        return None
    start = None if options.begin_mask & 1 else first
    stop = None if options.end_mask & 1 else last
    return np.asarray(source[start:stop:step])


def _gather(node: Node, parts: Sequence[Numbers]) -> Numbers | None:
    options = node.options_as(GatherOptions)
    source, places = parts
    if options is None or options.axis != 0 or options.batch_dims or places.size == 0:
        return None
    if places.min() < 0 or places.max() >= len(source):
        return None
    return np.asarray(source[places])


def _product(node: Node, parts: Sequence[Numbers]) -> Numbers | None:
    options = node.options_as(ReducerOptions)
    source, axes = parts
    if options is None or not all(-source.ndim <= axis < source.ndim for axis in axes.flat):
        return None
    kept = {int(axis) % source.ndim for axis in axes.flat}
    found = np.prod(source.astype(np.int64), axis=tuple(kept), keepdims=options.keep_dims)
    return _if_it_fits(np.asarray(found), source.dtype)


def _arithmetic(
    kind: type[Any], function: Callable[[Numbers, Numbers], Numbers]
) -> Callable[[Node, Sequence[Numbers]], Numbers | None]:
    def rule(node: Node, parts: Sequence[Numbers]) -> Numbers | None:
        options = node.options_as(kind)
        if options is None or options.activation is not Activation.NONE:
            return None
        first, second = (part.astype(np.int64) for part in parts)
        return _if_it_fits(np.asarray(function(first, second)), parts[0].dtype)

    return rule


def _cast(node: Node, parts: Sequence[Numbers]) -> Numbers:
    return parts[0]


def _if_it_fits(numbers: Numbers, kind: np.dtype[Any]) -> Numbers | None:
    """Return ``numbers`` unless the runtime's would wrap."""
    ends = np.iinfo(np.int32 if kind == np.int32 else np.int64)
    if numbers.size and not ends.min <= numbers.min() <= numbers.max() <= ends.max:
        return None
    return numbers


_RULES: Mapping[str, Callable[[Node, Sequence[Numbers]], Numbers | None]] = {
    "SHAPE": _cast,
    "STRIDED_SLICE": _slice,
    "PACK": _stack,
    "CONCATENATION": _join,
    "GATHER": _gather,
    "CAST": _cast,
    "ADD": _arithmetic(AddOptions, np.add),
    "SUB": _arithmetic(SubOptions, np.subtract),
    "MUL": _arithmetic(MulOptions, np.multiply),
    "REDUCE_PROD": _product,
}
"""Computes each operator's result from numbers; None: it is left to the runtime."""

_MAPS: Mapping[str, tuple[int, int]] = {"FILL": (0, 1), "BROADCAST_TO": (1, 0)}
"""The inputs of operators that repeat a constant: the new shape, and the constant."""

NUMBERS_OPTIONS: Mapping[str, type[Options] | None] = {
    "SHAPE": None,
    "REDUCE_PROD": ReducerOptions,
}
"""Options of the operators above that have no record of their own."""
