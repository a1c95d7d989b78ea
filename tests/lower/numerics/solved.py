"""Models of one operator whose parameters are solved for wanted results.

The other way round than ``drawn``: every channel starts from an output it shall step to and an
accumulator where it shall, so that this accumulator lies on a tie of TensorFlow Lite's first or
second rounding, or as near to one as float32 scales come, or at the edge of int8, or of int32.
Weights of -1, 0, 1 or 2 then walk the 256 accumulators around it one by one.
"""

from fractions import Fraction

import numpy as np

from delegate.model.graph import Activation, DType, Quantization
from rk3588_conformance.builder import Net, layers
from tests.lower.numerics.judge import Case

CHANNELS = (1, 7, 16, 20, 32, 50)
LARGEST = (1 << 31) - 1


def solve(seed: int) -> Case:
    """The same case for the same seed."""
    rng = np.random.default_rng([2, seed])
    count = int(rng.choice(CHANNELS))
    is_wide = bool(rng.integers(2))  # channels of any scale, or of similar ones
    common = _multiplier(rng)
    zero_point = int(rng.choice([-128, 127, 0, -1, int(rng.integers(-128, 128))]))
    input_zero_point = int(rng.choice([-128, 0, 127, int(rng.integers(-128, 128))]))
    per_channel = bool(rng.integers(4))
    step = 2.0 ** -int(rng.integers(0, 9))  # the output's scale
    multipliers, biases, weights = [], [], []
    for _ in range(count):
        output = int(rng.choice([-128, -127, -1, 0, 1, 2, 63, 127, int(rng.integers(-128, 128))]))
        wanted = Fraction(output - zero_point) + int(rng.choice([-1, 0, 1])) * Fraction(1, 2)
        if not per_channel:
            multiplier = common
        elif is_wide:
            multiplier = _multiplier(rng)
        else:
            multiplier = common * float(rng.uniform(0.3, 1.0))
        accumulator = round(wanted / Fraction(multiplier)) if multiplier else 0
        if per_channel and accumulator and wanted and rng.random() < 0.8:
            # The scale that puts the tie on the accumulator.
            multiplier = abs(float(wanted / accumulator))
        if abs(accumulator) > LARGEST // 2:
            accumulator = int(rng.choice([0, 1 << 20, -(1 << 28), 1 << 30]))
        weight = int(rng.choice([-1, 0, 1, 1, 2, 127, -128 + 1]))
        at = int(rng.integers(-128, 128)) - input_zero_point
        multipliers.append(multiplier)
        weights.append(weight)
        biases.append(accumulator - weight * at)
    if rng.random() < 0.05:
        biases[0] = int(rng.choice([-1, 1])) * (LARGEST - int(rng.integers(0, 70000)))
    activation = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)[
        int(rng.integers(4))
    ]
    # Scales are powers of two but for the weights': products are as exact as float32 is.
    input_scale = 2.0 ** -int(rng.integers(0, 8))
    scales = np.clip(np.array(multipliers) * step / input_scale, 1e-36, 1e30).astype(np.float32)
    return _model(
        rng,
        np.array(weights, np.int8),
        np.array(biases, np.int64).astype(np.int32),
        scales if per_channel else scales[:1],
        Quantization((input_scale,), (input_zero_point,), 0),
        (step, zero_point),
        activation,
    )


def _multiplier(rng: np.random.Generator) -> float:
    kind = int(rng.integers(5))
    if kind == 0:  # a few bits: exact ties
        return float(rng.integers(1, 64)) * 2.0 ** -int(rng.integers(1, 24))
    if kind == 1:
        return 2.0 ** float(rng.uniform(-2, 9))
    if kind == 2:
        return 2.0 ** float(rng.uniform(-32, -12))
    return 2.0 ** float(rng.uniform(-14, 0))


def _model(
    rng: np.random.Generator,
    weights: np.ndarray,
    biases: np.ndarray,
    scales: np.ndarray,
    source: Quantization,
    output: tuple[float, int],
    activation: Activation,
) -> Case:
    """A depthwise convolution whose channels all see every value, or a dense one that sums some."""
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 8, 32, 1)
    count = weights.size
    is_depthwise = bool(rng.integers(2))
    builder = Net("solved", rng)
    lanes = count if is_depthwise else 1
    x = builder.input("x", (1, 8, 32, lanes), DType.INT8, source)
    shape = (1, 1, 1, count) if is_depthwise else (count, 1, 1, 1)
    arithmetic = layers.Arithmetic(
        activation=activation,
        per_channel=scales.size > 1 or count == 1,
        weights=weights.reshape(shape),
        weight_scales=tuple(float(s) for s in scales),
        weight_zero_point=0,
        bias=biases,
        output_scale=output[0],
        output_zero_point=output[1],
    )
    if is_depthwise:
        y = builder.depthwise(x, layers.Window(1, 1), arithmetic=arithmetic)
    else:
        y = builder.conv(x, count, layers.Window(1, 1), arithmetic=arithmetic)
    return Case(builder.build(y), (np.ascontiguousarray(np.repeat(values, lanes, axis=3)),))
