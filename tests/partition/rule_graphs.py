"""Small graphs of each operator, and ways to change one thing of them."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.div import DivOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import (
    Net,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
    layers,
    moves,
    options,
)
from rk3588_conformance.builder.options import BuiltinOptions
from tests.models.blocks import function_model

X, W, B = 0, 1, 2
HALF = Quantization((0.5,), (3,))
MAP = (1, 9, 7, 5)
Shape = tuple[int, ...]


def conv(**kwargs: object) -> Graph:
    """A 3x2 convolution on 9x7x5 -> 9x7x4, int8."""
    shape = {"h": 9, "w": 7, "ic": 5, "oc": 4, "kh": 3, "kw": 2}
    return read_graph(conv_model(np.random.default_rng(0), **{**shape, **kwargs}))


def depthwise(**kwargs: object) -> Graph:
    shape = {"h": 9, "w": 7, "c": 5, "kh": 3, "kw": 2}
    return read_graph(depthwise_model(np.random.default_rng(0), **{**shape, **kwargs}))


def fc(shape: Shape = (2, 12), outputs: int = 5, **kwargs: object) -> Graph:
    return read_graph(fully_connected_model(np.random.default_rng(0), shape, outputs, **kwargs))


def addition(shape: Shape = (1, 3, 2, 4), **kwargs: object) -> Graph:
    return read_graph(add_model(np.random.default_rng(0), shape, **kwargs))


Make = Callable[[Net, int], int]


def of_one(make: Make, shape: Shape = (1, 3, 2, 32), dtype: DType = DType.INT8) -> Graph:
    """Return the graph of what ``make`` puts behind an input of ``shape``."""
    b = Net()
    return read_graph(b.build(make(b, b.input("x", shape, dtype, HALF))))


def quotient(dtype: DType = DType.UINT8) -> Graph:
    """DIV of [1, 3, 2, 4] by a constant."""

    def make(b: Net, x: int) -> int:
        divisor = b.constant("divisor", np.array([7]).astype(dtype.element.dtype), HALF)
        return b.function("DIV", (x, divisor), per_tensor(0.1, 3), DivOptions())

    return of_one(make, (1, 3, 2, 4), dtype)


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
    options = node.options_as(OPERATORS[node.op].options)
    return with_node(graph, options=dataclasses.replace(options, **changes))


def padding(
    top: int = 1, channels: int = 0, *, reader: bool = True, scheme: Padding = Padding.VALID
) -> Graph:
    """PAD of a [1, 9, 7, 5] image, read by a 3x3 convolution or an output itself."""
    b = Net()
    x = b.input("x", (1, 9, 7, 5), DType.INT8, HALF)
    y = b.pad(x, [[0, 0], [top, 1], [1, 1], [0, channels]])
    if reader:
        y = b.conv(y, 4, layers.Window(3, 3, padding=scheme))
    return read_graph(b.build(y))


def bordered(**changes: object) -> Graph:
    """PADV2 of [1, 9, 7, 5], its value changed."""
    amounts = [[0, 0], [1, 0], [0, 2], [0, 0]]
    return with_input(of_one(lambda b, x: b.pad(x, amounts, value=5), MAP), 2, **changes)


def mirrored(top: int = 1, mode: int = REFLECT) -> Graph:
    """MIRROR_PAD of [1, 9, 7, 5]; 7 columns on the right are inside if they are repeated."""
    right = 7 if mode == SYMMETRIC or top > 1 else 6
    amounts = [[0, 0], [top, 0], [0, right], [0, 0]]
    return of_one(lambda b, x: b.pad(x, amounts, mode=mode), MAP)


def interpolated(rows: int, columns: int, shape: tuple[int, ...] = (1, 3, 2, 5)) -> Graph:
    table = options.of(ResizeBilinearOptions(half_pixel_centers=True))
    return of_one(lambda b, x: b.resize("RESIZE_BILINEAR", x, rows, columns, table), shape)


def joined(
    axis: int = 3, parts: Shape = (16, 5), dtype: DType = DType.INT8, **changes: object
) -> Graph:
    """A concatenation of [1, 3, 2, parts] along the channels, or of what ``parts`` says."""
    b = Net()
    inputs = [b.input(f"x{c}", (1, 3, 2, c), dtype, HALF) for c in parts]
    graph = read_graph(b.build(b.concatenation(inputs, 3)))
    return graph if axis == 3 and not changes else with_options(graph, axis=axis, **changes)


def cut(
    begin: Shape = (0, 0, 0, 16),
    size: Shape = (1, 3, 2, 9),
    *,
    strided: bool = False,
    width: int = 2,
) -> Graph:
    """A slice of [1, 3, width, 32]."""
    make = functools.partial(moves.slice_of, begin=begin, size=size, strided=strided)
    return of_one(make, (1, 3, width, 32))


def blocks(block: int = 2, after: Shape = (1, 2, 3, 20)) -> Graph:
    """SPACE_TO_DEPTH of [1, 4, 6, 5]."""
    table = options.of(SpaceToDepthOptions(block))
    return of_one(
        lambda b, x: b.result("SPACE_TO_DEPTH", (x,), "y", after, options=table), (1, 4, 6, 5)
    )


def transposed(size: Shape = (1, 8, 12, 3), stride: int = 2, kernel: int = 3) -> Graph:
    """TRANSPOSE_CONV of [1, 4, 6, 5]."""
    b = Net()
    shape = b.constant("shape", np.array(size, np.int32))
    weights = np.ones((3, kernel, kernel, 5), np.int8)
    w = b.constant("w", weights, per_tensor(0.1, 0))
    x = b.input("x", (1, 4, 6, 5), DType.INT8, HALF)
    y = b.tensor("y", size, DType.INT8, HALF)
    table = options.of(TransposeConvOptions(Padding.SAME, stride, stride, Activation.NONE))
    b.operator("TRANSPOSE_CONV", (shape, w, x), (y,), table)
    return read_graph(b.build(y))


def reshaped(shape: Shape = (1, 6, 32)) -> Graph:
    """Return a graph with a reshape of [1, 3, 2, 32] between other nodes."""

    def make(b: Net, x: int) -> int:
        y = b.reshape(b.function("ABS", (x,), HALF), shape)
        return b.function("ABS", (y,), HALF)

    return of_one(make)


def flattened() -> Graph:
    """RESHAPE of [1, 3, 2, 32], alone."""
    return of_one(lambda b, x: b.reshape(x, (1, 192)))


def turned(axes: Shape) -> Graph:
    """TRANSPOSE of [1, 3, 2, 32]."""
    return of_one(lambda b, x: b.transpose(x, axes))


def tiled(times: Shape) -> Graph:
    """TILE of [1, 3, 2, 32]."""
    return of_one(lambda b, x: b.tile(x, times))


def gathered(places: Sequence[int], axis: int = 3) -> Graph:
    """GATHER of [1, 3, 2, 32]."""
    return of_one(lambda b, x: b.gather(x, places, axis))


def flipped(axis: int) -> Graph:
    """REVERSE_V2 of [1, 3, 2, 32]."""
    return of_one(lambda b, x: b.reverse(x, axis))


def shape_computed() -> Graph:
    """A reshape whose shape is an input."""
    graph = reshaped()
    shape = graph.nodes[1].inputs[1]
    tensors = (
        dataclasses.replace(t, constant=None) if t.index == shape else t for t in graph.tensors
    )
    return Graph(tuple(tensors), graph.nodes, (*graph.inputs, shape), graph.outputs)


def side_by_side(dtype: DType, quantization: Quantization) -> Graph:
    """A concatenation of columns, the first of which have another quantisation."""
    b = Net()
    inputs = [b.input(n, (1, 3, 2, 16), dtype, q) for n, q in (("a", quantization), ("b", HALF))]
    y = b.tensor("joined", (1, 3, 4, 16), dtype, HALF)
    b.operator("CONCATENATION", tuple(inputs), (y,), ConcatenationOptions(2))
    return read_graph(b.build(y))


def constants_joined() -> Graph:
    """Two constants, one behind the other."""
    b = Net()
    values = np.zeros((1, 3, 2, 16), np.int8)
    b.output(b.concatenation([b.constant(n, values, HALF) for n in "ab"], 3))
    return read_graph(b.build())


def packed_channels() -> Graph:
    """Two maps that become channels."""
    b = Net()
    inputs = [b.input(n, (1, 3, 2), DType.INT8, HALF) for n in "ab"]
    return read_graph(b.build(b.pack(inputs, 3)))


def halves() -> Graph:
    b = Net()
    x = b.input("x", (2, 3, 2, 32), DType.INT8, HALF)
    return read_graph(b.build(*b.split(x, 2, 3)))


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
    shape: Shape = (1, 2, 3, 4),
    dtype: DType = DType.INT8,
    options: BuiltinOptions | None = None,
    target: Quantization | None = None,
) -> Graph:
    source = per_tensor(1 / 128, 0)
    return read_graph(
        function_model(op, (dtype, source), (dtype, target or source), options, shape)
    )


def leaky() -> Graph:
    return function("LEAKY_RELU", options=options.of(LeakyReluOptions(0.1)))


def softmax(shape: Shape = (2, 5), beta: float = 1.0) -> Graph:
    return function(
        "SOFTMAX", shape, options=options.softmax(beta), target=per_tensor(1 / 256, -128)
    )


def slopes() -> Graph:
    """PRELU of two inputs."""
    b = Net()
    scale = per_tensor(1 / 128, 0)
    inputs = [b.input(name, (1, 2, 3, 4), DType.INT8, scale) for name in ("input", "other")]
    return read_graph(b.build(b.function("PRELU", inputs, scale)))


def slopes_of(shape: Shape) -> Graph:
    """PRELU of [1, 3, 2, 4] with constants."""
    values = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)

    def make(b: Net, x: int) -> int:
        return b.result("PRELU", (x, b.constant("slope", values, per_tensor(0.01, 0))), "y")

    return of_one(make, (1, 3, 2, 4))


def shown_negated() -> Graph:
    """NEG of float32 behind 8 bits, an output."""

    def make(b: Net, x: int) -> int:
        y = b.function("RELU", (x,), HALF)
        real = b.result("DEQUANTIZE", (y,), "real", dtype=DType.FLOAT32)
        return b.result("NEG", (real,), "negated", dtype=DType.FLOAT32)

    return of_one(make)


def chosen_of_many() -> Graph:
    """SELECT_V2 of a tensor, and of a constant for each of its channels where it is positive."""

    def make(b: Net, x: int) -> int:
        scale = b.spec(x).quantization
        limits = b.constant("limits", np.arange(4, dtype=np.int8), scale)
        zero = b.constant("zero", np.array(0, np.float32))
        real = b.result("DEQUANTIZE", (x,), "real", dtype=DType.FLOAT32)
        truth = b.result("GREATER", (real, zero), "truth", dtype=DType.BOOL)
        return b.result("SELECT_V2", (truth, limits, x), "y", (1, 3, 2, 4), scale, dtype=DType.INT8)

    return of_one(make, (1, 3, 2, 4))


def chosen_by_bytes() -> Graph:
    """SELECT of a tensor of 8 bits where it is greater than a number of 8 bits."""

    def make(b: Net, x: int) -> int:
        scale = b.spec(x).quantization
        limit = b.constant("limit", np.array(5, np.int8), scale)
        truth = b.result("GREATER", (x, limit), "truth", dtype=DType.BOOL)
        return b.result("SELECT", (truth, x, x), "y", None, scale, dtype=DType.INT8)

    return of_one(make)


def pooled(shape: Shape = (1, 9, 7, 5), size: int = 3) -> Graph:
    return of_one(lambda b, x: b.pool("MAX_POOL_2D", x, size, size), shape)


def tall_average() -> Graph:
    given = {"padding": Padding.VALID}
    return of_one(lambda b, x: b.pool("AVERAGE_POOL_2D", x, 32, 1, **given), (1, 40, 2, 1))


def averaged(shape: Shape = MAP, axes: Shape = (1, 2), op: str = "MEAN") -> Graph:
    given = {"keep_dims": False, "axes": axes}
    return of_one(lambda b, x: b.reduced(op, x, per_tensor(0.25, 3), **given), shape)


def summed() -> Graph:
    return of_one(lambda b, x: b.reduced("SUM", x, per_tensor(8.0, 3), keep_dims=True), MAP)


def product(shape: Shape = (2, 3, 5), matrix: Shape = (5, 4), **changes: object) -> Graph:
    """BATCH_MATMUL with a constant."""
    values = np.random.default_rng(0).integers(-127, 128, matrix).astype(np.int8)
    return of_one(lambda b, x: b.matrix_product(x, values, HALF, **changes), shape)


def product_of_two(x: Shape = (2, 3, 5), y: Shape = (2, 7, 5), zero_point: int = 3) -> Graph:
    """BATCH_MATMUL of two computed matrices, the second one's rows the outputs."""
    b = Net()
    scale = per_tensor(0.5, zero_point)
    inputs = [b.input(n, s, DType.INT8, scale) for n, s in (("x", x), ("y", y))]
    z = b.tensor("z", (2, 3, 7), DType.INT8, per_tensor(90.0, 3))
    table = options.of(BatchMatMulOptions(False, True, False))
    b.operator("BATCH_MATMUL", inputs, (z,), table, version=2)
    return read_graph(b.build(z))


def enlarged(shape: Shape = (1, 3, 2, 5), factor: int = 2) -> Graph:
    return enlarged_to(shape[1] * factor, shape[2] * factor, shape)


def enlarged_to(rows: int, columns: int, shape: Shape = (1, 3, 2, 5)) -> Graph:
    table = ResizeNearestOptions()
    return of_one(lambda b, x: b.resize("RESIZE_NEAREST_NEIGHBOR", x, rows, columns, table), shape)


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
