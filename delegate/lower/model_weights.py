"""Read weights, biases, multipliers and padding of the model in the device's terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.pipeline import Int64Array
from delegate.model.graph import DType, Graph, Node, Padding, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWeights:
    """A weight tensor in the device's int8 domain, in its TFLite shape; bias with one int64 per
    output channel.
    """

    values: npt.NDArray[np.int8]
    zero_point: int
    bias: Int64Array


def device_weights(
    graph: Graph, node: Node, channels: int, numpy_shape: tuple[int, ...]
) -> DeviceWeights:
    """Reads the constant weights (input 1) and the optional bias (input 2) of ``node``."""
    weights = graph.tensor(node.inputs[1])
    assert weights.constant is not None
    assert weights.quantization is not None
    values = weights.constant.reshape(numpy_shape)
    zero_point = weights.quantization.zero_points[0]
    offset = weights.dtype.element.offset
    if offset:
        # The top bit flipped is the subtraction of 128.
        values = np.bitwise_xor(values.view(np.uint8), np.uint8(offset))
        zero_point -= offset
    bias = np.zeros(channels, np.int64)
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        constant = graph.tensor(node.inputs[2]).constant
        assert constant is not None
        bias += constant.reshape(-1).astype(np.int64)
    return DeviceWeights(values.view(np.int8), zero_point, bias)


def real_ratios(
    source: Tensor,
    weights: Tensor,
    target: Tensor,
    channels: int,
    *,
    in_float32: bool | None = None,
) -> npt.NDArray[np.float64]:
    """sx * sw_c / sy as TFLite's kernels compute it: in double, but with weights of one scale
    sx * sw is a product of float32 where ``in_float32`` (None: where the tensors are uint8).
    """
    assert source.quantization is not None
    assert weights.quantization is not None
    assert target.quantization is not None
    input_scale, output_scale = source.quantization.scale, target.quantization.scale
    scales = np.array(weights.quantization.scales, np.float64)
    if in_float32 is None:
        in_float32 = source.dtype is DType.UINT8
    if scales.size == 1 and in_float32:
        product = (np.float32(input_scale) * scales.astype(np.float32)).astype(np.float64)
    else:
        product = input_scale * scales
    return np.ascontiguousarray(np.broadcast_to(product / output_scale, (channels,)))


def leading_padding(
    padding: Padding, size: int, output: int, kernel: int, stride: int, dilation: int
) -> int:
    """Padding above or left of the image: half of SAME's total, rounded down."""
    if padding is Padding.VALID:
        return 0
    total = (output - 1) * stride + (kernel - 1) * dilation + 1 - size
    return max(total, 0) // 2
