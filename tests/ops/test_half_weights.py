"""int8 weights of float features: where they are taken."""

import numpy as np
import pytest

from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder import options as tables
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.ops.half_models import compiled


def weighted_model(op: str, weights: np.ndarray, scales: np.ndarray, axis: int) -> bytes:
    """A node of 5 x 6 pixels of 24 channels in float32 with quantised weights."""
    builder = ModelBuilder("dynamic range")
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
    builder = ModelBuilder("both")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    w = builder.constant("w", np.ones((8, 1, 1, 8), np.int8), Quantization((0.5,), (0,), 0))
    b = builder.constant("b", np.zeros(8, np.float32))
    y = builder.tensor("y", (1, 5, 6, 8), DType.FLOAT32)
    builder.operator("CONV_2D", (x, w, b), (y,), ConvOptions())
    z = builder.tensor("z", (8, 1, 1, 8), DType.INT8, Quantization((0.5,), (0,), 0))
    builder.operator("RESHAPE", (w,), (z,), tables.reshape((8, 1, 1, 8)))
    assert compiled(builder.build(y, z), float="fp16").partitions == ()
