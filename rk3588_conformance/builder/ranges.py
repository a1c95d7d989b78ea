"""Quantisation parameters for random layers, derived so that the outputs use their range.

Comes from: the integer weights of a layer and the parameters of its input. Goes to: float32 scales
and zero points for which a random input spreads the output over about 250 of 256 values with a few
saturated at either end. A layer whose output is constant or clipped throughout would hide wrong
arithmetic.
"""

import math

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization

# Standard deviations of the output that the 8-bit range covers to each side of zero: leaves about 1
# % saturated.
COVERED_DEVIATIONS = 2.5

# The same for the sum of two uniform operands, which never reaches 2.5.
ADD_COVERED_DEVIATIONS = 1.8

# Wanted standard deviation of the real output before the activation, so that both clamps act and
# neither dominates.
REAL_DEVIATION: dict[Activation, float] = {Activation.RELU6: 4.0, Activation.RELU_N1_TO_1: 0.8}

LIMITS: dict[DType, tuple[int, int]] = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}

_CLAMPS: dict[Activation, tuple[float, float]] = {
    Activation.RELU: (0.0, math.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def float32(value: float) -> float:
    """``value`` rounded to float32, as the file will hold it."""
    return float(np.float32(value))


def one_scale(scale: float, zero_point: int) -> Quantization:
    """Return per-tensor parameters, the scale as the file will hold it."""
    return Quantization((float32(scale),), (int(zero_point),))


def random_quantization(
    rng: np.random.Generator,
    dtype: DType,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Quantization:
    """Return per-tensor parameters: a scale of 0.01 to 0.1 and a zero point in the middle half,
    unless given.
    """
    low, high = LIMITS[dtype]
    if scale is None:
        scale = rng.uniform(0.01, 0.1)
    if zero_point is None:
        zero_point = int(rng.integers(low + 64, high - 63))
    return one_scale(scale, zero_point)


def add_operand_scale(rng: np.random.Generator, activation: Activation) -> float:
    """A scale for an operand of ADD such that the sum deviates by about ``REAL_DEVIATION``.

    A uniform 8-bit operand deviates by 256 / sqrt(12) steps, the sum of two by sqrt(2) times that.
    """
    deviation = REAL_DEVIATION.get(activation, 4.0)
    return float(deviation / (256 / math.sqrt(6)) * rng.uniform(0.5, 1.5))


def uniform_moments(dtype: DType, zero_point: int) -> tuple[float, float]:
    """Mean and standard deviation of q - zero_point for q uniform over the type's values."""
    low, high = LIMITS[dtype]
    values = np.arange(low, high + 1) - zero_point
    return float(values.mean()), float(values.std())


def accumulator_deviation(
    weights: npt.NDArray[np.int64], input_mean: float, input_std: float
) -> npt.NDArray[np.float64]:
    """Root mean square of sum(w * x) per output channel; ``weights`` [channels, taps] less their
    zero point."""
    mean = weights.sum(axis=1) * input_mean
    variance = (weights.astype(np.float64) ** 2).sum(axis=1) * input_std**2
    return np.asarray(np.sqrt(mean**2 + variance))


def output_quantization(
    dtype: DType,
    deviation: float,
    activation: Activation,
    *,
    mean: float = 0.0,
    covered: float = COVERED_DEVIATIONS,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Quantization:
    """Parameters covering ``mean`` +- ``covered`` * ``deviation`` within the activation's clamp. A
    given ``zero_point`` shifts the range without changing the scale.
    """
    low, high = LIMITS[dtype]
    clamp_low, clamp_high = _CLAMPS.get(activation, (-math.inf, math.inf))
    real_low = max(min(mean - covered * deviation, 0.0), clamp_low)
    real_high = min(max(mean + covered * deviation, 0.0), clamp_high)
    span = real_high - real_low
    if scale is None:
        scale = span / (high - low) if span > 0 else 1.0
    if zero_point is None:
        zero_point = min(max(round(low - real_low / scale), low), high)
    return one_scale(scale, zero_point)
