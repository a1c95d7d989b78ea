"""int8 operators in place of float ones that the quantiser leaves between int8 tensors.

In: a model of the quantiser, in which an operator that it does not know (PRELU, LEAKY_RELU, RELU6,
SQUEEZE, ...) stands in float between DEQUANTIZE and QUANTIZE. Out: the same model where the NPU's
operators among them read and write the int8 tensors; their constants become int8, with one scale.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from delegate.model import tflite_schema as schema
from delegate.model.flatbuffer_tables import TableValue, write_file
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.model.table_edits import new_buffer, open_tables, table
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from rk3588_vision.quantization.float_model import MADE, drop_unused

_STEPS = 127


@dataclass(frozen=True, slots=True)
class _Island:
    """A float node, its int8 inputs by the float ones, its int8 output, the node that quantises."""

    node: Node
    inputs: dict[int, int]
    output: int
    quantize: Node


def with_int8_islands(content: bytes, floats: Collection[str] = ()) -> bytes:
    """Return the model with int8 operators. ``floats``: names of results that shall stay float."""
    graph = read_graph(content)
    islands = [island for node in graph.nodes if (island := _island(graph, node, floats))]
    if not islands:
        return content
    root = open_tables(content, MADE)
    subgraph = root.children(schema.ModelSlot.SUBGRAPHS)[0]
    operators = subgraph.children(schema.SubGraphSlot.OPERATORS)
    places = {node.index: place for place, node in enumerate(graph.nodes)}
    for island in islands:
        _rewrite(root, subgraph, graph, operators[places[island.node.index]], island)
    gone = {places[island.quantize.index] for island in islands}
    kept = [operator for place, operator in enumerate(operators) if place not in gone]
    read = {t for operator in kept for t in operator.integers(schema.OperatorSlot.INPUTS)}
    read.update(subgraph.integers(schema.SubGraphSlot.OUTPUTS))
    subgraph.fields[schema.SubGraphSlot.OPERATORS] = [
        operator
        for operator in kept
        if read.intersection(operator.integers(schema.OperatorSlot.OUTPUTS))
    ]
    drop_unused(root, subgraph)
    return write_file(root, schema.FILE_IDENTIFIER)


def _island(graph: Graph, node: Node, floats: Collection[str]) -> _Island | None:
    """Return what a float node between int8 tensors becomes; None: it is none, or stays."""
    operator = OPERATORS.get(node.op)
    if operator is None or len(node.outputs) != 1:
        return None
    if not operator.has_tasks and operator.movement is None:
        return None
    result = graph.tensor(node.outputs[0])
    readers = [n for n in graph.nodes if result.index in n.inputs]
    if result.dtype is not DType.FLOAT32 or result.name in floats or len(readers) != 1:
        return None
    target = graph.tensor(readers[0].outputs[0])
    if target.dtype is not DType.INT8 or len(readers[0].inputs) != 1:
        return None
    if result.index in graph.outputs or operator.weights(node) is not None:
        return None
    makers = {t: n for n in graph.nodes for t in n.outputs}
    inputs = {}
    for index in node.inputs:
        tensor = graph.tensor(index)
        if tensor.dtype is not DType.FLOAT32 or tensor.constant is not None:
            continue
        source = makers.get(index)
        if source is None or len(source.inputs) != 1:
            return None
        if graph.tensor(source.inputs[0]).dtype is not DType.INT8:
            return None
        inputs[index] = source.inputs[0]
    return _Island(node, inputs, target.index, readers[0]) if inputs else None


def _rewrite(
    root: TableValue, subgraph: TableValue, graph: Graph, operator: TableValue, island: _Island
) -> None:
    tensors = subgraph.children(schema.SubGraphSlot.TENSORS)
    inputs = []
    for index in island.node.inputs:
        tensor = graph.tensor(index) if index >= 0 else None
        if tensor is not None and tensor.dtype is DType.FLOAT32 and tensor.constant is not None:
            tensors.append(_int8_constant(root, tensor))
            inputs.append(len(tensors) - 1)
        else:
            inputs.append(island.inputs.get(index, index))
    operator.set_integers(schema.OperatorSlot.INPUTS, inputs)
    operator.set_integers(schema.OperatorSlot.OUTPUTS, [island.output])
    old, new = tensors[island.node.outputs[0]], tensors[island.output]
    old.fields[schema.TensorSlot.NAME], new.fields[schema.TensorSlot.NAME] = (
        new.fields[schema.TensorSlot.NAME],
        old.fields[schema.TensorSlot.NAME],
    )


def _int8_constant(root: TableValue, tensor: Tensor) -> TableValue:
    """Return a symmetric int8 tensor of a float constant."""
    assert tensor.constant is not None
    values = tensor.constant.astype(np.float64)
    scale = np.float32(max(float(np.abs(values).max(initial=0.0)), 1e-9) / _STEPS)
    stored = np.clip(np.rint(values / scale), -_STEPS, _STEPS).astype(np.int8)
    scaling = {schema.QuantizationSlot.SCALE: [scale], schema.QuantizationSlot.ZERO_POINT: [0]}
    return table(
        "Tensor",
        {
            schema.TensorSlot.QUANTIZATION: table("QuantizationParameters", scaling),
            schema.TensorSlot.SHAPE: tensor.shape,
            schema.TensorSlot.TYPE: schema.TENSOR_TYPES.index(DType.INT8),
            schema.TensorSlot.BUFFER: new_buffer(root, stored.tobytes()),
            schema.TensorSlot.NAME: f"{tensor.name}_int8",
        },
    )
