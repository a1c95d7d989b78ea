"""Models that the commands must refuse or leave to the CPU, made in memory."""

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.shared.reductions import ReducerOptions
from rk3588_conformance.builder import options
from rk3588_conformance.builder.model_builder import ModelBuilder


def float_classifier(classes: int = 4) -> bytes:
    """Pictures of 5x7 in grey to ``classes`` scores, all in float32: nothing for the NPU."""
    builder = ModelBuilder("float")
    x = builder.input("image", (1, 5, 7, 1), DType.FLOAT32)
    flat = builder.tensor("flat", (1, 35), DType.FLOAT32)
    shape = builder.constant("shape", np.array([1, 35], np.int32))
    builder.operator("RESHAPE", [x, shape], [flat], options.reshape([1, 35]))
    weights = np.random.default_rng(3).normal(size=(classes, 35)).astype(np.float32)
    scores = builder.tensor("scores", (1, classes), DType.FLOAT32)
    builder.operator(
        "FULLY_CONNECTED",
        [flat, builder.constant("weights", weights), -1],
        [scores],
        FullyConnectedOptions(),
    )
    return builder.build(scores)


def dynamic_image_model() -> bytes:
    """A convolution whose input has no fixed height and width."""
    quantization = Quantization((1.0 / 255.0,), (-128,))
    builder = ModelBuilder("dynamic")
    x = builder.input(
        "image", (1, 1, 1, 3), DType.INT8, quantization, shape_signature=(1, -1, -1, 3)
    )
    weights = builder.constant(
        "weights", np.ones((4, 1, 1, 3), np.int8), Quantization((0.5,), (0,))
    )
    bias = builder.constant("bias", np.zeros(4, np.int32), Quantization((0.5 / 255.0,), (0,)))
    y = builder.tensor("y", (1, 1, 1, 4), DType.INT8, quantization, shape_signature=(1, -1, -1, 4))
    builder.operator("CONV_2D", [x, weights, bias], [y], ConvOptions())
    return builder.build(y)


def sum_and_float_layer() -> bytes:
    """An addition for the NPU, and behind it sums of floats, which kernels make in any order."""
    quantization = Quantization((0.05,), (3,))
    builder = ModelBuilder("sum_and_float_layer")
    x = builder.input("x", (1, 256), DType.INT8, quantization)
    y = builder.tensor("y", (1, 256), DType.INT8, quantization)
    builder.operator("ADD", [x, x], [y], AddOptions())
    wide = builder.tensor("wide", (1, 256), DType.FLOAT32)
    builder.operator("DEQUANTIZE", [y], [wide])
    weights = np.random.default_rng(3).normal(size=(40, 256)).astype(np.float32)
    z = builder.tensor("z", (1, 40), DType.FLOAT32)
    inputs = [wide, builder.constant("weights", weights), -1]
    builder.operator("FULLY_CONNECTED", inputs, [z], FullyConnectedOptions())
    return builder.build(z)


def two_input_model() -> bytes:
    """An addition of two inputs: no classifier."""
    quantization = Quantization((0.5,), (3,))
    builder = ModelBuilder("two inputs")
    shape = (1, 3, 5, 4)
    a = builder.input("a", shape, DType.INT8, quantization)
    b = builder.input("b", shape, DType.INT8, quantization)
    y = builder.tensor("sum", shape, DType.INT8, Quantization((1.0,), (0,)))
    builder.operator("ADD", [a, b], [y], AddOptions())
    return builder.build(y)


def constant_detector(*, channels_first: bool = False, classes: int = 3) -> bytes:
    """A "detector" of YOLO v8's form for 64 x 64 pixels that sees the same object everywhere: all
    comes from the bias of a fully connected layer. With 4 classes it may be one of key points.
    """
    size, cells = 64, 8 * 8 + 4 * 4 + 2 * 2
    builder = ModelBuilder("constant detector")
    form = (1, 3, size, size) if channels_first else (1, size, size, 3)
    x = builder.input("image", form, DType.UINT8, Quantization((1 / 255,), (0,)))
    pool = builder.tensor("mean", (1, 3), DType.UINT8, Quantization((1 / 255,), (0,)))
    axes = builder.constant("axes", np.array([2, 3] if channels_first else [1, 2], np.int32))
    builder.operator("MEAN", [x, axes], [pool], ReducerOptions(keep_dims=False), version=2)
    scale = 1 / 255
    weights = builder.constant(
        "weights",
        np.full(((4 + classes) * cells, 3), 128, np.uint8),
        Quantization((scale,), (128,)),
    )
    answer = np.zeros((4 + classes, cells))
    answer[:4, 0] = [0.5, 0.25, 0.5, 0.25]
    answer[4 + 1, 0] = 0.75
    bias = builder.constant(
        "bias",
        np.rint(answer.reshape(-1) / (scale * scale)).astype(np.int32),
        Quantization((scale * scale,), (0,)),
    )
    flat = builder.tensor(
        "flat", (1, (4 + classes) * cells), DType.UINT8, Quantization((scale,), (0,))
    )
    builder.operator("FULLY_CONNECTED", [pool, weights, bias], [flat], FullyConnectedOptions())
    y = builder.tensor("boxes", (1, 4 + classes, cells), DType.UINT8, Quantization((scale,), (0,)))
    shape = builder.constant("shape", np.array([1, 4 + classes, cells], np.int32))
    builder.operator("RESHAPE", [flat, shape], [y], options.reshape((1, 4 + classes, cells)))
    return builder.build(y)
