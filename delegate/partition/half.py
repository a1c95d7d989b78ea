"""Which graphs are computed in fp16: option ``float``, and what weights behind DEQUANTIZE are."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from delegate.model.graph import Activation, DType, Graph, Node, Padding, Tensor, read_only
from delegate.ops import OPERATORS
from delegate.ops.transpose_conv import OPERATOR as TRANSPOSE_CONV
from delegate.ops.transpose_conv import TransposeConvOptions

_TRANSPOSED: Final = "CUSTOM:Convolution2DTransposeBias"


def in_half(graph: Graph, wanted: str) -> Graph:
    """``graph`` as option ``float`` has it: as it is, or with its float32 tensors in fp16 and with
    the results of nodes that compute from constants as constants. ``wanted`` auto: if it has
    float16 weights, which say that whoever made the model took fp16 to be enough.
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
    if wanted == "auto" and not any(_is_half(tensor.constant) for tensor in folded.values()):
        return graph
    tensors = [folded.get(tensor.index, tensor) for tensor in graph.tensors]
    nodes = tuple(_doubling(node, tensors) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, half=True, folded=frozenset(folded))


def _doubling(node: Node, tensors: list[Tensor]) -> Node:
    """MediaPipe's custom operator, which no runtime but its own has, as TRANSPOSE_CONV, if kernels
    of 2 x 2 give a result of twice the size: of those no other strides do, nor do they pad. The
    result's shape becomes another tensor.
    """
    if node.op != _TRANSPOSED or len(node.inputs) != 3 or len(node.outputs) != 1:
        return node
    if min(*node.inputs, *node.outputs) < 0:
        return node
    given, weights, result = (tensors[t].shape for t in (*node.inputs[:2], *node.outputs))
    if not len(given) == len(weights) == len(result) == 4:
        return node
    images, height, width, _ = given
    twice = images, 2 * height, 2 * width, weights[0]
    if weights[1:3] != (2, 2) or result != twice:
        return node
    size = np.array(twice, np.int32)
    tensors.append(Tensor(len(tensors), "size", size.shape, DType.INT32, constant=read_only(size)))
    feature, kernel, bias = node.inputs
    return replace(
        node,
        op=TRANSPOSE_CONV.name,
        inputs=(len(tensors) - 1, kernel, feature, bias),
        options=TransposeConvOptions(Padding.VALID, 2, 2, Activation.NONE),
    )


def _is_half(constant: object) -> bool:
    return isinstance(constant, np.ndarray) and constant.dtype == np.float16
