"""One case per rule: a node that obeys all but that one, and the value named in the message."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from delegate.conformance.builder import (
    Arithmetic,
    ModelBuilder,
    add_model,
    aliases,
    conv_model,
    depthwise_model,
    fully_connected_model,
    layers,
    options,
)
from delegate.conformance.builder.functions import function as function_of
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.builder.padding import pad
from delegate.conformance.builder.pooling import mean, pool, total
from delegate.conformance.builder.products import matrix_product
from delegate.conformance.builder.resizing import resize
from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.operator import Constraint, GraphFacts, constraint
from delegate.ops.pad import hides
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.shared.convolution import output_and_padding
from delegate.ops.shared.fixed_point import INT32_MAX
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from delegate.partition.partitioner import select_nodes
from delegate.partition.rules import check_node, facts_of
from tests.models.blocks import function_model

X, W, B = 0, 1, 2


def conv(**kwargs: object) -> Graph:
    """A 3x2 convolution on 9x7x5 -> 9x7x4, int8."""
    shape = {"h": 9, "w": 7, "ic": 5, "oc": 4, "kh": 3, "kw": 2}
    return read_graph(conv_model(np.random.default_rng(0), **{**shape, **kwargs}))


def depthwise(**kwargs: object) -> Graph:
    shape = {"h": 9, "w": 7, "c": 5, "kh": 3, "kw": 2}
    return read_graph(depthwise_model(np.random.default_rng(0), **{**shape, **kwargs}))


def fc(shape: tuple[int, ...] = (2, 12), outputs: int = 5, **kwargs: object) -> Graph:
    return read_graph(fully_connected_model(np.random.default_rng(0), shape, outputs, **kwargs))


def addition(shape: tuple[int, ...] = (1, 3, 2, 4), **kwargs: object) -> Graph:
    return read_graph(add_model(np.random.default_rng(0), shape, **kwargs))


def with_tensor(graph: Graph, index: int, **changes: object) -> Graph:
    tensors = list(graph.tensors)
    tensors[index] = dataclasses.replace(tensors[index], **changes)
    return Graph(tuple(tensors), graph.nodes, graph.inputs, graph.outputs)


def with_input(graph: Graph, position: int, **changes: object) -> Graph:
    return with_tensor(graph, graph.nodes[0].inputs[position], **changes)


def with_output(graph: Graph, **changes: object) -> Graph:
    return with_tensor(graph, graph.nodes[0].outputs[0], **changes)


def with_node(graph: Graph, **changes: object) -> Graph:
    node = dataclasses.replace(graph.nodes[0], **changes)
    return Graph(graph.tensors, (node, *graph.nodes[1:]), graph.inputs, graph.outputs)


def with_options(graph: Graph, **changes: object) -> Graph:
    node = graph.nodes[0]
    kind = OPERATORS[node.op].options
    assert kind is not None
    options = node.options_as(kind)
    assert options is not None
    return with_node(graph, options=dataclasses.replace(options, **changes))


def padding(
    top: int = 1, channels: int = 0, *, reader: bool = True, scheme: Padding = Padding.VALID
) -> Graph:
    """PAD of a [1, 9, 7, 5] image, read by a 3x3 convolution or an output itself."""
    b = ModelBuilder()
    x = b.input("x", (1, 9, 7, 5), DType.INT8, per_tensor(0.5, 3))
    amounts = np.array([[0, 0], [top, 1], [1, 1], [0, channels]], np.int32)
    y = b.tensor("y", (1, 10 + top, 9, 5 + channels), DType.INT8, per_tensor(0.5, 3))
    b.operator("PAD", (x, b.constant("amounts", amounts)), (y,), options.empty())
    if reader:
        y = layers.conv(b, np.random.default_rng(0), y, 4, layers.Window(3, 3, padding=scheme))
    b.output(y)
    return read_graph(b.build())


def bordered(**changes: object) -> Graph:
    """PADV2 of [1, 9, 7, 5], its value changed."""
    b = ModelBuilder()
    x = b.input("x", (1, 9, 7, 5), DType.INT8, per_tensor(0.5, 3))
    b.output(pad(b, x, [[0, 0], [1, 0], [0, 2], [0, 0]], value=5))
    return with_input(read_graph(b.build()), 2, **changes)


def mirrored(top: int = 1, mode: int = REFLECT) -> Graph:
    """MIRROR_PAD of [1, 9, 7, 5]; 7 columns on the right are inside if they are repeated."""
    b = ModelBuilder()
    x = b.input("x", (1, 9, 7, 5), DType.INT8, per_tensor(0.5, 3))
    right = 7 if mode == SYMMETRIC or top > 1 else 6
    b.output(pad(b, x, [[0, 0], [top, 0], [0, right], [0, 0]], mode=mode))
    return read_graph(b.build())


def interpolated() -> Graph:
    """RESIZE_BILINEAR of [1, 3, 2, 5]."""
    b = ModelBuilder()
    x = b.input("x", (1, 3, 2, 5), DType.INT8, per_tensor(0.5, 3))
    table = options.of(ResizeBilinearOptions(False, True))
    b.output(resize(b, "RESIZE_BILINEAR", x, 7, 4, table))
    return read_graph(b.build())


def joined(
    axis: int = 3,
    parts: tuple[int, ...] = (16, 5),
    dtype: DType = DType.INT8,
    **changes: object,
) -> Graph:
    """A concatenation of [1, 3, 2, parts] along the channels, or of what ``parts`` says."""
    b = ModelBuilder()
    inputs = [b.input(f"x{c}", (1, 3, 2, c), dtype, per_tensor(0.5, 3)) for c in parts]
    b.output(aliases.concatenation(b, inputs, 3))
    graph = read_graph(b.build())
    return graph if axis == 3 and not changes else with_options(graph, axis=axis, **changes)


def cut(
    begin: tuple[int, ...] = (0, 0, 0, 16),
    size: tuple[int, ...] = (1, 3, 2, 9),
    *,
    strided: bool = False,
    width: int = 2,
) -> Graph:
    """A slice of [1, 3, width, 32]."""
    b = ModelBuilder()
    x = b.input("x", (1, 3, width, 32), DType.INT8, per_tensor(0.5, 3))
    b.output(aliases.slice_of(b, x, begin, size, strided=strided))
    return read_graph(b.build())


def blocks(block: int = 2, after: tuple[int, ...] = (1, 2, 3, 20)) -> Graph:
    """SPACE_TO_DEPTH of [1, 4, 6, 5]."""
    b = ModelBuilder()
    x = b.input("x", (1, 4, 6, 5), DType.INT8, per_tensor(0.5, 3))
    y = b.tensor("y", after, DType.INT8, per_tensor(0.5, 3))
    b.operator("SPACE_TO_DEPTH", (x,), (y,), options.of(SpaceToDepthOptions(block)))
    b.output(y)
    return read_graph(b.build())


def transposed(size: tuple[int, ...] = (1, 8, 12, 3), stride: int = 2, kernel: int = 3) -> Graph:
    """TRANSPOSE_CONV of [1, 4, 6, 5]."""
    b = ModelBuilder()
    shape = b.constant("shape", np.array(size, np.int32))
    weights = np.ones((3, kernel, kernel, 5), np.int8)
    w = b.constant("w", weights, per_tensor(0.1, 0))
    x = b.input("x", (1, 4, 6, 5), DType.INT8, per_tensor(0.5, 3))
    y = b.tensor("y", size, DType.INT8, per_tensor(0.5, 3))
    table = options.of(TransposeConvOptions(Padding.SAME, stride, stride, Activation.NONE))
    b.operator("TRANSPOSE_CONV", (shape, w, x), (y,), table)
    b.output(y)
    return read_graph(b.build())


def reshaped(shape: tuple[int, ...] = (1, 6, 32)) -> Graph:
    """Of [1, 3, 2, 32], between other nodes."""
    b = ModelBuilder()
    x = b.input("x", (1, 3, 2, 32), DType.INT8, per_tensor(0.5, 3))
    y = aliases.reshape(b, function_of(b, "ABS", (x,), per_tensor(0.5, 3)), shape)
    b.output(function_of(b, "ABS", (y,), per_tensor(0.5, 3)))
    return read_graph(b.build())


def turned(axes: tuple[int, ...]) -> Graph:
    """TRANSPOSE of [1, 3, 2, 32]."""
    b = ModelBuilder()
    x = b.input("x", (1, 3, 2, 32), DType.INT8, per_tensor(0.5, 3))
    b.output(aliases.transpose(b, x, axes))
    return read_graph(b.build())


def shape_computed() -> Graph:
    """A reshape whose shape is an input."""
    graph = reshaped()
    shape = graph.nodes[1].inputs[1]
    tensors = (
        dataclasses.replace(t, constant=None) if t.index == shape else t for t in graph.tensors
    )
    return Graph(tuple(tensors), graph.nodes, (*graph.inputs, shape), graph.outputs)


def side_by_side() -> Graph:
    """A concatenation of columns."""
    b = ModelBuilder()
    inputs = [b.input(n, (1, 3, 2, 16), DType.INT8, per_tensor(0.5, 3)) for n in "ab"]
    b.output(aliases.concatenation(b, inputs, 2))
    return read_graph(b.build())


def skipping(rows: int) -> Graph:
    """The first of three rows, every so many."""
    graph = cut(begin=(0, 0, 0, 0), size=(1, 1, 2, 32), strided=True)
    strides, end = np.array((1, rows, 1, 1), np.int32), np.array((1, 3, 2, 32), np.int32)
    return with_input(with_input(graph, 3, constant=strides), 2, constant=end)


def halves() -> Graph:
    b = ModelBuilder()
    x = b.input("x", (2, 3, 2, 32), DType.INT8, per_tensor(0.5, 3))
    for part in aliases.split(b, x, 2, 3):
        b.output(part)
    return read_graph(b.build())


def per_tensor(scale: float, zero_point: int) -> Quantization:
    return Quantization((scale,), (zero_point,))


def per_channel_along(axis: int, channels: int) -> Graph:
    graph = conv()
    wrong = Quantization((0.5,) * channels, (0,) * channels, axis)
    return with_input(graph, W, quantization=wrong)


def without_inputs(graph: Graph) -> Graph:
    """As a graph of a live interpreter, which does not tell them."""
    return Graph(graph.tensors, graph.nodes, (), graph.outputs)


def as_input(graph: Graph, position: int) -> Graph:
    """Input ``position`` of the first node is an input of the model, too."""
    inputs = (*graph.inputs, graph.nodes[0].inputs[position])
    return Graph(graph.tensors, graph.nodes, inputs, graph.outputs)


def ADD(first: int, second: int, target: int) -> Node:  # noqa: N802  the operator's name
    return dataclasses.replace(addition().nodes[0], inputs=(first, second), outputs=(target,))


def function(
    op: str,
    shape: tuple[int, ...] = (1, 2, 3, 4),
    dtype: DType = DType.INT8,
    options: BuiltinOptions | None = None,
) -> Graph:
    quantization = per_tensor(1 / 128, 0)
    model = function_model(op, (dtype, quantization), (dtype, quantization), options, shape)
    return read_graph(model)


def leaky() -> Graph:
    return function("LEAKY_RELU", options=options.of(LeakyReluOptions(0.1)))


def two_operands(op: str) -> Graph:
    builder = ModelBuilder(op)
    shape, quantization = (1, 2, 3, 4), per_tensor(1 / 128, 0)
    x = builder.input("input", shape, DType.INT8, quantization)
    other = builder.input("other", shape, DType.INT8, quantization)
    table = options.mul() if op == "MUL" else None
    builder.output(function_of(builder, op, (x, other), quantization, table))
    return read_graph(builder.build())


def slopes() -> Graph:
    return two_operands("PRELU")


def slopes_of(shape: tuple[int, ...]) -> Graph:
    b = ModelBuilder()
    x = b.input("x", (1, 3, 2, 4), DType.INT8, per_tensor(0.5, 3))
    slope = b.constant("slope", np.arange(np.prod(shape), dtype=np.int8).reshape(shape),
                       per_tensor(0.01, 0))  # fmt: skip
    y = b.tensor("y", (1, 3, 2, 4), DType.INT8, per_tensor(0.5, 3))
    b.operator("PRELU", (x, slope), (y,))
    b.output(y)
    return read_graph(b.build())


def pooled(shape: tuple[int, ...] = (1, 9, 7, 5), size: int = 3) -> Graph:
    builder = ModelBuilder()
    x = builder.input("x", shape, DType.INT8, per_tensor(0.5, 3))
    builder.output(pool(builder, "MAX_POOL_2D", x, size, size))
    return read_graph(builder.build())


def tall_average() -> Graph:
    b = ModelBuilder()
    x = b.input("x", (1, 40, 2, 1), DType.INT8, per_tensor(0.5, 3))
    b.output(pool(b, "AVERAGE_POOL_2D", x, 32, 1, padding=Padding.VALID))
    return read_graph(b.build())


def averaged(shape: tuple[int, ...] = (1, 9, 7, 5), axes: tuple[int, ...] = (1, 2)) -> Graph:
    b = ModelBuilder()
    x = b.input("x", shape, DType.INT8, per_tensor(0.5, 3))
    b.output(mean(b, x, per_tensor(0.25, 3), keep_dims=False, axes=axes))
    return read_graph(b.build())


def summed() -> Graph:
    b = ModelBuilder()
    x = b.input("x", (1, 9, 7, 5), DType.INT8, per_tensor(0.5, 3))
    b.output(total(b, x, per_tensor(8.0, 3), keep_dims=True))
    return read_graph(b.build())


def product(
    shape: tuple[int, ...] = (2, 3, 5), matrix: tuple[int, ...] = (5, 4), **changes: object
) -> Graph:
    """BATCH_MATMUL with a constant."""
    b = ModelBuilder()
    x = b.input("x", shape, DType.INT8, per_tensor(0.5, 3))
    values = np.random.default_rng(0).integers(-127, 128, matrix).astype(np.int8)
    b.output(matrix_product(b, x, values, per_tensor(0.5, 3), **changes))
    return read_graph(b.build())


def product_of_two(
    x: tuple[int, ...] = (2, 3, 5), y: tuple[int, ...] = (2, 7, 5), zero_point: int = 3
) -> Graph:
    """BATCH_MATMUL of two computed matrices, the second one's rows the outputs."""
    b = ModelBuilder()
    inputs = [
        b.input(n, s, DType.INT8, per_tensor(0.5, zero_point)) for n, s in (("x", x), ("y", y))
    ]
    z = b.tensor("z", (2, 3, 7), DType.INT8, per_tensor(90.0, 3))
    table = options.of(BatchMatMulOptions(False, True, False))
    b.operator("BATCH_MATMUL", inputs, (z,), table, version=2)
    b.output(z)
    return read_graph(b.build())


