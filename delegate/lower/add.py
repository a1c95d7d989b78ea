"""ADD as a task of its own: the DPU alone ("flying"), one operand through MRDMA and BS, the
other through ERDMA.
"""

from __future__ import annotations

from delegate.errors import LoweringError
from delegate.graph import Activation, AddOptions, Graph, Node
from delegate.lower.add_scales import choose_add_scales, sum_clamp
from delegate.lower.hw import CHANNELS_PER_SURFACE, DENSE_KERNEL_GROUP, MAX_CUBE_SIZE, align
from delegate.lower.task import (
    BsStage,
    ElementwiseTask,
    EwStage,
    Layer,
    OutConvert,
    OutputCube,
    Source,
)
from delegate.lower.tensors import DeviceTensor, check_cube


def lower_add(
    graph: Graph, node: Node, first: DeviceTensor, second: DeviceTensor, target: DeviceTensor
) -> Layer:
    """One task per image; operands and result have the same shape. Raises LoweringError."""
    assert isinstance(node.options, AddOptions)
    view = target.view
    check_cube(node.index, view, MAX_CUBE_SIZE, "output")
    # Whole groups of 32 channels, as every tensor inside a partition has them.
    channels = align(view.channels, DENSE_KERNEL_GROUP)
    if channels > MAX_CUBE_SIZE:
        raise LoweringError(
            node.index,
            "output_channels_in_range",
            f"{view.channels} channels; the NPU takes up to {MAX_CUBE_SIZE}",
        )
    if node.options.activation is Activation.RELU_N1_TO_1:
        raise LoweringError(
            node.index,
            "add_activation_supported",
            "an addition with RELU_N1_TO_1 needs a lower clamp that the element-wise task lacks",
        )
    scales = choose_add_scales(node.index, first.scale / target.scale, second.scale / target.scale)
    relu, relux_max = sum_clamp(scales, node.options.activation, target.scale, target.zero_point)
    tasks = []
    for image in range(view.images):
        pixel = image * view.pixels
        tasks.append(
            ElementwiseTask(
                tile=f"rows 0..{view.height - 1}" if view.images == 1 else f"image {image}",
                source=first.pixel(pixel),
                source_surface_stride_bytes=first.surface_stride_bytes,
                output=OutputCube(
                    target=target.pixel(pixel),
                    height=view.height,
                    width=view.width,
                    channels=channels,
                    channels_real=view.channels,
                    surface_stride_bytes=target.surface_stride_bytes,
                    surfaces_per_group=1,
                ),
                bs=BsStage(
                    alu=Source.REGISTER,
                    alu_operand=-first.zero_point,
                    mul=Source.REGISTER,
                    mul_operand=scales.first,
                ),
                ew=EwStage(
                    operand=second.pixel(pixel),
                    surface_stride_bytes=second.surface_stride_bytes,
                    offset=-second.zero_point,
                    scale=scales.second,
                    relu=relu,
                    relux_max=relux_max,
                ),
                out_convert=OutConvert(
                    scale=scales.scale,
                    shift=scales.shift,
                    offset=target.zero_point,
                    ties_away=True,
                ),
            )
        )
    assert channels // CHANNELS_PER_SURFACE <= min(first.surfaces, second.surfaces, target.surfaces)
    return Layer(name=layer_name(graph, node), op=node.op, nodes=(node.index,), tasks=tuple(tasks))


def layer_name(graph: Graph, node: Node) -> str:
    """What errors, traces and dumps call a layer: the node's index, operator and result."""
    return f"{node.index} {node.op} {graph.tensor(node.outputs[0]).name}"
