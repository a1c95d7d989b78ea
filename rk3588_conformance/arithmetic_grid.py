"""Numbers beyond Teflon's grid: activations, zero points, multipliers, biases of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import Arithmetic, conv, depthwise
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import TYPES, dtype_of, is_per_channel, layer_grid, window_of
from rk3588_conformance.random_layers import Numbers
from rk3588_conformance.tolerance import NONE

IntArray = npt.NDArray[Any]
_LEVELS = (0, 1, 77, 127, 128, 254, 255)
_INT32 = np.iinfo(np.int32)
_OPERATORS = ("conv", "depthwise")
_CHANNELS = 18


def _layer(
    operator: str, builder: ModelBuilder, rng: np.random.Generator, x: int, numbers: Numbers
) -> int:
    if operator == "conv":
        return conv(builder, rng, x, 21, window_of("3x3", "1x2"), numbers)
    return depthwise(builder, rng, x, window_of("3x3", "1x2"), numbers)


@layer_grid(
    "Activations.Op/",
    size="9x14",
    channels=_CHANNELS,
    operator=_OPERATORS,
    activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    zero_point=_LEVELS,
    scale=("narrow", "wide"),
    type=TYPES,
)
def _activations(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, operator: str, activation: str,
    zero_point: int, scale: str, type: str, **_: Value,
) -> int:  # fmt: skip
    """Every clamp with every kind of zero point; at scale 0.013 the range ends before 6."""
    real_scale = {"narrow": 0.013, "wide": 0.047}[scale]
    numbers = Numbers(
        per_channel=is_per_channel(type),
        activation=Activation[activation],
        output=one_scale(real_scale, zero_point + LIMITS[dtype_of(type)][0]),
    )
    return _layer(operator, builder, rng, x, numbers)


@layer_grid(
    "ZeroPoints.Op/",
    differing=NONE,
    input_quantization=lambda rng, dtype, input, **_: one_scale(0.02, input),
    size="8x11",
    channels=_CHANNELS,
    type="uint8",
    operator=_OPERATORS,
    input=_LEVELS,
    weights=_LEVELS,
)
def _zero_points(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, operator: str, weights: int,
    **_: Value,
) -> int:  # fmt: skip
    """uint8 with zero points at the ends; padding must be the input's zero point."""
    return _layer(operator, builder, rng, x, Numbers(weight_zero_point=weights))


def _extreme_arithmetic(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], multiplier: float, ratio: float
) -> Arithmetic:
    """Weights so small that multipliers near and above one leave the output its range.

    The input has scale 0.02 and the output 0.05; ``multiplier`` is that of the largest channel,
    ``ratio`` the largest over the smallest.
    """
    dtype = dtype_of(kind)
    reach = 2 if multiplier > 0.01 else 127
    zero_point = 0 if dtype is DType.INT8 else 128
    values = rng.integers(-reach, reach + 1, shape) + zero_point
    channels = shape[0]
    spread = np.ones(1)
    if is_per_channel(kind):
        spread = np.exp(-rng.uniform(0, np.log(ratio), channels))
        spread[0], spread[-1] = 1.0, 1 / ratio
    base = multiplier * 0.05 / 0.02
    return Arithmetic(
        weights=values.astype(dtype.element.dtype),
        weight_zero_point=zero_point,
        per_channel=is_per_channel(kind),
        weight_scales=tuple(float(base * s) for s in spread),
        bias=rng.integers(-50, 51, channels).astype(np.int32),
        output_scale=0.05,
        output_zero_point=LIMITS[dtype][0] + int(rng.integers(100, 156)),
    )


_VALUES = {
    "1e_11": 1e-11, "1e_9": 1e-9, "1e_6": 1e-6, "1e_4": 1e-4, "0_004": 0.004, "0_03": 0.03,
    "0_25": 0.25, "0_5": 0.5, "0_9999": 0.9999, "1": 1.0, "1_5": 1.5, "2": 2.0, "7_3": 7.3,
    "100": 100.0,
}  # fmt: skip