def enlarged(shape: tuple[int, ...] = (1, 3, 2, 5), factor: int = 2) -> Graph:
    return enlarged_to(shape[1] * factor, shape[2] * factor, shape)


def enlarged_to(rows: int, columns: int, shape: tuple[int, ...] = (1, 3, 2, 5)) -> Graph:
    b = ModelBuilder()
    x = b.input("x", shape, DType.INT8, per_tensor(0.5, 3))
    table = options.resize_nearest()
    b.output(resize(b, "RESIZE_NEAREST_NEIGHBOR", x, rows, columns, table))
    return read_graph(b.build())


def with_nodes(*nodes: Node) -> Graph:
    """An addition's tensors, one more of the same kind, and other nodes."""
    graph = addition()
    more = dataclasses.replace(graph.tensors[2], index=3, name="more")
    numbered = (dataclasses.replace(node, index=i) for i, node in enumerate(nodes))
    return Graph((*graph.tensors, more), tuple(numbered), graph.inputs, graph.outputs)


def bias_written() -> Graph:
    """A convolution whose bias, a constant, another node writes first."""
    graph = conv()
    before = Node(7, "NEG", (graph.nodes[0].inputs[X],), (graph.nodes[0].inputs[B],))
    return Graph(graph.tensors, (before, *graph.nodes), graph.inputs, graph.outputs)


