"""Float nodes that constants decide about: by the range of what they give, or by int8 weights."""

import numpy as np
import pytest

from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.mul import MulOptions
from delegate.ops.operator import GraphFacts
from delegate.ops.shared.half_ranges import half_ranges
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder import options as tables
from tests.inferences import interpreter_of, invoke
from tests.loops import for_each
from tests.ops.half_models import SIMULATED, compiled


def chain(*layers: tuple[np.ndarray, np.ndarray, Activation]) -> bytes:
    """Convolutions of one pixel's channels: weights [outputs, inputs], a bias, an activation."""
    builder = Net("chain")
    x = builder.input("x", (1, 4, 5, layers[0][0].shape[1]), DType.FLOAT32)
    for number, (weights, bias, activation) in enumerate(layers):
        w = builder.constant(f"w{number}", weights[:, None, None, :].astype(np.float32))
        b = builder.constant(f"b{number}", bias.astype(np.float32))
        y = builder.tensor(f"y{number}", (1, 4, 5, len(weights)), DType.FLOAT32)
        builder.operator("CONV_2D", (x, w, b), (y,), ConvOptions(activation=activation))
        x = y
    return builder.build(x)


def refused(model: bytes) -> list[tuple[int, str]]:
    return [(r.node, r.rule) for r in compiled(model, float="fp16").rejections]


NONE, RELU, RELU6 = Activation.NONE, Activation.RELU, Activation.RELU6


def test_what_constants_prove_beyond_the_range_stays_on_the_cpu():
    ones, zero = np.ones((8, 8)), np.zeros(8)
    anything = (ones, zero, NONE)
    assert refused(chain(anything)) == []
    # Eight numbers from 0 to 6 make 48, times a weight.
    bounded = (ones, zero, RELU6)
    assert refused(chain(bounded, (ones * 1300, zero, NONE))) == []
    assert refused(chain(bounded, (ones * 1400, zero, NONE))) == [(1, "half_range")]
    assert refused(chain(bounded, (ones * -1400, zero, NONE))) == [(1, "half_range")]
    assert refused(chain(bounded, (ones * 1400, zero, RELU6))) == []
    # A constant, whatever the input is, and a bias below which nothing can be.
    huge = np.where(np.arange(8) == 3, 70000.0, 0.0)
    assert refused(chain((ones * (np.arange(8) != 3)[:, None], huge, NONE))) == [(0, "half_range")]
    assert refused(chain((ones, zero, RELU), (ones, huge, NONE))) == [(1, "half_range")]
    assert refused(chain((ones, zero, RELU), (-ones, huge, NONE))) == []
    # Nothing is known behind a node of the CPU.
    layers = bounded, (ones * 1400, zero, NONE), (ones, zero, NONE)
    assert refused(chain(*layers)) == [(1, "half_range")]


@for_each("seed", range(6))
def test_values_stay_within_the_proven_ranges(seed):
    """The simulator runs a graph of several operators with ordinary and extreme inputs."""
    rng = np.random.default_rng(seed)
    builder = Net("ranges")
    shape = (1, 4, 6, 16)
    x = builder.input("x", shape, DType.FLOAT32)
    tensors: list[int] = []

    def made(op: str, inputs, options=None, out=shape) -> int:
        tensors.append(builder.tensor(f"t{len(tensors)}", out, DType.FLOAT32))
        builder.operator(op, inputs, (tensors[-1],), options)
        builder.output(tensors[-1])
        return tensors[-1]

    def convolved(source: int, op: str, size, options) -> int:
        w = builder.constant("w", rng.normal(size=size).astype(np.float32))
        b = builder.constant("b", rng.normal(size=16).astype(np.float32))
        return made(op, (source, w, b), options)

    first = convolved(x, "CONV_2D", (16, 3, 3, 16), ConvOptions(activation=RELU6))
    second = convolved(first, "CONV_2D", (16, 1, 1, 16), ConvOptions())
    third = convolved(second, "DEPTHWISE_CONV_2D", (1, 3, 3, 16), DepthwiseOptions())
    sigmoid = made("LOGISTIC", (third,))
    swish = made("HARD_SWISH", (second,))
    total = made("ADD", (second, third), AddOptions())
    product = made("MUL", (sigmoid, total), MulOptions())
    less = made("SUB", (product, swish), SubOptions())
    made("MINIMUM", (made("MAXIMUM", (less, total)), second))
    slope = builder.constant("slope", rng.normal(size=(1, 1, 16)).astype(np.float32))
    made("PRELU", (less, slope))
    model = builder.build()
    result = compiled(model, float="fp16")
    assert [r.op for r in result.rejections] == []
    ranges = half_ranges(GraphFacts(result.graph))
    assert set(ranges) == set(tensors)
    interpreter = interpreter_of(model, **SIMULATED)
    closest = 0.0
    for scale in (1e-3, 1.0, 1e9):
        invoke(interpreter, (rng.normal(size=shape) * scale).astype(np.float32))
        for tensor in tensors:
            low, high = ranges[tensor]
            ours = interpreter.get_tensor(tensor).reshape(-1, 16).astype(np.float64)
            room = 2.0**-9 * np.maximum(abs(low), abs(high)) + 2.0**-24
            assert np.isfinite(low).all()
            assert np.isfinite(high).all()
            assert (ours >= low - room).all()
            assert (ours <= high + room).all()
            closest = max(closest, float((ours.max() / high).max()))
    assert closest > 0.9


