"""References of operators that multiply with weights, or with another matrix."""

from dataclasses import replace

import numpy as np

from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.reference.arithmetic import Array, Call, operands, requantize, round_once
from rk3588_conformance.reference.windows import scattered, tap_sum


def conv_2d(call: Call) -> Array:
    options = call.options(ConvOptions)
    features, weights = operands(call)
    channels = weights.shape[3]
    largest = float(np.abs(features).max(initial=0) * np.abs(weights).max(initial=0))
    # Sums of integers below 2^24 are exact in float32, below 2^53 in float64.
    kind = np.float32 if largest * channels < 1 << 24 else np.float64
    features, weights = features.astype(kind), weights.astype(kind).transpose(1, 2, 3, 0)

    def product(seen: Array, factors: Array) -> Array:
        """Multiply matrices: much faster than a product for each row of the image."""
        flat = (seen.reshape(-1, channels) @ factors).astype(np.float64)
        return flat.reshape(*seen.shape[:3], -1)

    acc = tap_sum(options, features, weights, product)
    return requantize(call, acc.astype(np.int64))


def is_not_grouped(call: Call) -> bool:
    """Grouped convolutions are left to the kernels."""
    return call.operand().shape[3] == call.operand(1).shape[3]


def depthwise_conv_2d(call: Call) -> Array:
    options = call.options(DepthwiseOptions)
    features, weights = operands(call)
    features = np.repeat(features, weights.shape[3] // features.shape[3], axis=3)
    acc = tap_sum(options, features, weights[0], np.multiply)
    return requantize(call, np.rint(acc).astype(np.int64))


def fully_connected(call: Call) -> Array:
    features, weights = operands(call)
    acc = features.reshape(-1, weights.shape[1]) @ weights.T
    if call.graph.rounds_once:
        return round_once(call, acc)
    return requantize(call, np.rint(acc).astype(np.int64), in_float=True)


def has_unwritten_rows(call: Call) -> bool:
    """Return whether rows stay unwritten: with scales per channel the kernel takes the output's
    first two dimensions for rows and outputs, whatever its rank, and leaves the rest unwritten.
    """
    quantization = call.operand(1).quantization
    is_per_channel = quantization is not None and quantization.is_per_channel
    return is_per_channel and len(call.output.shape) > 2


def batch_matmul(call: Call) -> Array:
    options = call.options(BatchMatMulOptions)
    first, second = (
        np.swapaxes(operand, -1, -2) if is_turned else operand
        for operand, is_turned in zip(
            (call.steps(place).astype(np.float64) for place in call.places),
            (options.adj_x, options.adj_y),
            strict=True,
        )
    )
    acc = np.rint(first @ second).astype(np.int64)
    return requantize(call, acc, in_float=True)


def transpose_conv(call: Call) -> Array:
    """Scatter every input element over the outputs that its kernel reaches."""
    options = call.options(TransposeConvOptions)
    _, weights_index, input_index, *bias = call.node.inputs
    convolution = replace(call.node, inputs=(input_index, weights_index, *bias))
    as_convolution = replace(call, node=convolution)
    acc = scattered(options, *operands(as_convolution), call.output.shape)
    return requantize(as_convolution, np.rint(acc).astype(np.int64))
