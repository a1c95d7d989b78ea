"""Products of two computed matrices, whose weights are made on the device: those of the reference
kernels, and within a network as the runtime's from the same operands.
"""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import ModelBuilder, functions, moves
from rk3588_conformance.builder.layers import Arithmetic, fully_connected
from rk3588_conformance.builder.products import computed_product, covering
from rk3588_conformance.reference import weighted
from rk3588_conformance.reference.arithmetic import Call
from tests.lower.reference import differences
from tests.lower.test_aliases import run

SIZES = ((17, 31), (34, 96), (65, 130), (40, 200), (96, 512), (33, 1100))
"""Kernels and inputs, to beyond those of the conformance families."""
WAYS = pytest.mark.parametrize("adj_y", [False, True], ids=["turned", "copied"])
POINT = 7


def product_model(kernels: int, inputs: int, dtype: DType, *, adj_y: bool) -> bytes:
    builder = ModelBuilder("product")
    output, quantizations = None, (None, None)
    if dtype is DType.INT8:
        quantizations = Quantization((0.5,), (0,)), Quantization((0.5,), (POINT,))
        output = covering(inputs, *quantizations)
    shapes = (3, inputs), (kernels, inputs) if adj_y else (inputs, kernels)
    x, y = (
        builder.input(name, shape, dtype, q)
        for name, shape, q in zip("xy", shapes, quantizations, strict=True)
    )
    return builder.build(computed_product(builder, x, y, output, adj_y=adj_y))


@WAYS
@pytest.mark.parametrize(("kernels", "inputs"), SIZES)
def test_products_of_fp16_have_every_weight_in_its_place(
    kernels: int, inputs: int, adj_y: bool
) -> None:
    """A row of zeros but for one number picks one weight of every kernel."""
    rng = np.random.default_rng(inputs)
    matrix = rng.normal(size=(kernels, inputs)).astype(np.float16).astype(np.float32)
    options = Options.from_mapping({"float": "fp16", "numerics": "exact"}, {})
    model = product_model(kernels, inputs, DType.FLOAT32, adj_y=adj_y)
    (compiled,) = compile_model(model, options).partitions
    executable = Executable(compiled.program, "simulator")
    for places in ((0, inputs // 2, inputs - 1), rng.integers(0, inputs, 3)):
        picking = np.eye(inputs, dtype=np.float32)[list(places)]
        (found,) = executable.run([picking, matrix if adj_y else matrix.T])
        np.testing.assert_array_equal(found, matrix[:, places].T)


@pytest.mark.parametrize("points", [(0, 0, 0), (-128, 5, -9), (60, -40, 33)], ids=str)
@pytest.mark.parametrize(("rows", "width"), [(5, 16), (19, 33), (49, 40), (33, 64)])
def test_attention_in_one_partition(rows: int, width: int, points: tuple[int, ...]) -> None:
    """Operands other tasks wrote, spare lanes too: products of what the delegate gives."""
    builder, rng = ModelBuilder("attention"), np.random.default_rng(rows)
    x = builder.input("x", (2, rows, width), DType.INT8, Quantization((0.05,), (-3,)))
    q, k, v = (
        fully_connected(
            builder,
            rng,
            x,
            outputs=width,
            keep_num_dims=True,
            name=name,
            arithmetic=Arithmetic(output_zero_point=point),
        )
        for name, point in zip("qkv", points, strict=True)
    )
    numbers = [builder.spec(t).quantization for t in (q, k, v)]
    scores = computed_product(builder, q, k, covering(width, *numbers[:2]), adj_y=True)
    between = builder.spec(scores).quantization
    result = computed_product(builder, scores, v, covering(rows, between, numbers[2]))
    model = builder.build(q, k, v, scores, result)
    graph = read_graph(model)
    given = rng.integers(-128, 128, (2, rows, width)).astype(np.int8)
    found = dict(zip(graph.outputs, run(model, [given]), strict=True))
    products = [node for node in graph.nodes if node.op == "BATCH_MATMUL"]
    for node in products:
        wanted = np.clip(weighted.batch_matmul(Call(graph, node, found)), -128, 127)
        assert np.abs(found[node.outputs[0]].astype(int) - wanted).max() <= 1
        assert len(np.unique(wanted)) > 20


def test_products_exchange_rows_and_columns_themselves() -> None:
    """Keys, as Keras brings heads in front of them, and scores that are turned for the softmax: of
    the first what is left only moves heads, of the second nothing.
    """
    builder = ModelBuilder("turned")
    shape, numbers = (1, 21, 2, 24), Quantization((0.05,), (-3,))
    q, k = (
        functions.function(
            builder, "MAXIMUM", (builder.input(name, shape, DType.INT8, numbers), one), numbers
        )
        for name, one in (
            (name, builder.constant(name, np.full(shape, -9, np.int8), numbers)) for name in "qk"
        )
    )
    turned = moves.transpose(builder, k, (0, 2, 3, 1))
    heads = moves.transpose(builder, q, (0, 2, 1, 3))
    output = covering(24, numbers, numbers)
    scores = computed_product(builder, heads, turned, output)
    result = moves.transpose(builder, scores, (0, 1, 3, 2))
    model = builder.build(functions.function(builder, "MAXIMUM", (result, result), output))
    options = Options.from_mapping({"numerics": "exact", "deny_ops": "NONE"}, {})
    (compiled,) = compile_model(model, options).partitions
    assert [layer.nodes for layer in compiled.layers if 4 in layer.nodes] == [(4, 5)]
    keys = next(layer for layer in compiled.layers if layer.nodes == (2,))
    assert len(keys.tasks) == 2
    (difference,) = differences(model, np.random.default_rng(3))
    assert difference.max() <= 1


def test_a_line_has_no_rows_to_exchange() -> None:
    builder, scale = ModelBuilder("line"), Quantization((0.5,), (POINT,))
    x = builder.input("x", (37,), DType.INT8, scale)
    y = moves.transpose(builder, functions.function(builder, "RELU", (x,), scale), (0,))
    model = builder.build(functions.function(builder, "RELU6", (y,), scale))
    assert not compile_model(model, Options(deny_ops=())).rejections
