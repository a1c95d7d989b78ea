"""DEPTHWISE_CONV_2D: from a node to a resolved ``Convolution``.

A depth multiplier of 1 is what the hardware calls depthwise; others become dense kernels.
"""

from __future__ import annotations

from delegate.graph import Graph, Node
from delegate.lower.conv2d import device_weights, leading_paddings, real_multipliers
from delegate.lower.grouped import widen_multiplier
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.resolved import Convolution
from delegate.ops.depthwise_conv_2d import DepthwiseOptions


def resolve_depthwise(
    graph: Graph, node: Node, name: str, source: DeviceTensor, target: DeviceTensor
) -> Convolution:
    options = node.options_as(DepthwiseOptions)
    assert options is not None
    weights = graph.tensor(node.inputs[1])
    output = graph.tensor(node.outputs[0])
    assert weights.quantization is not None
    assert output.quantization is not None
    _, kh, kw, channels = weights.shape
    device = device_weights(graph, node, channels, (kh, kw, channels))
    inputs = source.view.channels
    is_depthwise = channels == inputs
    values = device.values
    if not is_depthwise:
        values = widen_multiplier(values, inputs, device.zero_point)
    pad_top, pad_left = leading_paddings(options, source.view, target.view, kh, kw)
    return Convolution(
        node=node.index,
        name=name,
        op=node.op,
        nodes=(node.index,),
        weights=values,
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
        is_depthwise=is_depthwise,
    )
