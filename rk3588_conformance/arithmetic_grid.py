"""Numbers beyond Teflon's grid: activations, zero points, multipliers, biases of convolutions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.grid import TYPES, Values, layer_grid
from rk3588_conformance.random_layers import Numbers

IntArray = npt.NDArray[Any]
_LEVELS = (0, 1, 77, 127, 128, 254, 255)
_INT32 = np.iinfo(np.int32)
_OPERATORS = ("conv", "depthwise")
_CHANNELS = 18


def _layer(net: Net, v: Values, numbers: Numbers) -> int:
    window = Window(3, 3, 1, 2)
    if v.operator == "conv":
        return net.conv(net.x, 21, window, numbers)
    return net.depthwise(net.x, window, numbers)


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
def _activations(net: Net, v: Values) -> int:
    """Every clamp with every kind of zero point; at scale 0.013 the range ends before 6."""
    real_scale = {"narrow": 0.013, "wide": 0.047}[v.scale]
    output = one_scale(real_scale, v.zero_point + LIMITS[v.dtype][0])
    return _layer(net, v, replace(v.layer_numbers, activation=v.clamp, output=output))


@layer_grid(
    "ZeroPoints.Op/",
    input_quantization=lambda _, v: one_scale(0.02, v.input),
    size="8x11",
    channels=_CHANNELS,
    type="uint8",
    operator=_OPERATORS,
    input=_LEVELS,
    weights=_LEVELS,
)
def _zero_points(net: Net, v: Values) -> int:
    """uint8 with zero points at the ends; padding must be the input's zero point."""
    return _layer(net, v, Numbers(weight_zero_point=v.weights))


def _extreme_arithmetic(net: Net, v: Values, multiplier: float, ratio: float) -> Arithmetic:
    """Weights so small that multipliers near and above one leave the output its range.

    The input has scale 0.02 and the output 0.05; ``multiplier`` is that of the largest channel,
    ``ratio`` the largest over the smallest.
    """
    reach, rng, channels = 2 if multiplier > 0.01 else 127, net.rng, v.outputs
    zero_point = 0 if v.dtype is DType.INT8 else 128
    values = rng.integers(-reach, reach + 1, (channels, 1, 1, v.inputs)) + zero_point
    spread = np.ones(1)
    if v.is_per_channel:
        spread = np.exp(-rng.uniform(0, np.log(ratio), channels))
        spread[0], spread[-1] = 1.0, 1 / ratio
    base = multiplier * 0.05 / 0.02
    return Arithmetic(
        weights=values.astype(v.dtype.element.dtype),
        weight_zero_point=zero_point,
        per_channel=v.is_per_channel,
        weight_scales=tuple(float(base * s) for s in spread),
        bias=rng.integers(-50, 51, channels).astype(np.int32),
        output_scale=0.05,
        output_zero_point=LIMITS[v.dtype][0] + int(rng.integers(100, 156)),
    )


_VALUES = {
    "1e_11": 1e-11, "1e_9": 1e-9, "1e_6": 1e-6, "1e_4": 1e-4, "0_004": 0.004, "0_03": 0.03,
    "0_25": 0.25, "0_5": 0.5, "0_9999": 0.9999, "1": 1.0, "1_5": 1.5, "2": 2.0, "7_3": 7.3,
    "100": 100.0,
}  # fmt: skip

_RATIOS = {"1": 1.0, "50": 50.0, "1e4": 1e4, "7e8": 7e8}


@layer_grid(
    "Multipliers.Op/",
    input_quantization=lambda _, v: one_scale(0.02, LIMITS[v.dtype][0] + 120),
    input_shape=lambda v: (1, 7, 9, v.inputs),
    is_in=lambda v: v.is_per_channel or v.ratio == "1",
    outputs=13,
    multiplier=tuple(_VALUES),
    ratio=tuple(_RATIOS),
    inputs=(1, 24),
    type=TYPES,
)
def _multipliers(net: Net, v: Values) -> int:
    """Return multipliers from 1e-11 to 100, and channels that differ by up to 7e8."""
    arithmetic = _extreme_arithmetic(net, v, _VALUES[str(v.multiplier)], _RATIOS[v.ratio])
    return net.conv(net.x, v.outputs, Window(), arithmetic)


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
    input_quantization=lambda _, v: one_scale(0.02, LIMITS[v.dtype][0] + 131),
    is_in=lambda v: v.operator == "depthwise" or v.bias != "absent",
    size="6x7",
    channels=_CHANNELS,
    operator=_OPERATORS,
    bias=tuple(_BIASES),
    activation=("NONE", "RELU", "RELU6"),
    type=TYPES,
)
def _biases(net: Net, v: Values) -> int:
    """Absent, zero, and near the ends of int32; dead channels (weights all zero) at the very end,
    as pruned models have them. TensorFlow Lite's CONV_2D does not exist without a bias.
    """
    kind, is_dense, rng = _BIASES[v.bias], v.operator == "conv", net.rng
    zero_point = 0 if v.dtype is DType.INT8 else 119
    weights = rng.integers(-100, 101, (_CHANNELS if is_dense else 1, 3, 3, _CHANNELS)) + zero_point
    values = kind.change(rng, rng.integers(-20000, 20000, _CHANNELS).astype(np.int32))
    if kind.of_dead is not None:
        dead = np.arange(0, _CHANNELS, 5)
        weights[dead if is_dense else (..., dead)] = zero_point
        values[dead] = kind.of_dead
    arithmetic = Arithmetic(
        activation=v.clamp,
        per_channel=v.is_per_channel,
        weights=weights.astype(v.dtype.element.dtype),
        weight_zero_point=zero_point,
        bias=values,
        has_bias=kind.is_there,
        output_scale=0.03,
    )
    if is_dense:
        return net.conv(net.x, _CHANNELS, v.kernel_window, arithmetic)
    return net.depthwise(net.x, v.kernel_window, arithmetic)
