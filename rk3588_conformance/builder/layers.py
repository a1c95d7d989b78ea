"""Adds one quantised layer with random weights to a ``ModelBuilder``.

Comes from: a builder, a tensor of it and the layer's geometry. Goes to: the index of the layer's
output tensor. All draws come from the builder's generator; scales and zero points follow ``ranges``
unless given. Bias scales are float32(input scale) * float32(weight scale), as TensorFlow Lite
demands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import (
    ADD_COVERED_DEVIATIONS,
    LIMITS,
    REAL_DEVIATION,
    accumulator_deviation,
    float32,
    output_quantization,
    uniform_moments,
)
from rk3588_conformance.builder.reals import Reals
from rk3588_conformance.builder.sparse import Tree, stored
from rk3588_conformance.builder.table_writer import TensorSpec

# Largest over smallest scale of a per-channel layer unless told: what trained networks usually
# show.
CHANNEL_SPREAD = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """The numbers of a layer; None means drawn or derived.

    ``weights``/``bias``: arrays in TFLite's layout, else random; ``has_bias`` False leaves the bias
    out. ``weight_scales``: one or one per channel. ``tree``: weights are sparse, behind DENSIFY.
    """

    activation: Activation = Activation.NONE
    per_channel: bool = False
    weights: npt.NDArray[np.generic] | None = None
    weight_scales: tuple[float, ...] | None = None
    weight_zero_point: int | None = None
    channel_spread: float = CHANNEL_SPREAD
    bias: npt.NDArray[np.generic] | None = None
    has_bias: bool = True
    output_scale: float | None = None
    output_zero_point: int | None = None
    tree: Tree | None = None

    def drawn(
        self, _rng: np.random.Generator, _x: TensorSpec, _shape: Sequence[int], _axis: int
    ) -> Arithmetic:
        return self


class Numbers(Protocol):
    """Says what a layer's numbers shall be once its input and its filter's shape are known, with
    the outputs along ``axis``.
    """

    @property
    def activation(self) -> Activation: ...

    def drawn(
        self, rng: np.random.Generator, x: TensorSpec, shape: tuple[int, ...], axis: int
    ) -> Arithmetic: ...


DEFAULT_ARITHMETIC = Arithmetic()


def output_size(size: int, kernel: int, stride: int, dilation: int, padding: Padding) -> int:
    """Rows or columns a convolution produces. Raises ValueError if there is none."""
    reach = (kernel - 1) * dilation + 1
    rows = -(-size // stride) if padding is Padding.SAME else -(-(size - reach + 1) // stride)
    if rows < 1:
        raise ValueError(f"size {size} leaves no output for a kernel that reaches {reach}")
    return rows


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, strides, dilations and padding of a convolution, height before width.

    ``declared_size``: height and width that the file shall claim for the output, right or not.
    """

    kh: int = 1
    kw: int = 1
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    padding: Padding = Padding.SAME
    declared_size: tuple[int, int] | None = None

    def output_size(self, h: int, w: int) -> tuple[int, int]:
        """Height and width of what a convolution of h x w produces. Raises ValueError."""
        return self.declared_size or (
            output_size(h, self.kh, self.sh, self.dh, self.padding),
            output_size(w, self.kw, self.sw, self.dw, self.padding),
        )

    @property
    def option_values(self) -> tuple[Padding, int, int, int, int]:
        """Padding, strides and dilations, in the order of the operators' options."""
        return self.padding, self.sh, self.sw, self.dh, self.dw


@dataclass(frozen=True, slots=True)
class Weighted:
    """An operator on an input of the shape ``given``, with a filter of the shape ``kernels``, whose
    ``axis`` is that of the outputs.
    """

    op: str
    options: Options
    given: tuple[int, ...]
    kernels: tuple[int, ...]
    axis: int
    result: tuple[int, ...]

    @property
    def outputs(self) -> int:
        """Channels of the result."""
        return self.kernels[self.axis]

    @property
    def name(self) -> str:
        return self.op.lower().removesuffix("_2d").removesuffix("_conv")