def bias_shared() -> Graph:
    """A convolution whose bias has the buffer of an input of the model."""
    graph = conv()
    bias = graph.tensors[graph.nodes[0].inputs[B]]
    other = dataclasses.replace(bias, index=len(graph.tensors), name="other")
    inputs = (*graph.inputs, other.index)
    return Graph((*graph.tensors, other), graph.nodes, inputs, graph.outputs)


def behind_dynamic() -> Graph:
    """A convolution whose own tensors are fixed, after a node that reads a dynamic tensor."""
    graph = conv()
    source = dataclasses.replace(
        graph.tensors[0], index=len(graph.tensors), shape_signature=(1, -1, 7, 5)
    )
    before = Node(7, "SLICE", (source.index,), (graph.nodes[0].inputs[X],))
    return Graph((*graph.tensors, source), (before, *graph.nodes), (), graph.outputs)


CASES: dict[str, list[tuple[Callable[[], Graph], str]]] = {
    "tensors_as_defined": [
        (lambda: with_node(conv(), inputs=(0,)), "it has 1 inputs"),
        (lambda: with_node(conv(), inputs=(0, 1, 2, 2)), "it has 4 inputs"),
        (lambda: with_node(with_nodes(ADD(0, 1, 2)), outputs=(2, 3)), "it has 2 outputs"),
        (lambda: with_node(conv(), inputs=(0, -1, 2)), "absent"),
        (lambda: with_node(addition(), inputs=(0, -1)), "absent"),
    ],
    "eight_bit_features": [
        (lambda: with_input(conv(), X, dtype=DType.FLOAT32), "is FLOAT32"),
        (lambda: with_output(fc(), dtype=DType.INT16), "is INT16"),
        (lambda: with_input(addition(), 1, dtype=DType.INT32), "is INT32"),
        (lambda: with_input(conv(), X, quantization=None), "INT8 without quantisation"),
    ],
    "quantised_or_float32_input": [
        (lambda: with_input(function("QUANTIZE"), X, dtype=DType.INT16), "is INT16"),
        (lambda: with_input(function("QUANTIZE"), X, quantization=None), "without quantisation"),
    ],
    "quantised_output": [
        (lambda: with_output(function("QUANTIZE"), dtype=DType.INT16), "is INT16"),
        (lambda: with_output(function("QUANTIZE"), quantization=None), "without quantisation"),
    ],
    "quantised_input": [
        (lambda: with_input(function("DEQUANTIZE"), X, dtype=DType.FLOAT16), "is FLOAT16"),
        (lambda: with_input(function("DEQUANTIZE"), X, quantization=None), "without quantisation"),
    ],
    "float32_output": [(lambda: function("DEQUANTIZE"), "is INT8")],
    "sparse_constant": [(lambda: function("DENSIFY"), "no sparse constant of a known kind")],
    "options_known": [(lambda: with_node(conv(), options=None), "missing")],
    "activation_supported": [
        (lambda: with_options(conv(), activation=Activation.TANH), "it is TANH"),
        (lambda: with_options(addition(), activation=Activation.SIGN_BIT), "it is SIGN_BIT"),
    ],
    "no_activation": [
        (lambda: with_options(joined(), activation=Activation.RELU), "it is RELU"),
    ],
    "static_shapes": [
        (lambda: with_input(conv(), X, shape_signature=(-1, -1, 7, 5)), "[-1, -1, 7, 5]"),
        (lambda: with_output(fc(), shape=(-1, 5)), "[-1, 5]"),
    ],
    "not_behind_dynamic_shapes": [(behind_dynamic, "'input' is")],
    "no_empty_tensors": [
        (lambda: with_input(conv(), X, shape=(1, 0, 7, 5)), "[1, 0, 7, 5]"),
        (lambda: with_input(fc(), W, shape=(5, 0), constant=None), "[5, 0]"),
    ],
    "nodes_in_order": [
        (lambda: with_output(addition(), is_variable=True), "'add', a variable"),
        (lambda: with_node(addition(), outputs=(0,)), "before it is written"),
        (lambda: with_nodes(ADD(0, 0, 2), ADD(2, 1, 2)), "writes tensor 2 'add' again"),
        (
            lambda: with_nodes(ADD(0, 0, 2), ADD(0, 1, 2)),
            "node 1 (ADD) writes tensor 2 'add' again",
        ),
        (lambda: with_nodes(ADD(0, 0, 1), ADD(0, 1, 2)), "an input of the model"),
        (lambda: with_nodes(ADD(0, 2, 3), ADD(3, 3, 2)), "reads tensor 2 'add' before"),
        (lambda: with_nodes(Node(0, "NEG", (3,), (3,)), ADD(0, 1, 2)), "reads tensor 3 'more'"),
    ],
    "no_variables": [
        (lambda: with_input(conv(), X, is_variable=True), "'input' is"),
        (lambda: with_input(conv(), B, is_variable=True), "is"),
        (lambda: with_input(padding(), 1, is_variable=True), "'amounts' is"),
    ],
    "constants_unchanged": [
        (lambda: with_output(addition(), constant=np.zeros(1, np.int8)), "may be written"),
        (lambda: with_input(conv(), W, is_sparse=True), "is sparse; convert"),
        (lambda: with_input(padding(), 1, is_sparse=True), "is sparse"),
        (
            lambda: with_input(addition(), 1, constant=np.zeros((1, 3, 2, 4), np.int8)),
            "may be written",
        ),
        (lambda: as_input(conv(), W), "may be written"),
        (lambda: as_input(cut(), 1), "may be written"),
        (bias_shared, "may be written"),
        (bias_written, "may be written"),
    ],
    "same_feature_types": [
        (lambda: with_output(conv(), dtype=DType.UINT8), "INT8, UINT8"),
        (lambda: with_input(addition(), 1, dtype=DType.UINT8), "INT8, UINT8, INT8"),
    ],
    "per_tensor_features": [
        (
            lambda: with_input(conv(), X, quantization=Quantization((1.0,) * 5, (0,) * 5, 3)),
            "has 5 scales",
        )
    ],
    "features_computed": [
        (
            lambda: without_inputs(with_input(conv(), X, constant=np.zeros((1, 9, 7, 5), np.int8))),
            "a constant",
        ),
    ],
    "scales_positive": [
        (lambda: with_input(conv(), X, quantization=per_tensor(0.0, 0)), "the scale 0.0"),
        (lambda: with_output(conv(), quantization=per_tensor(math.inf, 0)), "the scale inf"),
        (lambda: with_input(fc(), W, quantization=per_tensor(math.nan, 0)), "the scale nan"),
        (lambda: with_input(addition(), 1, quantization=per_tensor(-1.0, 0)), "scale -1.0"),
    ],
    "zero_points_in_range": [
        (lambda: with_input(conv(), X, quantization=per_tensor(1.0, 128)), "zero point 128"),
        (
            lambda: with_output(conv(dtype=DType.UINT8), quantization=per_tensor(1.0, -1)),
            "is UINT8 with the zero point -1",
        ),
        (
            lambda: with_input(fc(dtype=DType.UINT8), W, quantization=per_tensor(1.0, 256)),
            "zero point 256",
        ),
    ],
    "convolution_rank": [
        (lambda: with_input(conv(), X, shape=(9, 7, 5)), "[9, 7, 5]"),
        (lambda: with_output(depthwise(), shape=(1, 1, 9, 7, 5)), "[1, 1, 9, 7, 5]"),
    ],
    "weights_constant": [(lambda: with_input(fc(), W, constant=None), "computed while running")],
    "weights_type": [
        (lambda: with_input(conv(), W, dtype=DType.INT4), "is INT4, the input INT8"),
        (lambda: with_input(conv(), W, dtype=DType.UINT8), "is UINT8, the input INT8"),
        (lambda: with_input(depthwise(), W, quantization=None), "no quantisation parameters"),
    ],
    "per_channel_weights_are_int8": [
        (
            lambda: with_input(
                conv(dtype=DType.UINT8), W, quantization=Quantization((0.5,) * 4, (7,) * 4, 0)
            ),
            "is UINT8",
        )
    ],
    "per_channel_axis_is_output": [
        (lambda: per_channel_along(3, 5), "5 scales along axis 3"),
        (lambda: per_channel_along(0, 5), "5 scales along axis 0"),
    ],
    "int8_weights_symmetric": [
        (lambda: with_input(conv(), W, quantization=per_tensor(0.5, 3)), "the zero point 3")
    ],
    "bias_int32_constant": [
        (lambda: with_input(conv(), B, dtype=DType.INT64), "is INT64"),
        (lambda: with_input(conv(), B, constant=None), "is no constant"),
        (lambda: with_input(fc(), B, constant=np.zeros(4, np.int32), shape=(4,)), "are 5"),
    ],
    "filter_covers_input_channels": [
        (lambda: with_input(conv(), X, shape=(1, 9, 7, 6)), "it covers 5 of 6"),
        (lambda: with_input(conv(), X, shape=(1, 9, 7, 15)), "for 4 outputs"),
    ],
    "filter_gives_output_channels": [
        (lambda: with_output(conv(), shape=(1, 9, 7, 3)), "it gives 4, the output has 3"),
    ],
    "depth_multiplier_follows": [
        (lambda: with_options(depthwise(multiplier=3), depth_multiplier=2), "from 5 to 15"),
        (lambda: with_options(depthwise(), depth_multiplier=0), "it is 0"),
    ],
    "same_batch": [(lambda: with_output(conv(), shape=(2, 9, 7, 4)), "they are 1 and 2")],
    "kernel_in_range": [(lambda: conv(h=40, w=40, kh=32, kw=1), "the kernel is 32 x 1")],
    "strides_in_range": [
        (lambda: conv(sh=8), "they are 8 x 1"),
        (lambda: with_options(depthwise(), stride_w=0), "they are 1 x 0"),
    ],
    "dilation_in_range": [
        (lambda: conv(dw=33), "they are 1 x 33"),
        (lambda: with_options(depthwise(), dilation_h=-1), "they are -1 x 1"),
    ],
    "output_size_follows": [
        (lambda: with_output(conv(), shape=(1, 8, 7, 4)), "is 8 x 7, not 9 x 7"),
        (lambda: with_options(conv(), padding=Padding.VALID), "is 9 x 7, not 7 x 6"),
        (lambda: with_input(conv(padding=Padding.VALID), X, shape=(1, 2, 7, 5)), "not 0 x 6"),
    ],
    "padding_in_range": [(lambda: conv(h=40, w=40, kh=3, kw=3, dh=16), "top 16, left 1")],
    "pad_rank": [(lambda: with_input(padding(), X, shape=(9, 7, 5)), "[9, 7, 5]")],
    "pad_amounts_known": [
        (lambda: padding(top=-1), "[-1, 1]"),
        (lambda: with_input(padding(), 1, constant=None), "does not hold two constants"),
        (lambda: with_output(padding(reader=False), shape=(1, 12, 9, 5)), "it gives [1, 11, 9, 5]"),
    ],
    "padded_sides_in_range": [(lambda: padding(top=9000), "[9010, 9, 5]")],
    "pad_value_constant": [
        (lambda: bordered(quantization=per_tensor(0.5, 4)), "differ"),
        (lambda: bordered(constant=None), "is [1]"),
    ],
    "mirrored_inside": [
        (lambda: mirrored(9, REFLECT), "[[9, 0], [0, 7], [0, 0]] of [9, 7]"),
        (lambda: mirrored(10, SYMMETRIC), "[[10, 0], [0, 7], [0, 0]] of [9, 7]"),
        (lambda: with_options(mirrored(), mode=2), "the mode is 2"),
    ],
    "pad_keeps_quantization": [
        (lambda: with_output(padding(), quantization=per_tensor(2.0, 0)), "differ"),
    ],
    "alias_rank": [
        (lambda: with_input(joined(), 0, shape=(1, 1, 3, 2, 16)), "[1, 1, 3, 2, 16]"),
        (lambda: with_output(cut(), shape=()), "[]"),
    ],
    "int8_parts_keep_quantization": [
        (lambda: with_input(joined(), 1, quantization=per_tensor(0.25, 3)), "differ"),
    ],
    "alias_keeps_quantization": [
        (lambda: with_output(cut(), quantization=per_tensor(0.5, 4)), "differ"),
    ],
    "alias_position_known": [
        (lambda: joined(axis=4), "the axis is 4"),
        (lambda: with_output(joined(), shape=(1, 3, 2, 22)), "parts of 21 make"),
        (lambda: with_input(joined(), 1, shape=(1, 2, 2, 5)), "along axis 3"),
        (lambda: with_input(cut(), 1, constant=None), "does not hold 4 constants"),
        (lambda: with_input(cut(), 1, constant=np.zeros(4)), "is INT32"),
        (lambda: cut(begin=(0, 1, 0, 0)), "do not lie in [1, 3, 2, 32]"),
        (lambda: with_options(cut(strided=True), shrink_axis_mask=1), "changes the rank"),
        (lambda: with_output(cut(), shape=(1, 3, 2, 8)), "it gives [1, 3, 2, 9]"),
        (lambda: with_output(cut(strided=True), shape=(1, 3, 2, 8)), "it gives [1, 3, 2, 9]"),
        (
            lambda: with_output(
                with_input(cut(strided=True), 3, constant=np.array([1, 1, 1, 2], np.int32)),
                shape=(1, 3, 2, 5),
            ),
            "the strides are [1, 1, 1, 2]",
        ),
        (lambda: with_input(halves(), 0, constant=np.array([3, 3], np.int32)), "1 constants"),
    ],
    "parts_defined": [
        (
            lambda: with_input(joined(dtype=DType.UINT8), 1, quantization=per_tensor(1e9, 0)),
            "no int32 in units of the output's scale",
        ),
        (
            lambda: with_output(joined(dtype=DType.UINT8), quantization=per_tensor(1e-39, 0)),
            "no int32 in units of the output's scale",
        ),
    ],
    "parts_are_consecutive": [(side_by_side, "takes a part of the rows")],
    "part_is_reached": [
        (lambda: cut(begin=(0, 0, 40, 0), size=(1, 3, 2, 32), width=50), "begins at column 40"),
        (lambda: skipping(9), "the strides are [9, 1]"),
    ],
    "resized_to_twice": [(interpolated, "from [3, 2] to [7, 4]")],
    "block_rank": [(lambda: with_input(blocks(), X, shape=(4, 6, 5)), "[4, 6, 5]")],
    "block_keeps_quantization": [
        (lambda: with_output(blocks(), quantization=per_tensor(0.5, 4)), "differ"),
    ],
    "block_in_range": [(lambda: blocks(0), "it is 0"), (lambda: blocks(9), "it is 9")],
    "blocks_fit": [
        (lambda: blocks(2, (1, 2, 3, 19)), "[1, 2, 3, 19]"),
        (lambda: blocks(3, (1, 2, 2, 45)), "4 x 6 pixels are no blocks of 3"),
    ],
    "transposed_rank": [(lambda: with_input(transposed(), 2, shape=(4, 6, 5)), "[4, 6, 5]")],
    "transposed_size_known": [
        (lambda: with_input(transposed(), 0, constant=None), "does not hold 4 constants"),
        (lambda: transposed((1, 8, 12, 4)), "from 5 to 3 channels"),
        (lambda: with_output(transposed(), shape=(1, 7, 12, 3)), "not [1, 7, 12, 3]"),
    ],
    "transposed_strides": [(lambda: transposed(stride=4), "they are [4, 4]")],
    "transposed_reaches_outputs": [
        (lambda: transposed((1, 11, 12, 3)), "to [1, 11, 12, 3]"),
        (lambda: transposed((1, 8, 12, 3), kernel=31), "the kernel is 31 x 31"),
    ],
    "order_possible": [
        (lambda: reshaped((3, 1, 2, 32)), "[3, 1, 2, 32]"),
        (lambda: reshaped((1, 1, 4, 48)), "[1, 1, 4, 48]"),
    ],
    "transposed_axes": [
        (lambda: turned((0, 1, 1, 2)), "the axes are [0, 1, 1, 2]"),
        (lambda: with_output(turned((0, 3, 1, 2)), shape=(1, 32, 2, 3)), "[1, 32, 2, 3]"),
    ],
    "new_shape_constant": [(shape_computed, "is computed")],
    "weights_not_shuffled": [(lambda: with_options(fc(), weights_format=1), "shuffled")],
    "weights_rank": [(lambda: with_input(fc(), W, shape=(5, 3, 4)), "[5, 3, 4]")],
    "feature_rank": [(lambda: with_input(fc(), X, shape=(1, 1, 1, 2, 12)), "[1, 1, 1, 2, 12]")],
    "rows_divide_input": [
        (lambda: with_input(fc(), X, shape=(2, 13)), "[2, 13] to [2, 5] with weights [5, 12]"),
        (lambda: with_output(fc(), shape=(3, 5)), "[2, 12] to [3, 5]"),
        (lambda: with_output(fc(), shape=(5, 2)), "[2, 12] to [5, 2]"),
    ],
    "operand_rank": [
        (lambda: addition((1, 1, 3, 2, 4)), "[1, 1, 3, 2, 4]"),
    ],
    "one_operand_computed": [
        (
            lambda: without_inputs(
                with_input(addition(is_constant=True), 0, constant=np.zeros((1, 3, 2, 4), np.int8))
            ),
            "both are constants",
        ),
    ],
    "one_operand_has_output_shape": [
        (lambda: addition(other_shape=(1, 1, 2, 4)), "of shape [1, 1, 2, 4] is to be broadcast"),
        (lambda: with_output(addition(), shape=(1, 3, 5, 4)), "[1, 3, 5, 4]"),
    ],
    "rank_in_range": [(lambda: function("TANH", shape=(1, 1, 2, 3, 4)), "[1, 1, 2, 3, 4]")],
    "same_shapes": [
        (lambda: with_output(function("RELU"), shape=(1, 2, 3)), "the output [1, 2, 3]"),
    ],
    "logistic_output_scale": [
        (lambda: function("LOGISTIC"), "has the scale 0.0078125 and the zero point 0"),
    ],
    "int8_features": [(lambda: function("EXP", dtype=DType.UINT8), "is UINT8")],
    "slope_not_negative": [
        (lambda: with_options(leaky(), alpha=-0.5), "it is -0.5"),
        (lambda: with_options(leaky(), alpha=math.nan), "it is nan"),
    ],
    "slopes_constant": [
        (slopes, "is computed, or the input is constant"),
        (lambda: slopes_of((1, 2, 1, 4)), "[1, 3, 2, 4] and [1, 2, 1, 4] give [1, 3, 2, 4]"),
        (lambda: with_output(slopes_of((4,)), shape=(1, 3, 1, 4)), "give [1, 3, 1, 4]"),
    ],
    "pool_rank": [
        (lambda: with_input(pooled(), X, shape=(9, 7, 5)), "[9, 7, 5] and [1, 9, 7, 5]"),
        (lambda: with_output(pooled(), shape=(1, 9, 7, 4)), "[1, 9, 7, 5] and [1, 9, 7, 4]"),
        (lambda: with_output(pooled(), shape=(2, 9, 7, 5)), "[2, 9, 7, 5]"),
    ],
    "pool_keeps_quantization": [
        (lambda: with_output(pooled(), quantization=per_tensor(0.25, 3)), "differ"),
    ],
    "window_in_range": [
        (lambda: with_options(pooled(), filter_w=0), "it is 3 x 0, the strides 1 x 1"),
        (lambda: with_options(pooled(), stride_h=8), "it is 3 x 3, the strides 8 x 1"),
        # The runtime rounds up in int32: (1 + stride - 1) / stride is the last one that is right.
        (lambda: with_options(pooled((1, 1, 1, 5)), stride_h=INT32_MAX), "2147483647 x 1"),
    ],
    "pooled_sides_in_range": [
        (lambda: pooled((1, 8192, 1, 1)), "they are [8192, 1, 1]"),
        (lambda: pooled((1, 1, 1, 8192)), "they are [1, 1, 8192]"),
    ],
    "pooled_size_follows": [
        (lambda: with_output(pooled(), shape=(1, 9, 6, 5)), "is 9 x 6, not 9 x 7"),
        (lambda: with_options(pooled(), padding=Padding.VALID), "not 7 x 5"),
    ],
    "summed_window_in_range": [
        (tall_average, "it is 32 x 1"),
    ],
    "reduced_over_pixels": [
        (lambda: with_input(averaged(), X, shape=(9, 7, 5)), "it is [9, 7, 5]"),
        (lambda: with_input(averaged(), 1, constant=None), "the axes are computed"),
        (lambda: averaged(axes=(1, 3)), "the axes are [1, 3]"),
        (lambda: averaged(axes=(1, 6)), "the axes are [1, 6]"),
    ],
    "reduced_shape_follows": [
        (lambda: with_options(averaged(), keep_dims=True), "is [1, 5], not [1, 1, 1, 5]"),
    ],
    "product_ranks": [
        (lambda: product((5,)), "they have 1 and 2"),
        (lambda: product((1, 1, 2, 3, 5)), "they have 5 and 2"),
        (lambda: product((3, 5), (1, 5, 4)), "they have 2 and 3"),
    ],
    "computed_product_ranks": [
        (lambda: product_of_two((5,), (5, 3)), "they have 1 and 2"),
        (lambda: product_of_two((5, 4), (1, 1, 1, 4, 3)), "they have 2 and 5"),
    ],
    "computed_product_follows": [
        (lambda: product_of_two(y=(4, 7, 5)), "mismatch"),
        (lambda: product_of_two(y=(2, 7, 6)), "rows of 5 and columns of 6"),
        (lambda: with_output(product_of_two(), shape=(2, 7, 3)), "is [2, 7, 3], not [2, 3, 7]"),
    ],
    "turned_product_meets_its_own": [
        (
            lambda: with_options(product_of_two((2, 5, 3), (1, 7, 5)), adj_x=True),
            "they are [2] and [1]",
        ),
    ],
    "first_operand_as_it_lies": [(lambda: product(adj_x=True), "it is")],
    "one_matrix": [(lambda: product(matrix=(2, 5, 4)), "has the shape [2, 5, 4]")],
    "product_shape_follows": [
        (lambda: product(matrix=(6, 4)), "[2, 3, 5] has no rows of 6"),
        (lambda: with_output(product(), shape=(2, 4, 4)), "[2, 3, 5] to [2, 4, 4], not [2, 3, 4]"),
    ],
    "matrix_has_one_scale": [
        (
            lambda: with_input(product(), 1, quantization=Quantization((1.0,) * 4, (0,) * 4, 1)),
            "has others",
        ),
    ],
    "summed_type": [(summed, "tensor 0 'x' is INT8")],
    "reduced_sides_in_range": [(lambda: averaged((1, 32, 3, 5)), "they are 32 x 3")],
    "new_size_known": [
        (lambda: with_input(enlarged(), 1, constant=None), "does not hold 2 constants"),
        (lambda: with_output(enlarged(), shape=(1, 7, 4, 5)), "they give [1, 6, 4, 5], tensor"),
    ],
    "resized_sides_in_range": [(lambda: enlarged((1, 4096, 1, 1)), "they are [8192, 2, 1]")],
    "pixels_repeated": [
        (lambda: enlarged(factor=9), "from [3, 2] to [27, 18]"),
        (lambda: with_options(enlarged(factor=3), align_corners=True), "from [3, 2] to [9, 6]"),
        (lambda: enlarged_to(5, 4), "from [3, 2] to [5, 4]"),
        (lambda: enlarged_to(2, 4), "from [3, 2] to [2, 4]"),
    ],
    "pool_padding_in_range": [(lambda: pooled(size=17), "16 and 16")],
}


