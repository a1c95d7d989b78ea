"""Functions in the tasks of convolutions (``numerics=auto``), run on the simulator.

The bound is the contract's: where the convolution alone gives k, a result lies between f(k - 1) and
f(k + 1). Both k and f are TensorFlow Lite's, of models of their own.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.builder import Net, layers
from rk3588_conformance.builder.layers import Arithmetic
from tests.inferences import assert_same
from tests.loops import for_each
from tests.lower import fusion_graphs as f
from tests.lower.reference import tflite_outputs, whole_graph


def convolution(
    builder: Net, x: int, shape: Sequence[int], given: Arithmetic, is_depthwise: bool
) -> int:
    _, _, _, _, oc, kh, kw = shape
    if is_depthwise:
        return builder.depthwise(x, layers.Window(kh, kw), arithmetic=given)
    return builder.conv(x, oc, layers.Window(kh, kw), arithmetic=given)


def model_of(name: str, shape: Sequence[int], given: Arithmetic, dtype: DType) -> bytes:
    """A convolution, and behind it the function ``name``; none if that is empty."""
    builder, x = f.start(dtype, shape[:4])
    y = convolution(builder, x, shape, given, False)
    return builder.build(f.FUNCTIONS[name](builder, y) if name else y)


def function_alone(name: str, given: Arithmetic, dtype: DType) -> np.ndarray:
    """The reference kernels' results of all 256 values of the convolution's result."""
    builder = Net("alone")
    assert given.output_scale is not None
    quantization = Quantization((given.output_scale,), (given.output_zero_point,))
    x = builder.input("x", (1, 16, 16, 1), dtype, quantization)
    model = builder.build(f.FUNCTIONS[name](builder, x))
    low = f.LOWEST[dtype]
    values = np.arange(low, low + 256).reshape(1, 16, 16, 1)
    graph = read_graph(model)
    kind = np.int8 if low else np.uint8
    (found,) = tflite_outputs(model, whole_graph(graph), [values.astype(kind)])
    return np.asarray(found).ravel().astype(np.int64)


def assert_between_neighbours(
    ours: np.ndarray, k: np.ndarray, function: np.ndarray, dtype: DType
) -> None:
    at = k.astype(np.int64) - f.LOWEST[dtype]
    near = np.stack([function[np.clip(at + step, 0, 255)] for step in (-1, 0, 1)])
    assert (ours >= near.min(axis=0)).all()
    assert (ours <= near.max(axis=0)).all()


@for_each("dtype", f.TYPES)
@for_each("shape", f.SHAPES)
@pytest.mark.parametrize("name", f.FUNCTIONS)
def test_a_function_joins_the_convolution_before_it(
    name: str, shape: Sequence[int], dtype: DType
) -> None:
    given = f.arithmetic(dtype)
    model = model_of(name, shape, given, dtype)
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.AUTO, arrays)
    (layer,) = f.joined(result)
    assert layer.nodes == tuple(range(len(result.graph.nodes)))
    (k,) = f.references(model_of("", shape, given, dtype), arrays)
    assert_between_neighbours(ours[0], k, function_alone(name, given, dtype), dtype)
    assert layer.difference is not None
    assert f.off(ours[0], f.references(model, arrays)[0]).max() <= layer.difference.most_lsb


@pytest.mark.parametrize("is_depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("dtype", f.TYPES, ids=str)
@pytest.mark.parametrize("name", f.LINES)
def test_a_line_joins_without_a_table(name: str, dtype: DType, is_depthwise: bool) -> None:
    """The convolution is requantised by both scales, in a form that others run; nobody is known to
    have run a depthwise one that clamps apart from the zero point.
    """
    shape, given = (1, 7, 5, 24, 24, 3, 3), f.arithmetic(dtype)
    alone, x = f.start(dtype, shape[:4])
    alone.output(convolution(alone, x, shape, given, is_depthwise))
    builder, x = f.start(dtype, shape[:4])
    y = convolution(builder, x, shape, given, is_depthwise)
    model = builder.build(f.FUNCTIONS[name](builder, y))
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.AUTO, arrays)
    if is_depthwise and name == "coarser":
        assert f.joined(result) == []
        return
    (layer,) = f.joined(result)
    assert all(getattr(task, "table", None) is None for task in layer.tasks)
    (k,) = f.references(alone.build(), arrays)
    assert_between_neighbours(ours[0], k, function_alone(name, given, dtype), dtype)


@pytest.mark.parametrize("dtype", f.TYPES, ids=str)
def test_a_depthwise_convolution_has_no_table(dtype: DType) -> None:
    """Nobody has run one."""
    builder, x = f.start(dtype, f.SHAPES[0][:4])
    y = convolution(builder, x, f.SHAPES[0], f.arithmetic(dtype), True)
    assert f.joined(compile_model(builder.build(f.silu(builder, y)), f.AUTO)) == []


def equal_and_apart(model: bytes) -> None:
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.EXACT, arrays)
    assert not f.joined(result)
    assert_same(ours, f.references(model, arrays))


@pytest.mark.parametrize("dtype", f.TYPES, ids=str)
def test_a_result_that_others_read_exists(dtype: DType) -> None:
    shape = (1, 7, 5, 24, 24, 3, 3)
    builder, x = f.start(dtype, shape[:4])
    y = convolution(builder, x, shape, f.arithmetic(dtype), False)
    assert f.joined(compile_model(builder.build(f.silu(builder, y), y), f.AUTO)) == []
    equal_and_apart(builder.build())
    builder, x = f.start(dtype, shape[:4])
    y = convolution(builder, x, shape, f.arithmetic(dtype), False)
    builder.output(f.hard_swish(builder, y))
    assert f.joined(compile_model(builder.build(f.leaky(builder, y)), f.AUTO)) == []
    equal_and_apart(builder.build())


@pytest.mark.parametrize("spread", [4.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("bias", [0, 1 << 20, -(1 << 28), (1 << 31) - 1])
@pytest.mark.parametrize("name", ["silu", "coarser", "relu6"])
def test_coarse_and_saturated_channels_stay_within_the_bound(
    name: str, spread: float, bias: int
) -> None:
    shape = (1, 5, 7, 33, 40, 1, 1)
    biases = np.random.default_rng(3).integers(-5000, 5000, 40).astype(np.int32)
    biases[::7] = bias
    given = f.arithmetic(DType.INT8, channel_spread=spread, bias=biases)
    model = model_of(name, shape, given, DType.INT8)
    if compile_model(model, f.AUTO).rejections:
        return
    arrays = f.inputs_of(model)
    _, ours = f.run(model, f.AUTO, arrays)
    (k,) = f.references(model_of("", shape, given, DType.INT8), arrays)
    assert_between_neighbours(ours[0], k, function_alone(name, given, DType.INT8), DType.INT8)
