"""Products of two computed matrices, whose weights are made on the device: those of the reference
kernels, and within a network as the runtime's from the same operands.
"""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic
from rk3588_conformance.builder.products import covering
from rk3588_conformance.reference import weighted
from rk3588_conformance.reference.arithmetic import Call
from tests.inferences import outputs
from tests.lower.reference import differences
from tests.lower.test_aliases import run

SIZES = ((17, 31), (34, 96), (65, 130), (40, 200), (96, 512), (33, 1100))
"""Kernels and inputs, to beyond those of the conformance families."""
WAYS = pytest.mark.parametrize("adj_y", [False, True], ids=["turned", "copied"])
POINT = 7
WHOLE = {"numerics": "exact", "deny_ops": "NONE"}


def product_model(kernels: int, inputs: int, dtype: DType, *, adj_y: bool) -> bytes:
    builder = Net("product")
    output, quantizations = None, (None, None)
    if dtype is DType.INT8:
        quantizations = Quantization((0.5,), (0,)), Quantization((0.5,), (POINT,))
        output = covering(inputs, *quantizations)
    shapes = (3, inputs), (kernels, inputs) if adj_y else (inputs, kernels)
    x, y = (
        builder.input(name, shape, dtype, q)
        for name, shape, q in zip("xy", shapes, quantizations, strict=True)
    )
    return builder.build(builder.computed_product(x, y, output, adj_y=adj_y))


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
    builder, rng = Net("attention"), np.random.default_rng(rows)
    x = builder.input("x", (2, rows, width), DType.INT8, Quantization((0.05,), (-3,)))
    q, k, v = (
        builder.fully_connected(
            x,
            outputs=width,
            keep_num_dims=True,
            name=name,
            arithmetic=Arithmetic(output_zero_point=point),
        )
        for name, point in zip("qkv", points, strict=True)
    )
    numbers = [builder.spec(t).quantization for t in (q, k, v)]
    scores = builder.computed_product(q, k, covering(width, *numbers[:2]), adj_y=True)
    between = builder.spec(scores).quantization
    result = builder.computed_product(scores, v, covering(rows, between, numbers[2]))
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
    builder = Net("turned")
    shape, numbers = (1, 21, 2, 24), Quantization((0.05,), (-3,))
    q, k = (
        builder.function("MAXIMUM", (builder.input(name, shape, DType.INT8, numbers), one), numbers)
        for name, one in (
            (name, builder.constant(name, np.full(shape, -9, np.int8), numbers)) for name in "qk"
        )
    )
    turned = builder.transpose(k, (0, 2, 3, 1))
    heads = builder.transpose(q, (0, 2, 1, 3))
    output = covering(24, numbers, numbers)
    scores = builder.computed_product(heads, turned, output)
    result = builder.transpose(scores, (0, 1, 3, 2))
    model = builder.build(builder.function("MAXIMUM", (result, result), output))
    options = Options.from_mapping({"numerics": "exact", "deny_ops": "NONE"}, {})
    (compiled,) = compile_model(model, options).partitions
    assert [layer.nodes for layer in compiled.layers if 4 in layer.nodes] == [(4, 5)]
    keys = next(layer for layer in compiled.layers if layer.nodes == (2,))
    assert len(keys.tasks) == 2
    (difference,) = differences(model, np.random.default_rng(3))
    assert difference.max() <= 1


SHAPES = [(5, 16), (2, 7, 33), (2, 3, 5, 40), (1, 1, 1, 70), (1, 130)]
"""Shapes that are multiplied: rows, several images, and inputs around whole surfaces."""


def dense_model(shape: tuple[int, ...], outputs: int, seed: int, dtype: DType) -> bytes:
    """FULLY_CONNECTED of two inputs; points, bias, clamp and the number of dimensions are drawn."""
    builder, rng = Net("dense"), np.random.default_rng(seed)
    has_bias, clamps, keeps = rng.integers(2, size=3).tolist()
    first = second = output = None
    bias = rng.normal(size=outputs).astype(np.float32)
    if dtype is DType.INT8:
        one, other = rng.choice((0, 5, -128, 127, 60), 2).tolist()
        first, second = Quantization((0.5,), (one,)), Quantization((0.03,), (other,))
        output = covering(shape[-1], first, second)
        bias = rng.integers(-30000, 30000, outputs).astype(np.int32)
    x = builder.input("x", shape, dtype, first)
    weights = builder.input("weights", (outputs, shape[-1]), dtype, second)
    clamp = Activation.RELU6 if clamps else Activation.NONE
    options = FullyConnectedOptions(clamp, keep_num_dims=bool(keeps))
    given = bias if has_bias else None
    return builder.build(builder.computed_dense(x, weights, output, options, given))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("kernels", [1, 5, 16, 37])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fully_connected_takes_weights_that_are_computed(
    shape: tuple[int, ...], kernels: int, dtype: DType
) -> None:
    """Products of fp16 are of numbers that it holds, whose sums it rounds once."""
    for seed in range(4):
        model = dense_model(shape, kernels, seed, dtype)
        options = Options.from_mapping({**WHOLE, "float": "fp16"}, {})
        assert not compile_model(model, options).rejections
        rng = np.random.default_rng(seed)
        sizes = (shape, (kernels, shape[-1]))
        if dtype is DType.INT8:
            arrays = [rng.integers(-128, 128, size).astype(np.int8) for size in sizes]
        else:
            arrays = [rng.integers(-8, 9, size).astype(np.float32) for size in sizes]
        (ours,) = outputs(model, *arrays, **WHOLE, float="fp16", device="simulator")
        (theirs,) = outputs(model, *arrays)
        assert ours.shape == theirs.shape
        difference = np.abs(ours.astype(np.float64) - theirs)
        bound = 1 if dtype is DType.INT8 else np.abs(theirs) * 2.0**-10 + 2.0**-10
        assert (difference <= bound).all()


def test_a_line_has_no_rows_to_exchange() -> None:
    builder, scale = Net("line"), Quantization((0.5,), (POINT,))
    x = builder.input("x", (37,), DType.INT8, scale)
    y = builder.transpose(builder.function("RELU", (x,), scale), (0,))
    model = builder.build(builder.function("RELU6", (y,), scale))
    assert not compile_model(model, Options(deny_ops=())).rejections
