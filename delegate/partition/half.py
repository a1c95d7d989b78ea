"""Which graphs are computed in fp16: option ``float``, and what weights behind DEQUANTIZE are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.model.graph import DType, Graph
from delegate.ops import OPERATORS
from delegate.ops.transpose_conv import doubling


def in_half(graph: Graph, wanted: str) -> Graph:
    """``graph`` as option ``float`` has it: as it is, or with its float32 tensors in fp16 and with
    the results of nodes that compute from constants as constants. ``wanted`` auto: if its metadata
    say that it bears fp16, or it has float16 weights: who made it took fp16 to be enough.
    """
    if wanted == "off" or not any(tensor.dtype is DType.FLOAT32 for tensor in graph.tensors):
        return graph
    folded = {}
    for node in graph.nodes:
        operator = OPERATORS.get(node.op)
        if operator is None or operator.folds is None:
            continue
        if len(node.inputs) == len(node.outputs) == 1 and min(*node.inputs, *node.outputs) >= 0:
            constant = operator.folds(graph, node)
            result = graph.tensor(node.outputs[0])
            if constant is not None and constant.shape == result.shape:
                folded[result.index] = replace(result, constant=constant)
    has_half = any(_is_half(tensor.constant) for tensor in folded.values())
    if wanted == "auto" and not (has_half or _bears_half(graph.reduced_precision)):
        return graph
    tensors = [folded.get(tensor.index, tensor) for tensor in graph.tensors]
    nodes = tuple(doubling(node, tensors) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, half=True, folded=frozenset(folded))


def _bears_half(reduced_precision: str) -> bool:
    """Of "fp16accfp32": types to compute in, then "acc" and those to sum in."""
    return "fp16" in reduced_precision.partition("acc")[0]


def _is_half(constant: object) -> bool:
    return isinstance(constant, np.ndarray) and constant.dtype == np.float16
