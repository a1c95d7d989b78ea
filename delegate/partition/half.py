"""Decide how each part of a graph is computed: nodes of constants while it is compiled, and floats
in fp16 as option ``float`` says; what weights behind DEQUANTIZE, or quantised ones of float32
features, are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from delegate.model.graph import DType, Graph, Node, Tensor, read_only
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts
from delegate.ops.shared.channels_first import TRANSPOSE, with_channels_last
from delegate.ops.shared.constant_results import constant_results
from delegate.ops.shared.dilations import SPLITS, with_dilations
from delegate.ops.shared.norm_means import REDUCERS, with_group_means, with_kept_dimensions
from delegate.ops.shared.shape_arithmetic import INTEGERS
from delegate.ops.transpose_conv import doubling
from delegate.options import Options
from delegate.partition.shapes import with_following_shapes

_FLOATS = (DType.FLOAT16, DType.FLOAT32)


def as_computed(graph: Graph, options: Options) -> Graph:
    """Return ``graph`` with its nodes in the NPU's terms; what no node of it needs is not looked
    for.

    Results of nodes that compute from constants are constants. As option ``float`` says, float32
    tensors are as they are, or in fp16: with auto, if the metadata say that the model bears fp16,
    or it has weights of float16 or of int8 (dynamic range): who made it took that precision to be
    enough, and fp16 is nearer to the numbers that int8 weights stand for than the runtime's
    kernels, which round features to int8 too. Floats are constants only where they are in fp16.
    """
    names, wanted = {node.op for node in graph.nodes}, options.float
    if SPLITS in names:
        graph = with_dilations(graph, options.deny_ops)
    if TRANSPOSE in names:
        graph = with_channels_last(graph)
    if not names.isdisjoint(REDUCERS):
        graph = with_group_means(with_kept_dimensions(graph))
    written = (graph.tensor(t).dtype for node in graph.nodes for t in node.outputs if t >= 0)
    if any(kind in INTEGERS for kind in written):
        graph = with_following_shapes(graph)
    has_floats = any(tensor.dtype is DType.FLOAT32 for tensor in graph.tensors)
    folded = _folded(graph)
    if not has_floats or wanted == "off" or (wanted == "auto" and not _bears_half(graph, folded)):
        whole = {index: tensor for index, tensor in folded.items() if tensor.dtype not in _FLOATS}
        return replace(_with(graph, whole), folded=frozenset(whole)) if whole else graph
    dense = _with(graph, folded)
    tensors = list(_with(dense, _real_weights(dense)).tensors)
    nodes = tuple(doubling(node, tensors) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, half=True, folded=frozenset(folded))


def _with(graph: Graph, known: Mapping[int, Tensor]) -> Graph:
    tensors = tuple(known.get(tensor.index, tensor) for tensor in graph.tensors)
    return replace(graph, tensors=tensors)


def _folded(graph: Graph) -> dict[int, Tensor]:
    """Return the results of nodes that compute from constants alone, one another's among them."""
    changing = {*graph.inputs, *(t for node in graph.nodes for t in node.outputs)}
    changing.update(tensor.index for tensor in graph.tensors if tensor.is_variable)
    found = {index: graph.tensor(index) for index in graph.folded}
    left = [n for n in graph.nodes if n.outputs and n.inputs and n.outputs[0] not in found]
    while left:
        ready: list[Node] = []
        others: list[Node] = []
        for node in left:
            is_known = changing.isdisjoint(t for t in node.inputs if t not in found)
            (ready if is_known else others).append(node)
        known = replace(_with(graph, found), folded=frozenset(found)) if ready else graph
        before = len(found)
        for node in ready:
            found.update(_results(known, node))
        if len(found) == before:
            return found
        left = others
    return found


def _results(graph: Graph, node: Node) -> dict[int, Tensor]:
    record = OPERATORS.get(node.op)
    if record is None or record.folds is None:
        results = constant_results(GraphFacts(graph), node)
    else:
        is_whole = len(node.outputs) == 1 and min((*node.inputs, *node.outputs)) >= 0
        constant = record.folds(graph, node) if is_whole else None
        results = {} if constant is None else {node.outputs[0]: constant}
    found = {}
    for index, constant in results.items():
        result = graph.tensor(index)
        if constant.shape == result.shape:
            found[index] = replace(result, constant=constant)
    return found


def _real_weights(graph: Graph) -> dict[int, Tensor]:
    """Return int8 weights with scales that only nodes of float32 features read (dynamic range), as
    the float32 numbers that they stand for.
    """
    found: dict[int, Tensor] = {}
    others: set[int] = set()
    for node in graph.nodes:
        operator = OPERATORS.get(node.op)
        index = None if operator is None or operator.half is None else operator.weights(node)
        others.update(tensor for tensor in node.inputs if tensor != index)
        if operator is None or index is None or index < 0:
            continue
        features = [t for t in (*operator.feature_inputs(node), *node.outputs) if t >= 0]
        numbers = _real_values(graph.tensor(index))
        if numbers is None or any(graph.tensor(t).dtype is not DType.FLOAT32 for t in features):
            others.add(index)
        else:
            found[index] = numbers
    return {index: tensor for index, tensor in found.items() if index not in others}


def _real_values(tensor: Tensor) -> Tensor | None:
    """Return a quantised constant as float32; None: it is none."""
    scaling = tensor.quantization
    if tensor.constant is None or tensor.dtype is not DType.INT8 or scaling is None:
        return None
    along = [1] * len(tensor.shape)
    if len(scaling.scales) > 1:
        if tensor.shape[scaling.axis] != len(scaling.scales):
            return None
        along[scaling.axis] = -1
    scales, zeros = (np.reshape(v, along) for v in (scaling.scales, scaling.zero_points))
    numbers = ((tensor.constant.astype(np.float64) - zeros) * scales).astype(np.float32)
    return replace(tensor, dtype=DType.FLOAT32, quantization=None, constant=read_only(numbers))


def _bears_half(graph: Graph, folded: Mapping[int, Tensor]) -> bool:
    """Return whether whoever made ``graph`` took fp16 to be enough. The text of the metadata, such
    as "fp16accfp32", has types to compute in, then "acc" and those to sum in.
    """
    constants = (tensor.constant for tensor in folded.values())
    if any(values is not None and values.dtype == np.float16 for values in constants):
        return True
    return "fp16" in graph.reduced_precision.partition("acc")[0] or bool(_real_weights(graph))