def test_relu_ends_where_fp16_does():
    model = chain((np.eye(8) * 1000, np.zeros(8), RELU), (np.eye(8) - 1, np.zeros(8), NONE))
    interpreter = interpreter_of(model, **SIMULATED)
    for value in (1e3, 1e30, -1e30):
        (ours,) = invoke(interpreter, np.full((1, 4, 5, 8), value, np.float32))
        assert not np.isnan(ours).any()
        assert (ours == (0 if value < 0 else -np.inf)).all()


def weighted_model(op: str, weights: np.ndarray, scales: np.ndarray, axis: int) -> bytes:
    """A node of 5 x 6 pixels of 24 channels in float32 with quantised weights."""
    builder = Net("dynamic range")
    x = builder.input("x", (1, 5, 6, 24), DType.FLOAT32)
    zeros = np.zeros(len(scales), np.int64)
    scaling = Quantization(tuple(map(float, scales)), tuple(map(int, zeros)), axis)
    w = builder.constant("w", weights, scaling)
    outputs = weights.shape[axis]
    b = builder.constant("b", np.linspace(-1, 1, outputs, dtype=np.float32))
    if op == "FULLY_CONNECTED":
        shape, made = (30, outputs), FullyConnectedOptions(Activation.NONE)
    elif op == "CONV_2D":
        shape, made = (1, 5, 6, outputs), ConvOptions()
    else:
        shape, made = (1, 5, 6, outputs), DepthwiseOptions()
    y = builder.tensor("y", shape, DType.FLOAT32)
    builder.operator(op, (x, w, b), (y,), made)
    return builder.build(y)


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_int8_weights_are_taken_unless_floats_stay_on_the_cpu(op, per_channel):
    """The results are the suite's, in families of dynamic range."""
    rng = np.random.default_rng(7)
    shape, axis = {
        "CONV_2D": ((17, 1, 1, 24), 0),
        "DEPTHWISE_CONV_2D": ((1, 1, 1, 24), 3),
        "FULLY_CONNECTED": ((17, 24), 0),
    }[op]
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    scales = rng.uniform(1e-3, 1, shape[axis] if per_channel else 1).astype(np.float32)
    model = weighted_model(op, weights, scales, axis)
    assert compiled(model, float="off").partitions == ()
    assert len(compiled(model, float="fp16").partitions) == 1
    assert len(compiled(model).partitions) == 1  # auto: nearer than the kernels of the CPU


def test_int8_weights_that_integers_read_too_stay_integers():
    builder = Net("both")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    w = builder.constant("w", np.ones((8, 1, 1, 8), np.int8), Quantization((0.5,), (0,), 0))
    b = builder.constant("b", np.zeros(8, np.float32))
    y = builder.tensor("y", (1, 5, 6, 8), DType.FLOAT32)
    builder.operator("CONV_2D", (x, w, b), (y,), ConvOptions())
    z = builder.tensor("z", (8, 1, 1, 8), DType.INT8, Quantization((0.5,), (0,), 0))
    builder.operator("RESHAPE", (w,), (z,), tables.reshape((8, 1, 1, 8)))
    assert compiled(builder.build(y, z), float="fp16").partitions == ()
