"""A float32 model with the weights that a quantised one stands for."""

import enum

import numpy as np

from delegate.model.graph import DType, Graph
from delegate.ops import OPERATORS
from rk3588_conformance.builder import Net
from rk3588_conformance.builder import options as tables


class Weights(enum.Enum):
    """The kind of numbers that weights are."""

    GRID = "whole numbers of a scale"
    ANY = "somewhere within half a step of those"
    HALF = "such as float16 holds"


def real_values(graph: Graph, index: int, kind: Weights, draw: int = 0) -> np.ndarray:
    """A quantised constant's numbers, float32. ``draw``: which of the arbitrary ones."""
    tensor = graph.tensor(index)
    scaling = tensor.quantization
    assert scaling is not None
    assert tensor.constant is not None
    along = [1] * len(tensor.shape)
    if len(scaling.scales) > 1:
        along[scaling.axis] = -1
    scales, zeros = (np.reshape(v, along) for v in (scaling.scales, scaling.zero_points))
    steps = tensor.constant.astype(np.float64) - zeros
    if kind is Weights.ANY and tensor.dtype is DType.INT8:
        steps += np.random.default_rng((index, draw)).uniform(-0.5, 0.5, steps.shape)
    numbers = (steps * scales).astype(np.float32)
    return numbers.astype(np.float16).astype(np.float32) if kind is Weights.HALF else numbers


def float_twin(graph: Graph, weights: Weights, draw: int = 0) -> bytes:
    """Return the float model of a quantised graph up to the input of softmax, without QUANTIZE."""
    builder = Net("float twin")
    made: dict[int, int] = {}

    def tensor(index: int) -> int:
        found = graph.tensor(index)
        if index not in made:
            if found.constant is None:
                made[index] = builder.tensor(found.name, found.shape, DType.FLOAT32)
            elif found.quantization is None:  # axes and shapes
                made[index] = builder.constant(found.name, np.asarray(found.constant))
            else:
                made[index] = builder.constant(found.name, real_values(graph, index, weights, draw))
        return made[index]

    (given,) = graph.inputs
    made[given] = builder.input("input", graph.tensor(given).shape, DType.FLOAT32)
    last = given
    for node in graph.nodes:
        if node.op == "QUANTIZE" or node.op == "SOFTMAX":
            made[node.outputs[0]] = made[node.inputs[0]]
            continue
        kind = OPERATORS[node.op].options
        settings = None if kind is None else tables.of(node.known_options(kind))
        inputs, outputs = ([tensor(t) for t in some] for some in (node.inputs, node.outputs))
        builder.operator(node.op, inputs, outputs, settings)
        last = node.outputs[0]
    return builder.build(made[last])