_RATIOS = {"1": 1.0, "50": 50.0, "1e4": 1e4, "7e8": 7e8}


@layer_grid(
    "Multipliers.Op/",
    input_quantization=lambda rng, dtype, **_: one_scale(0.02, LIMITS[dtype][0] + 120),
    input_shape=lambda inputs, **_: (1, 7, 9, inputs),
    is_in=lambda ratio, type, **_: is_per_channel(type) or ratio == "1",
    multiplier=tuple(_VALUES),
    ratio=tuple(_RATIOS),
    inputs=(1, 24),
    type=TYPES,
)
def _multipliers(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, multiplier: str, ratio: str,
    inputs: int, type: str,
) -> int:  # fmt: skip
    """Return multipliers from 1e-11 to 100, and channels that differ by up to 7e8."""
    arithmetic = _extreme_arithmetic(
        rng, type, (13, 1, 1, inputs), _VALUES[multiplier], _RATIOS[ratio]
    )
    return layers.conv(builder, rng, x, 13, layers.Window(), arithmetic=arithmetic)


def _near_ends(rng: np.random.Generator, bias: IntArray) -> IntArray:
    """Half of the channels near the ends of int32, as far as 2^24 products allow."""
    room = 1 << 24
    ends = rng.choice([_INT32.max - room, _INT32.min + room], bias.shape)
    return np.where(rng.random(bias.shape) < 0.5, ends, bias).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Bias:
    """``change``: of the drawn values. ``of_dead``: that of channels whose weights are all zero;
    None: there are no such channels.
    """

    is_there: bool = True
    change: Callable[[np.random.Generator, IntArray], IntArray] = lambda _, bias: bias
    of_dead: int | None = None


_BIASES = {
    "absent": _Bias(is_there=False),
    "zero": _Bias(change=lambda _, bias: np.zeros_like(bias)),
    "drawn": _Bias(),
    "near_ends": _Bias(change=_near_ends),
    "max_of_dead_channels": _Bias(of_dead=_INT32.max),
    "min_of_dead_channels": _Bias(of_dead=_INT32.min),
}


@layer_grid(
    "Biases.Op/",
    input_quantization=lambda rng, dtype, **_: one_scale(0.02, LIMITS[dtype][0] + 131),
    is_in=lambda operator, bias, **_: operator == "depthwise" or bias != "absent",
    size="6x7",
    channels=_CHANNELS,
    operator=_OPERATORS,
    bias=tuple(_BIASES),
    activation=("NONE", "RELU", "RELU6"),
    type=TYPES,
)
def _biases(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, operator: str, bias: str,
    activation: str, type: str, **_: Value,
) -> int:  # fmt: skip
    """Absent, zero, and near the ends of int32; dead channels (weights all zero) at the very end,
    as pruned models have them. TensorFlow Lite's CONV_2D does not exist without a bias.
    """
    kind, is_dense, dtype = _BIASES[bias], operator == "conv", dtype_of(type)
    zero_point = 0 if dtype is DType.INT8 else 119
    weights = rng.integers(-100, 101, (_CHANNELS if is_dense else 1, 3, 3, _CHANNELS)) + zero_point
    values = kind.change(rng, rng.integers(-20000, 20000, _CHANNELS).astype(np.int32))
    if kind.of_dead is not None:
        dead = np.arange(0, _CHANNELS, 5)
        weights[dead if is_dense else (..., dead)] = zero_point
        values[dead] = kind.of_dead
    arithmetic = Arithmetic(
        activation=Activation[activation],
        per_channel=is_per_channel(type),
        weights=weights.astype(dtype.element.dtype),
        weight_zero_point=zero_point,
        bias=values,
        has_bias=kind.is_there,
        output_scale=0.03,
    )
    window = layers.Window(3, 3)
    if is_dense:
        return layers.conv(builder, rng, x, _CHANNELS, window, arithmetic=arithmetic)
    return layers.depthwise(builder, rng, x, window, arithmetic=arithmetic)


FAMILIES: tuple[Family, ...] = (_activations, _zero_points, _multipliers, _biases)
