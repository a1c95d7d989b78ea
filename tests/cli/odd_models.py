"""Models that the commands must refuse or leave to the CPU, made in memory."""

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder import Net


def float_dense(builder: Net, x: int, outputs: int) -> int:
    inputs = builder.spec(x).shape[-1]
    values = np.random.default_rng(3).normal(size=(outputs, inputs)).astype(np.float32)
    operands = (x, builder.constant("weights", values), -1)
    table = FullyConnectedOptions()
    return builder.result("FULLY_CONNECTED", operands, "dense", (1, outputs), options=table)


def float_classifier(classes: int = 4) -> bytes:
    """Pictures of 5x7 in grey to ``classes`` scores, all in float32: nothing for the NPU."""
    builder = Net("float")
    x = builder.input("image", (1, 5, 7, 1), DType.FLOAT32)
    return builder.build(float_dense(builder, builder.reshape(x, (1, 35)), classes))


def dynamic_image_model() -> bytes:
    """A convolution whose input has no fixed height and width."""
    quantization = Quantization((1.0 / 255.0,), (-128,))
    builder = Net("dynamic")
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
    builder = Net("sum_and_float_layer")
    x = builder.input("x", (1, 256), DType.INT8, Quantization((0.05,), (3,)))
    y = builder.result("ADD", (x, x), "y", options=AddOptions())
    wide = builder.tensor("wide", (1, 256), DType.FLOAT32)
    builder.operator("DEQUANTIZE", [y], [wide])
    return builder.build(float_dense(builder, wide, 40))


def two_input_model() -> bytes:
    """An addition of two inputs: no classifier."""
    builder = Net("two inputs")
    inputs = [builder.input(n, (1, 3, 5, 4), DType.INT8, Quantization((0.5,), (3,))) for n in "ab"]
    return builder.build(builder.function("ADD", inputs, Quantization((1.0,), (0,)), AddOptions()))


def constant_detector(*, channels_first: bool = False, classes: int = 3) -> bytes:
    """A "detector" of YOLO v8's form for 64 x 64 pixels that sees the same object everywhere: all
    comes from the bias of a fully connected layer. With 4 classes it may be one of key points.
    """
    size, cells = 64, 8 * 8 + 4 * 4 + 2 * 2
    rows, scale = 4 + classes, Quantization((1 / 255,), (0,))
    builder = Net("constant detector")
    form = (1, 3, size, size) if channels_first else (1, size, size, 3)
    x = builder.input("image", form, DType.UINT8, scale)
    axes = (2, 3) if channels_first else (1, 2)
    mean = builder.reduced("MEAN", x, scale, keep_dims=False, axes=axes)
    values = np.full((rows * cells, 3), 128, np.uint8)
    weights = builder.constant("weights", values, Quantization((1 / 255,), (128,)))
    answer = np.zeros((rows, cells))
    answer[:4, 0] = [0.5, 0.25, 0.5, 0.25]
    answer[4 + 1, 0] = 0.75
    numbers = np.rint(answer.reshape(-1) * 255 * 255).astype(np.int32)
    bias = builder.constant("bias", numbers, Quantization((1 / 255 / 255,), (0,)))
    table = FullyConnectedOptions()
    flat = builder.result(
        "FULLY_CONNECTED", (mean, weights, bias), "flat", (1, rows * cells), options=table
    )
    y = builder.reshape(flat, (1, rows, cells), "boxes")
    return builder.build(y)
