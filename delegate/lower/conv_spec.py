"""A convolution as resolved integers, what dense, depthwise and fully connected nodes become, its
geometry as the tiler works on it, and what TensorFlow Lite computes of its sums.

Channels that give one result for every input, as biases without weights.

A quantiser gives a channel whose weights vanish a tiny scale, and its bias then saturates at the
ends of int32. TensorFlow Lite's sum wraps there, but neither end is worth a step.

Training and converters leave channels whose scale is a millionth of the others'. Where one
multiplier of 15 bits per channel has to tell all of them, with a shift that they share, such a
channel would have no bits left; its result, which no input changes, needs none of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import Element, align
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import INT32_MAX, INT32_MIN, Int64Array
from delegate.lower.numerics.requantize import leaves_int32, target_of
from delegate.lower.numerics.tflite import (
    AccumulatorBounds,
    Target,
    TermSums,
    accumulator_bounds,
    term_sums,
    wraps,
)
from delegate.lower.task import Pair, TaskKind
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.weights import stored_lanes
from delegate.model.cached import cached_property
from delegate.model.graph import Activation


@dataclass(frozen=True, eq=False)
class Convolution:
    """One convolution, resolved. ``weights``: int8 OHWI (dense) or HWC (depthwise), zero point not
    taken off. ``element`` FP16: float16 weights and a float32 bias, and all that speaks of
    quantisation has no meaning.

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

    @cached_property
    def geometry(self) -> ConvGeometry:
        """Return the geometry that the tiler works on. Kernels of fp16 fill their last surface, as
        its padding is read: 0 times what is there must not be NaN.
        """
        view, out = self.input_view, self.output_view
        kh, kw = self.kernel
        steps = zip(self.strides, self.dilations, self.padding, (0, 0), self.spread, strict=True)
        sizes = (view.height, out.height, kh), (view.width, out.width, kw)
        rows, columns = (Axis(*size, *step) for size, step in zip(sizes, steps, strict=True))
        channels = kernels = programmed_channels(self)
        if self.element is Element.FP16 and not self.is_depthwise:
            kernels = align(out.channels, self.element.lanes)
            channels = stored_lanes(channels, self.chip.groups.input_lanes)
        elif not self.is_depthwise:
            kernels = align(out.channels, self.chip.groups.kernel_unit)
        return ConvGeometry(
            *(rows, columns, channels, kernels, out.channels),
            self.is_depthwise,
            self.element.bytes,
            images=view.images,
            real_channels=view.channels,
            chip=self.chip,
            node=self.node,
        )

    @cached_property
    def sums(self) -> TermSums:
        """Return the sums of each output channel's weights."""
        weights = self.weights
        if self.is_depthwise:
            return term_sums(weights.reshape(-1, weights.shape[-1]).T, self.weight_zero_point)
        return term_sums(weights.reshape(len(weights), -1), self.weight_zero_point)

    @cached_property
    def wanted(self) -> Target:
        """Return the specification: what TensorFlow Lite computes."""
        bounds = accumulator_bounds(self.sums, self.bias, self.source.zero_point)
        return target_within(self, bounds)


def programmed_channels(conv: Convolution) -> int:
    """Input channels a task is programmed with: whole surfaces."""
    channels = conv.input_view.channels
    if conv.is_depthwise or conv.chip.groups.fills_inputs:
        size = conv.element.bytes
        return conv.chip.groups.depthwise_lanes(channels * size) // size
    return align(channels, conv.element.lanes)


def operand_channels(conv: Convolution) -> int:
    """Channels that operands of the stages are packed for: parts of the kernels may end a surface
    after the cube of all of them.
    """
    return align(conv.output_view.channels, conv.geometry.group) + conv.element.lanes


def target_within(conv: Convolution, bounds: AccumulatorBounds) -> Target:
    """Return the specification of ``conv``, whose sums lie between ``bounds``."""
    return target_of(
        *(conv.ratios, bounds, conv.output_scale, conv.output_zero_point, conv.activation),
        rounds_once=conv.rounds_once,
    )


_LEAST_RATIO: Final = 2.0**-22
"""The least ratio of scales with which the bias of any result fits int32."""
_LARGEST_RATIO: Final = 0.5
"""Up to which the nearest bias gives the very result: it is a quarter of a step off at most."""


_MOST_PRODUCT: Final = 255 * 255
"""The largest product of two numbers of 8 bits without their zero points."""


def with_settled_channels(conv: Convolution) -> Convolution:
    """``conv``, of int8 per channel, with the channels as biases in which TensorFlow Lite's int32
    may wrap, but that give one result for every number of int32.
    """
    terms = conv.weights.size // max(conv.bias.size, 1)
    is_far = np.abs(conv.bias).max(initial=0) + terms * _MOST_PRODUCT > INT32_MAX
    if not is_far:
        return conv
    target = conv.wanted
    over = wraps(target.low, target.exponent) | wraps(target.high, target.exponent)
    least, most = (
        np.clip(target.results(np.full_like(conv.bias, end)) + target.zero_point, *target.outputs)
        - target.zero_point
        for end in (INT32_MIN, INT32_MAX)
    )
    # Kernels shift left before they multiply, and wrap there.
    settled = over & (target.exponent <= 0) & (least == most)
    return with_results(conv, settled, least) if settled.any() else conv


def with_constant_channels(conv: Convolution) -> Convolution:
    """``conv``, of int8 per channel, with its constant channels as biases of the largest scale that
    others have; channels where TensorFlow Lite's int32 could wrap stay as they are.
    """
    target = conv.wanted
    low, high, zero_point = target.low, target.high, target.zero_point
    least, most = (
        np.clip(target.results(end) + zero_point, *target.outputs) - zero_point
        for end in (low, high)
    )
    constant = (least == most) & ~leaves_int32(target)
    return with_results(conv, constant, least) if constant.any() else conv


def with_results(
    conv: Convolution, channels: npt.NDArray[np.bool_], results: Int64Array
) -> Convolution:
    """``conv``, per channel, whose ``channels`` give ``results``, from the zero point, for every
    input.
    """
    ratio = float(conv.ratios[~channels].max(initial=_LEAST_RATIO))
    ratio = min(ratio, _LARGEST_RATIO)
    weights, bias, ratios = conv.weights.copy(), conv.bias.copy(), conv.ratios.copy()
    weights[(..., channels) if conv.is_depthwise else channels] = conv.weight_zero_point
    bias[channels] = np.rint(results[channels] / ratio).astype(np.int64)
    ratios[channels] = ratio
    return replace(conv, weights=weights, bias=bias, ratios=ratios)