def conv_layer(
    given: tuple[int, ...],
    oc: int,
    window: Window,
    activation: Activation = Activation.NONE,
    groups: int = 1,
) -> Weighted:
    """CONV_2D: filter OHWI [oc, kh, kw, c / groups], per-channel along axis 0."""
    n, h, w, c = given
    kernels, result = (oc, window.kh, window.kw, c // groups), (n, *window.output_size(h, w), oc)
    options = ConvOptions(*window.option_values, activation)
    return Weighted("CONV_2D", options, given, kernels, 0, result)


def depthwise_layer(
    given: tuple[int, ...],
    window: Window,
    activation: Activation = Activation.NONE,
    multiplier: int = 1,
) -> Weighted:
    """DEPTHWISE_CONV_2D: filter 1HWO [1, kh, kw, c * multiplier], per-channel along axis 3."""
    n, h, w, c = given
    oc = c * multiplier
    kernels, result = (1, window.kh, window.kw, oc), (n, *window.output_size(h, w), oc)
    options = DepthwiseOptions(*window.option_values, activation, multiplier)
    return Weighted("DEPTHWISE_CONV_2D", options, given, kernels, 3, result)


def dense_layer(
    given: tuple[int, ...],
    outputs: int,
    activation: Activation = Activation.NONE,
    *,
    inputs: int | None = None,
    keep_num_dims: bool = False,
) -> Weighted:
    """FULLY_CONNECTED: filter [outputs, inputs]; ``inputs`` defaults to the last dimension."""
    k = inputs if inputs is not None else given[-1]
    lead = given[:-1] if keep_num_dims else (math.prod(given) // k,)
    options = FullyConnectedOptions(activation, keep_num_dims)
    return Weighted("FULLY_CONNECTED", options, given, (outputs, k), 0, (*lead, outputs))


def conv(
    builder: ModelBuilder,
    x: int,
    oc: int,
    window: Window,
    arithmetic: Numbers | Reals = DEFAULT_ARITHMETIC,
    *,
    groups: int = 1,
    name: str = "",
) -> int:
    layer = conv_layer(builder.spec(x).shape, oc, window, arithmetic.activation, groups)
    return weighted(builder, x, layer, arithmetic, name)


def depthwise(
    builder: ModelBuilder,
    x: int,
    window: Window,
    arithmetic: Numbers | Reals = DEFAULT_ARITHMETIC,
    *,
    multiplier: int = 1,
    name: str = "",
) -> int:
    layer = depthwise_layer(builder.spec(x).shape, window, arithmetic.activation, multiplier)
    return weighted(builder, x, layer, arithmetic, name)


def fully_connected(
    builder: ModelBuilder,
    x: int,
    outputs: int,
    arithmetic: Numbers | Reals = DEFAULT_ARITHMETIC,
    *,
    name: str = "",
    **how: Any,
) -> int:
    """``how``: of ``dense_layer``."""
    layer = dense_layer(builder.spec(x).shape, outputs, arithmetic.activation, **how)
    return weighted(builder, x, layer, arithmetic, name)


def add(
    builder: ModelBuilder,
    a: int,
    b: int,
    *,
    activation: Activation = Activation.NONE,
    output_scale: float | None = None,
    output_zero_point: int | None = None,
    name: str = "add",
) -> int:
    """ADD of two quantised tensors, broadcast by NumPy's rule. ``a`` may be ``b``."""
    specs = (builder.spec(a), builder.spec(b))
    mean = variance = 0.0
    for spec, given in zip(specs, map(builder.scaling, (a, b)), strict=True):
        q_mean, q_std = uniform_moments(spec.dtype, given.zero_point)
        mean += q_mean * given.scale
        variance += (q_std * given.scale) ** 2 * (2.0 if a == b else 1.0)
    quantization = output_quantization(
        specs[0].dtype, variance**0.5, activation, mean=mean, covered=ADD_COVERED_DEVIATIONS,
        scale=output_scale, zero_point=output_zero_point,
    )  # fmt: skip
    shape = np.broadcast_shapes(specs[0].shape, specs[1].shape)
    version = 2 if specs[0].dtype is DType.INT8 else 1
    table = AddOptions(activation)
    return builder.result("ADD", (a, b), name, shape, quantization, options=table, version=version)


def weighted(
    builder: ModelBuilder,
    x: int,
    layer: Weighted,
    numbers: Numbers | Reals,
    name: str = "",
) -> int:
    """``layer`` of ``x``, whose shape is the one that it is given."""
    spec, rng = builder.spec(x), builder.rng
    name = name or layer.name
    if isinstance(numbers, Reals):
        operands = (x, *numbers.operands(builder, layer.kernels, layer.axis))
        return builder.result(layer.op, operands, name, layer.result, options=layer.options)
    kernels, axis, channels = layer.kernels, layer.axis, layer.outputs
    dtype, is_dense = spec.dtype, len(kernels) == 2
    arithmetic = numbers.drawn(rng, spec, kernels, axis)
    input_scale, input_zero_point = builder.scaling(x).scale, builder.scaling(x).zero_point
    weights = arithmetic.weights
    if weights is None:
        # int8 weights are symmetric (-127..127), uint8 ones use 1..255, as the converters do.
        low, high = LIMITS[dtype]
        weights = rng.integers(low + 1, high + 1, kernels, dtype=dtype.element.dtype)
    weight_zero_point = arithmetic.weight_zero_point
    if weight_zero_point is None:
        weight_zero_point = 0 if dtype is DType.INT8 else int(rng.integers(110, 147))

    per_output = np.moveaxis(weights.astype(np.int64), axis, 0).reshape(channels, -1)
    mean, std = uniform_moments(dtype, input_zero_point)
    deviation = accumulator_deviation(per_output - weight_zero_point, mean, std)
    rms = float(np.sqrt(np.mean(deviation**2))) or 1.0

    scales = _weight_scales(rng, arithmetic, channels, input_scale * rms)
    products = (np.float32(input_scale) * np.array(scales, np.float32)).astype(np.float64)
    real_deviation = float(np.sqrt(np.mean((deviation * products) ** 2))) or 1.0
    quantization = output_quantization(
        dtype, real_deviation, arithmetic.activation,
        scale=arithmetic.output_scale, zero_point=arithmetic.output_zero_point,
    )  # fmt: skip

    weight_quantization = Quantization(scales, (weight_zero_point,) * len(scales), axis)
    given = (builder, f"{name}/weights", weights)
    inputs = [x, stored(*given, weight_quantization, tree=arithmetic.tree)]
    if arithmetic.has_bias:
        bias = arithmetic.bias
        if bias is None:
            # About half the accumulator's deviation in each channel.
            drawn = np.round(rng.normal(0.0, 0.5, deviation.shape) * deviation)
            ends = np.iinfo(np.int32)
            bias = np.asarray(np.clip(drawn, ends.min, ends.max), dtype=np.int32)
        bias_quantization = Quantization(tuple(products.tolist()), (0,) * len(scales), 0)
        inputs.append(builder.constant(f"{name}/bias", bias, bias_quantization))
    elif is_dense:  # as the converter does; convolutions have two inputs instead
        inputs.append(-1)
    version = (4 if is_dense else 3) if dtype is DType.INT8 else 1  # the first that knows int8
    how: dict[str, Any] = {"options": layer.options, "version": version}
    return builder.result(layer.op, inputs, name, layer.result, quantization, **how)


def _weight_scales(
    rng: np.random.Generator, arithmetic: Arithmetic, channels: int, real_rms: float
) -> tuple[float, ...]:
    """Scales for which the real output deviates by ``REAL_DEVIATION`` (1 without clamp)."""
    if arithmetic.weight_scales is not None:
        return tuple(float32(s) for s in arithmetic.weight_scales)
    base = REAL_DEVIATION.get(arithmetic.activation, 1.0) / real_rms
    if not arithmetic.per_channel:
        return (float32(base),)
    half = np.log(arithmetic.channel_spread) / 2
    return tuple(float32(base * np.exp(e)) for e in rng.uniform(-half, half, channels))
