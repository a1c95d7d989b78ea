"""FULLY_CONNECTED as a convolution that reads its input's pixels in place.

TFLite flattens the input to [rows, K]. If K is the channel count, every pixel is a row and the
kernel is 1 x 1; if K is a whole image (height * width * channels), every image is a row and the
kernel covers it, since OHWI weights are then in TFLite's own order. Anything else would need the
input laid out anew and is refused.
"""

from __future__ import annotations

from delegate.errors import LoweringError
from delegate.graph import Graph, Node
from delegate.lower.conv2d import device_weights, real_multipliers
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.resolved import Convolution
from delegate.ops.fully_connected import FullyConnectedOptions


def resolve_fully_connected(
    graph: Graph, node: Node, name: str, source: DeviceTensor, target: DeviceTensor
) -> Convolution:
    """Raises LoweringError if the input's layout does not match the weights' columns."""
    options = node.options_as(FullyConnectedOptions)
    assert options is not None
    weights = graph.tensor(node.inputs[1])
    output = graph.tensor(node.outputs[0])
    assert weights.quantization is not None
    assert output.quantization is not None
    outputs, columns = weights.shape
    view = source.view
    if columns == view.channels:
        kernel = (1, 1)
        output_view = View(view.images, view.height, view.width, outputs)
    elif columns == view.pixels * view.channels:
        kernel = (view.height, view.width)
        output_view = View(view.images, 1, 1, outputs)
    else:
        raise LoweringError(
            node.index,
            "rows_match_pixels",
            f"weights of {columns} columns read neither single pixels ({view.channels} channels) "
            f"nor whole images ({view.height} x {view.width} x {view.channels}); reshape the "
            "input before",
        )
    device = device_weights(graph, node, outputs, (outputs, *kernel, view.channels))
    return Convolution(
        node=node.index,
        name=name,
        op=node.op,
        nodes=(node.index,),
        weights=device.values,
        weight_zero_point=device.zero_point,
        bias=device.bias,
        multipliers=real_multipliers(graph.tensor(node.inputs[0]), weights, output, outputs),
        per_channel=weights.quantization.is_per_channel,
        activation=options.activation,
        output_scale=output.quantization.scale,
        output_zero_point=target.zero_point,
        source=source,
        target=target,
        input_view=view,
        output_view=output_view,
        stride_h=1,
        stride_w=1,
        dilation_h=1,
        dilation_w=1,
        pad_top=0,
        pad_left=0,
        is_depthwise=False,
    )
