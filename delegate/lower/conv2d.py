"""CONV_2D: from a node to a resolved ``Convolution``; and what the convolution-like operators
share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.graph import DType, Graph, Node, Padding, Tensor
from delegate.lower.grouped import widen_groups
from delegate.lower.memory.tensors import UINT8_OFFSET, DeviceTensor, View
from delegate.lower.resolved import Convolution
from delegate.lower.stages import Int64Array
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.rules.convolution import ConvolutionOptions


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
    if weights.dtype is DType.UINT8:
        # The top bit flipped is the subtraction of 128.
        values = np.bitwise_xor(values.view(np.uint8), np.uint8(UINT8_OFFSET))
        zero_point -= UINT8_OFFSET
    bias = np.zeros(channels, np.int64)
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        constant = graph.tensor(node.inputs[2]).constant
        assert constant is not None
        bias += constant.reshape(-1).astype(np.int64)
    return DeviceWeights(values.view(np.int8), zero_point, bias)


def real_multipliers(
    source: Tensor, weights: Tensor, target: Tensor, channels: int
) -> npt.NDArray[np.float64]:
    """sx * sw_c / sy as TFLite's kernels compute it: in double, but per-tensor uint8 multiplies
    sx * sw in float32.
    """
    assert source.quantization is not None
    assert weights.quantization is not None
    assert target.quantization is not None
    input_scale, output_scale = source.quantization.scale, target.quantization.scale
    scales = np.array(weights.quantization.scales, np.float64)
    if source.dtype is DType.UINT8:
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


def leading_paddings(
    options: ConvolutionOptions, source: View, target: View, kh: int, kw: int
) -> tuple[int, int]:
    """Rows above and columns left of the image."""
    scheme, h, w = options.padding, source.height, source.width
    top = leading_padding(scheme, h, target.height, kh, options.stride_h, options.dilation_h)
    left = leading_padding(scheme, w, target.width, kw, options.stride_w, options.dilation_w)
    return top, left


def resolve_conv2d(
    graph: Graph,
    node: Node,
    name: str,
    source: DeviceTensor,
    target: DeviceTensor,
) -> Convolution:
    """``target`` is where the result goes."""
    options = node.options_as(ConvOptions)
    assert options is not None
    weights = graph.tensor(node.inputs[1])
    output = graph.tensor(node.outputs[0])
    assert weights.quantization is not None
    assert output.quantization is not None
    channels, kh, kw, _ = weights.shape
    device = device_weights(graph, node, channels, weights.shape)
    pad_top, pad_left = leading_paddings(options, source.view, target.view, kh, kw)
    return Convolution(
        node=node.index,
        name=name,
        op=node.op,
        nodes=(node.index,),
        weights=widen_groups(device.values, source.view.channels, device.zero_point),
        weight_zero_point=device.zero_point,
        bias=device.bias,
        multipliers=real_multipliers(graph.tensor(node.inputs[0]), weights, output, channels),
        per_channel=weights.quantization.is_per_channel,
        activation=options.activation,
        output_scale=output.quantization.scale,
        output_zero_point=target.zero_point,
        source=source,
        target=target,
        input_view=source.view,
        output_view=target.view,
        stride_h=options.stride_h,
        stride_w=options.stride_w,
        dilation_h=options.dilation_h,
        dilation_w=options.dilation_w,
        pad_top=pad_top,
        pad_left=pad_left,
        is_depthwise=False,
    )
