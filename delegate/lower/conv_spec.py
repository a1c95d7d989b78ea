"""A convolution as resolved integers, what dense, depthwise and fully connected nodes become, and
its geometry as the tiler works on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import Element, align
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.task import Pair, TaskKind
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.weights import depthwise_channels, padded_kernels, stored_lanes
from delegate.model.graph import Activation


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """One convolution, resolved. ``weights``: int8 OHWI (dense) or HWC (depthwise), zero point not
    taken off. ``element`` FP16: float16 weights and a float32 bias, and all that speaks of
    quantisation has no meaning; the sums are multiplied by two ``factors``, which are fp16 too.

    ``ratios``: real sx * sw_c / sy, one per output channel; ``rounds_once``: the kernel takes them
    as they are, see ``Graph``. ``input_view``/``output_view`` say how the convolution looks at its
    tensors: the tensors' own views, or a fully connected reading of the same bytes. ``strides`` to
    ``spread`` are of rows and of columns: ``padding`` above and on the left, ``spread`` the
    rows and columns that an input pixel takes, of which the others hold its zero point (a
    transposed convolution). ``parts``: those of an image that lie side by side as channels in
    ``input_view`` and ``output_view``, see ``image_parts``; ``are_rows``: rows of pairs, not
    sections.
    """

    chip: Chip
    node: int
    weights: npt.NDArray[Any]
    weight_zero_point: int
    bias: npt.NDArray[Any]
    ratios: npt.NDArray[np.float64]
    per_channel: bool
    activation: Activation
    output_scale: float
    output_zero_point: int
    source: DeviceTensor
    target: DeviceTensor
    input_view: View
    output_view: View
    is_depthwise: bool
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    padding: Pair = (0, 0)
    rounds_once: bool = False
    spread: Pair = (1, 1)
    element: Element = Element.INT8
    factors: tuple[float, float] = (1.0, 1.0)
    parts: Pair = (1, 1)
    are_rows: bool = False

    @property
    def kind(self) -> TaskKind:
        """Return the kind of its tasks in evidence."""
        if self.spread == (1, 1):
            return TaskKind.DEPTHWISE if self.is_depthwise else TaskKind.DENSE
        return TaskKind.SPREAD if self.is_depthwise else TaskKind.SPREAD_DENSE

    @property
    def kernel(self) -> Pair:
        """Rows and columns of the kernel."""
        kh, kw = self.weights.shape[:2] if self.is_depthwise else self.weights.shape[1:3]
        return kh, kw


def group_of(conv: Convolution) -> int:
    """Output channels that are written together."""
    return conv.chip.groups.outputs(conv.is_depthwise) // conv.element.bytes


def programmed_channels(conv: Convolution) -> int:
    """Input channels a task is programmed with: whole surfaces."""
    channels = conv.input_view.channels
    if conv.is_depthwise or conv.chip.groups.fills_inputs:
        size = conv.element.bytes
        return depthwise_channels(channels * size, conv.chip.groups) // size
    return align(channels, conv.element.lanes)


def programmed_kernels(conv: Convolution) -> int:
    """Kernels that a dense convolution is programmed with. Those of fp16 fill their last surface,
    as its padding is read: 0 times what is there must not be NaN.
    """
    outputs = conv.output_view.channels
    if conv.element is Element.FP16:
        return align(outputs, conv.element.lanes)
    return padded_kernels(outputs, conv.chip.groups)


def geometry_of(conv: Convolution) -> ConvGeometry:
    """Return the geometry of ``conv`` that the tiler works on."""
    view, out = conv.input_view, conv.output_view
    kh, kw = conv.kernel
    steps = zip(conv.strides, conv.dilations, conv.padding, (0, 0), conv.spread, strict=True)
    sizes = (view.height, out.height, kh), (view.width, out.width, kw)
    rows, columns = (Axis(*size, *step) for size, step in zip(sizes, steps, strict=True))
    channels = programmed_channels(conv)
    kernels = channels if conv.is_depthwise else programmed_kernels(conv)
    if conv.element is Element.FP16 and not conv.is_depthwise:
        channels = stored_lanes(channels, conv.chip.groups.input_lanes)
    return ConvGeometry(
        rows,
        columns,
        channels,
        kernels,
        out.channels,
        conv.is_depthwise,
        conv.element.bytes,
        images=view.images,
        real_channels=view.channels,
        chip=conv.chip,
        node=conv.node,
    )
