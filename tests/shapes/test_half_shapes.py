"""Convolutions that others measured on silicon in fp16, and a product of 512 x 512 x 512: planned,
and computed on the simulator within the bound, for every element.
"""

import math

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Padding
from delegate.model.tflite_reader import read_graph
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.options import Options
from rk3588_conformance.builder import options as tables
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.half_judge import outside_bound
from tests.inferences import outputs
from tests.ops.half_models import SIMULATED
from tests.shapes.test_shapes import MEASURED, Shape, shapes_of

QUICK_MACS = 2_000_000
PRODUCT = 512
VENDOR_TASKS, VENDOR_ROWS = 4, 128
KERNELS, LANES = 16, 32
"""Numbers of fp16 that the array takes at once: cycles of a row are groups times blocks."""


def macs(shape: Shape) -> int:
    pixels = math.prod(shape.outputs()) * shape.batch
    return pixels * shape.oc * shape.kh * shape.kw * (shape.ic // shape.groups)


def conv_model(shape: Shape) -> bytes:
    rng = np.random.default_rng(0)
    builder = ModelBuilder("half shape")
    x = builder.input("x", (shape.batch, shape.h, shape.w, shape.ic), DType.FLOAT32)
    size = (shape.oc, shape.kh, shape.kw, shape.ic // shape.groups)
    padding = Padding[shape.padding]
    strides = shape.stride, shape.stride
    op, table = "CONV_2D", ConvOptions(padding, *strides)
    if shape.is_depthwise:
        size = (1, shape.kh, shape.kw, shape.oc)
        op, table = "DEPTHWISE_CONV_2D", DepthwiseOptions(padding, *strides)
    w = builder.constant("w", rng.normal(size=size).astype(np.float32))
    y = builder.tensor("y", (shape.batch, *shape.outputs(), shape.oc), DType.FLOAT32)
    builder.operator(op, (x, w), (y,), table)
    return builder.build(y)


def product_model(rows: int, inputs: int, outputs: int, op: str = "FULLY_CONNECTED") -> bytes:
    """BATCH_MATMUL takes the same matrix, outputs first."""
    rng = np.random.default_rng(0)
    builder = ModelBuilder("half product")
    x = builder.input("x", (rows, inputs), DType.FLOAT32)
    w = builder.constant("w", rng.normal(size=(outputs, inputs)).astype(np.float32))
    y = builder.tensor("y", (rows, outputs), DType.FLOAT32)
    dense = FullyConnectedOptions(Activation.NONE)
    matrix = tables.of(BatchMatMulOptions(False, True, False))
    builder.operator(op, (x, w), (y,), dense if op == "FULLY_CONNECTED" else matrix)
    return builder.build(y)


def outside(model: bytes) -> list[str]:
    """Return what the simulator gives beyond the bound of random inputs."""
    graph = read_graph(model)
    (index,) = graph.inputs
    x = np.random.default_rng(1).normal(size=graph.tensor(index).shape).astype(np.float32)
    return outside_bound(graph, {index: x}, outputs(model, x, **SIMULATED))


def is_planned(model: bytes) -> bool:
    return len(compile_model(model, Options.from_mapping(SIMULATED, {})).partitions) == 1


def compute(shape: Shape) -> list[str]:
    return outside(conv_model(shape))


def test_every_measured_shape_is_planned() -> None:
    shapes = shapes_of("measured")
    assert len(shapes) == MEASURED
    assert [shape for shape in shapes if not is_planned(conv_model(shape))] == []


def test_small_shapes_are_within_the_bound() -> None:
    small = [shape for shape in shapes_of("measured") if macs(shape) <= QUICK_MACS]
    assert len(small) > MEASURED // 4
    assert [(shape, found) for shape in small if (found := compute(shape))] == []


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in (1, 2, 3))]
)
def test_large_shapes_are_within_the_bound(part: int) -> None:
    """Every fourth of them; the others repeat it with other sizes."""
    large = [shape for shape in shapes_of("measured") if macs(shape) > QUICK_MACS]
    assert len(large) > MEASURED // 4
    assert [(shape, found) for shape in large[part::4] if (found := compute(shape))] == []


def test_the_product_of_512_is_within_the_bound() -> None:
    assert outside(product_model(PRODUCT, PRODUCT, PRODUCT)) == []
    model = product_model(PRODUCT, PRODUCT, PRODUCT, "BATCH_MATMUL")
    assert outside(model) == []


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "BATCH_MATMUL"])
def test_the_product_of_512_takes_half_as_many_tasks_as_the_vendors(op: str) -> None:
    """As many cycles of the array: the vendor's four tasks of 128 rows, by the formula of both."""
    model = product_model(PRODUCT, PRODUCT, PRODUCT, op)
    (partition,) = compile_model(model, Options.from_mapping(SIMULATED, {})).partitions
    assert [len(layer.tasks) for layer in partition.layers] == [2]
    groups, blocks = PRODUCT // KERNELS, PRODUCT // LANES
    assert partition.estimate.npu_cycles == VENDOR_TASKS * VENDOR_ROWS * groups * blocks