@pytest.mark.parametrize(
    ("rule", "number"),
    [(rule, number) for rule, cases in CASES.items() for number in range(len(cases))],
)
def test_rule_rejects_with_the_value(rule: str, number: int) -> None:
    make, value = CASES[rule][number]
    supported, rejections = select_nodes(make())
    rejection = rejections[-1]
    assert rejection.node not in supported
    assert rejection.rule == rule
    assert value in rejection.detail
    assert "\n" not in rejection.detail


def test_every_rule_has_a_case() -> None:
    computed = [record.of_computed for record in OPERATORS.values() if record.computed]
    records = [*OPERATORS.values(), *computed]
    assert {rule.name for record in records for rule in record.rules} == set(CASES)


BIASLESS = Arithmetic(has_bias=False)
EXTREMES: dict[str, Callable[[], Graph]] = {
    "conv": conv,
    "conv_uint8": lambda: conv(dtype=DType.UINT8),
    "conv_per_channel": lambda: conv(arithmetic=Arithmetic(per_channel=True)),
    "conv_without_bias": lambda: conv(arithmetic=BIASLESS),
    "conv_relu_n1_to_1": lambda: conv(arithmetic=Arithmetic(activation=Activation.RELU_N1_TO_1)),
    "conv_kernel_31": lambda: conv(h=40, w=40, kh=31, kw=31),
    "conv_strides_7": lambda: conv(sh=7, sw=7),
    "conv_dilation_32": lambda: conv(h=70, w=70, kh=2, kw=2, dh=32, dw=32, padding=Padding.VALID),
    "conv_padding_15": lambda: conv(h=40, w=40, kh=31, kw=3, dw=15),
    "conv_width_8192": lambda: conv(h=1, w=8192, ic=1, oc=1, kh=1, kw=1),
    "conv_channels": lambda: conv(h=1, w=1, ic=1, oc=8160, kh=1, kw=1),
    "conv_batch": lambda: conv(batch=3),
    "depthwise": depthwise,
    "depthwise_per_channel": lambda: depthwise(arithmetic=Arithmetic(per_channel=True)),
    "depthwise_channels": lambda: depthwise(h=1, w=1, c=8128, kh=1, kw=1),
    "fc": fc,
    "product": product,
    "product_of_a_transposed_matrix": lambda: product(matrix=(1, 5, 4), adj_y=True),
    "product_of_two": product_of_two,
    "product_of_two_with_the_lowest_zero_point": lambda: product_of_two(zero_point=-128),
    "product_with_zero_point": lambda: product((1, 7, 2, 5), zero_point=-11),
    "fc_per_channel": lambda: fc(arithmetic=Arithmetic(per_channel=True)),
    "fc_rank_4": lambda: fc((1, 2, 3, 4), 5, inputs=24, arithmetic=BIASLESS),
    "fc_keeps_dims": lambda: fc((2, 3, 4), 5, keep_num_dims=True),
    "fc_largest_of_the_grid": lambda: fc((1, 62720), 32),
    "add": addition,
    "add_same_tensor": lambda: addition(is_same_tensor=True),
    "add_uint8_rank_1": lambda: addition((7,), dtype=DType.UINT8),
    "add_large": lambda: addition((1, 8192, 3, 3)),
    "add_scalar_rank": lambda: addition(()),
    "add_constant": lambda: addition(is_constant=True),
    "add_per_channel": lambda: addition(other_shape=(1, 1, 1, 4)),
    "conv_groups": lambda: conv(ic=6, groups=2),
    "depthwise_multiplier": lambda: depthwise(multiplier=3),
    "concatenation": joined,
    "concatenation_of_one": lambda: joined(parts=(5,)),
    "concatenation_axis_from_the_end": lambda: joined(axis=-1),
    "slice": cut,
    "slice_of_all": lambda: cut((0, 0, 0, 0), (1, 3, 2, 32)),
    "slice_of_rows": lambda: cut((0, 1, 0, 0), (1, 2, 2, 17)),
    "strided_slice": lambda: cut(strided=True),
    "strided_slice_from_the_end": lambda: with_input(
        cut((0, 0, 0, 16), (1, 3, 2, 16), strided=True),
        1,
        constant=np.array([0, -3, 0, -16], np.int32),
    ),
    "strided_slice_begin_masked": lambda: with_options(
        cut((0, 0, 0, 0), (1, 3, 2, 16), strided=True), begin_mask=15
    ),
    "split": halves,
    "conv_any_batch": lambda: with_input(conv(), X, shape_signature=(-1, 9, 7, 5)),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_nodes_at_the_limits_are_accepted(name: str) -> None:
    supported, rejections = select_nodes(EXTREMES[name]())
    assert rejections == ()
    assert supported == {0}


def test_other_operators_name_what_is_supported() -> None:
    b = ModelBuilder()
    x = b.input("x", (1, 4), DType.INT8, per_tensor(1.0, 0))
    y = b.tensor("y", (1, 4), DType.INT8, per_tensor(1.0, 0))
    b.operator("SOFTMAX", (x,), (y,), options.softmax())
    b.output(y)
    _, (rejection,) = select_nodes(read_graph(b.build()))
    assert rejection.rule == "operator_supported"
    assert rejection.detail == (
        "The operator must be one that the NPU takes (command supported-ops): it is SOFTMAX"
    )


def test_nodes_of_another_delegate_say_so() -> None:
    graph = with_node(conv(), op="DELEGATE", options=None)
    _, (rejection,) = select_nodes(graph)
    assert rejection.rule == "not_taken_already"
    assert "BUILTIN_WITHOUT_DEFAULT_DELEGATES" in rejection.detail


@pytest.mark.parametrize("size", range(1, 24))
def test_output_and_padding_follow_the_documented_rule(size: int) -> None:
    """Against TensorFlow's documented formulas, computed by enumeration of kernel positions."""
    for kernel in (1, 2, 3, 5):
        for stride in (1, 2, 3):
            for dilation in (1, 2, 4):
                reach = (kernel - 1) * dilation + 1
                fits = len([p for p in range(0, size, stride) if p + reach <= size])
                assert output_and_padding(size, kernel, stride, dilation, Padding.VALID) == (
                    fits,
                    0,
                )
                rows, before = output_and_padding(size, kernel, stride, dilation, Padding.SAME)
                assert rows == len(range(0, size, stride))
                total = max((rows - 1) * stride + reach - size, 0)
                assert before == total // 2


def test_rule_without_docstring_still_has_a_sentence() -> None:
    """Under -OO there are no docstrings."""

    def rate_in_range(facts: object, node: object) -> str | None:
        return "9"

    made = constraint()(rate_in_range)
    assert isinstance(made, Constraint)
    assert made.sentence == "rate in range"


def test_a_rule_that_fails_costs_its_node_only() -> None:
    def unforeseen(facts: object, node: object) -> str | None:
        raise IndexError("list index out of range")

    graph = conv()
    record = dataclasses.replace(OPERATORS["CONV_2D"], rules=(constraint()(unforeseen),))
    facts = GraphFacts(graph, {**OPERATORS, "CONV_2D": record}, facts_of(graph).chip)
    rejection = check_node(facts, graph.nodes[0])
    assert rejection is not None
    assert rejection.rule == "partition_compiles"
    assert "rule unforeseen: IndexError: list index out of range" in rejection.detail


@pytest.mark.parametrize("inputs", [(2,), (2, -1, 4), (2, 4, 4)], ids=str)
def test_a_padded_convolution_without_a_kernel_pads_nothing(inputs: tuple[int, ...]) -> None:
    """PAD looks at its reader before the reader's own rules have."""
    graph = padding()
    reader = graph.nodes[1]
    named = {2: reader.inputs[0], 4: reader.inputs[2], -1: -1}
    changed = dataclasses.replace(reader, inputs=tuple(named[i] for i in inputs))
    graph = Graph(graph.tensors, (graph.nodes[0], changed), graph.inputs, graph.outputs)
    supported, rejections = select_nodes(graph)
    assert supported == {0}
    assert [rejection.node for rejection in rejections] == [1]
    assert not hides(facts_of(graph), graph.nodes[0])
