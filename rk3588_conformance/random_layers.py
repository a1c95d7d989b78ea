"""Layers with the numbers of Teflon's test models, and quantisation that makes outputs spread.

Weights are uniform over 0..254 (int8: -127..127), biases over -20000..19999, inputs over 0..254
(int8: -128..126). The rule for the rest:

- Zero points: in one case of four uniform over all values, else within 40 of the middle; int8
  weights have 0, as TensorFlow Lite demands.
- Scales: input and output log-uniform in 0.004..0.06. The weights' scale follows: the accumulator's
  mean and deviation are computed from the actual weights, biases and zero points, and the span of
  mean +- 2.5 deviations, together with the real zero, fills the output's 256 values. So multipliers
  are what such weights give, 1e-5 to 1.
- Per channel: the scales spread by a factor of 8 around that.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization
from rk3588_conformance.builder.layers import CHANNEL_SPREAD, Arithmetic
from rk3588_conformance.builder.ranges import LIMITS, one_scale, uniform_moments
from rk3588_conformance.builder.sparse import Tree
from rk3588_conformance.builder.table_writer import TensorSpec

LEVELS = 255  # values 0..254
BIAS_LOW, BIAS_HIGH = -20000, 20000
SCALES = (0.004, 0.06)
COVERED_DEVIATIONS = 2.5
DENSITY = 0.3
"""The density of sparse weights."""
_NEAR_MIDDLE = 40
_ANYWHERE_SHARE = 0.25


def draw_zero_point(rng: np.random.Generator, dtype: DType) -> int:
    """A zero point by the rule above."""
    low, high = LIMITS[dtype]
    middle = (low + high + 1) // 2
    if rng.random() < _ANYWHERE_SHARE:
        return int(rng.integers(low, high + 1))
    return int(rng.integers(middle - _NEAR_MIDDLE, middle + _NEAR_MIDDLE + 1))


def draw_quantization(rng: np.random.Generator, dtype: DType) -> Quantization:
    """A scale and a zero point for a feature map, by the rule above."""
    scale = float(np.exp(rng.uniform(*np.log(SCALES))))
    return one_scale(scale, draw_zero_point(rng, dtype))


def _draw_weights(
    rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]
) -> npt.NDArray[np.generic]:
    if dtype is DType.UINT8:
        return rng.integers(0, LEVELS, shape, dtype=np.uint8)
    return rng.integers(-(LEVELS // 2), LEVELS // 2 + 1, shape, dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of a layer; None means drawn by the rule above.

    ``bias``: None drawn, False absent, else the value of all channels. ``output``: the output's
    quantisation. ``tree``: int8 weights are sparse, a third of them there.
    """

    per_channel: bool = False
    activation: Activation = Activation.NONE
    bias: int | bool | None = None
    output: Quantization | None = None
    weight_zero_point: int | None = None
    tree: Tree | None = None

    def drawn(
        self, rng: np.random.Generator, x: TensorSpec, shape: tuple[int, ...], axis: int
    ) -> Arithmetic:
        """Return numbers by the rule above, but for what is given. Raises ValueError for an input
        of reals.
        """
        if x.quantization is None:
            raise ValueError("a quantised layer needs a quantised input")
        weights = _draw_weights(rng, x.dtype, shape)
        if self.tree is not None:
            weights = weights * self.tree.mask(rng, shape, DENSITY)
        zero_point = self.weight_zero_point
        if zero_point is None:
            zero_point = 0 if x.dtype is DType.INT8 else draw_zero_point(rng, x.dtype)
        channels = shape[axis]
        rows = np.moveaxis(weights.astype(np.float64), axis, 0).reshape(channels, -1) - zero_point
        bias = rng.integers(BIAS_LOW, BIAS_HIGH, channels, dtype=np.int32)
        if self.bias is not None:
            bias = np.full(channels, int(self.bias), np.int32)

        x_mean, x_deviation = uniform_moments(x.dtype, x.quantization.zero_point)
        spread = np.ones(channels)
        if self.per_channel:
            half = math.log(CHANNEL_SPREAD) / 2
            spread = np.exp(rng.uniform(-half, half, channels))
        # Larger ones are meant to clip.
        used_bias = np.where(np.abs(bias.astype(np.int64)) < 1 << 24, bias, 0)
        means = (rows.sum(axis=1) * x_mean + used_bias) * spread
        variances = (rows**2).sum(axis=1) * x_deviation**2 * spread**2
        mean = float(means.mean())
        reach = COVERED_DEVIATIONS * math.sqrt(float(variances.mean() + means.var()))
        low, high = min(mean - reach, 0.0), max(mean + reach, 0.0)

        limits = LIMITS[x.dtype]
        output = self.output
        scale = output.scale if output is not None else draw_quantization(rng, x.dtype).scale
        span = max(high - low, 1.0)
        base = scale * (limits[1] - limits[0]) / (span * x.quantization.scale)
        output_zero_point = int(np.clip(round(limits[0] - low * 255 / span), *limits))
        if output is not None:
            output_zero_point = output.zero_point
        return Arithmetic(
            activation=self.activation,
            per_channel=self.per_channel,
            weights=weights,
            weight_scales=tuple((base * spread[: channels if self.per_channel else 1]).tolist()),
            weight_zero_point=zero_point,
            bias=bias,
            has_bias=self.bias is not False,
            output_scale=scale,
            output_zero_point=output_zero_point,
            tree=self.tree,
        )


TEFLON_NUMBERS = Numbers()
