"""Models of one operator with parameters drawn at the ends of their ranges.

Coarse channels (scales up to 2^31 below the largest), multipliers around powers of two, of one and
above, dead channels, biases that saturate or lie near int32's ends, zero points at the ends, all
activations. Inputs reach every accumulator (one input per output) or its extremes (several).
"""

import numpy as np

from delegate.model.graph import Activation, DType
from rk3588_conformance.builder import (
    Arithmetic,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
)
from tests.lower.numerics.judge import Array, Case

SIDE = 16  # pixels: 256, so that a channel's input takes every value
ACTIVATIONS = (
    Activation.NONE,
    Activation.NONE,
    Activation.RELU,
    Activation.RELU6,
    Activation.RELU_N1_TO_1,
)
INT32 = (-(1 << 31), (1 << 31) - 1)


def draw(seed: int) -> Case:
    """The same case for the same seed."""
    rng = np.random.default_rng([1, seed])
    if rng.random() < 0.06:
        return _addition(rng)
    return _weighted(rng)


def _limits(dtype: DType) -> tuple[int, int]:
    return (0, 255) if dtype is DType.UINT8 else (-128, 127)


def _zero_point(rng: np.random.Generator, dtype: DType) -> int:
    low, high = _limits(dtype)
    ends = (low, low, high, (low + high + 1) // 2, int(rng.integers(low, high + 1)))
    return int(rng.choice(ends))


def _numpy_type(dtype: DType) -> type:
    return np.uint8 if dtype is DType.UINT8 else np.int8


def _weighted(rng: np.random.Generator) -> Case:
    op = str(rng.choice(["conv", "conv", "depthwise", "dense"]))
    dtype = DType.UINT8 if rng.random() < 0.25 else DType.INT8
    per_channel = dtype is DType.INT8 and op != "dense" and rng.random() < 0.8
    channels = int(rng.choice([2, 3, 16, 33]))
    inputs = 1 if op == "depthwise" else int(rng.choice([1, 1, 2, 5, 17, 40, 300]))
    weight_zero_point = _zero_point(rng, dtype) if dtype is DType.UINT8 else 0
    input_zero_point, output_zero_point = _zero_point(rng, dtype), _zero_point(rng, dtype)
    low, high = _limits(dtype)
    weights = rng.integers(low, high + 1, (channels, inputs))
    style = rng.random((channels, 1))
    weights = np.where(style < 0.15, rng.choice([low, high], (channels, inputs)), weights)
    small = np.clip(weight_zero_point + rng.integers(-1, 2, (channels, inputs)), low, high)
    weights = np.where((style > 0.15) & (style < 0.3), small, weights)
    weights = np.where((style > 0.3) & (style < 0.4), weight_zero_point, weights)  # dead
    terms = weights - weight_zero_point
    span = np.abs(terms).sum(axis=1) * 255.0 + 1.0
    multipliers = _multipliers(rng, span, per_channel)
    bias = _biases(rng, multipliers)
    activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    input_scale = float(np.float32(2.0 ** rng.uniform(-9, 1)))
    output_scale = float(np.float32(2.0 ** rng.uniform(-8, 0)))
    scales = np.clip(multipliers * output_scale / input_scale, 1e-35, 1e30)
    if not per_channel:
        scales = scales[:1]
    x = _pixels(rng, terms, dtype)
    arithmetic = Arithmetic(
        activation=activation,
        per_channel=per_channel,
        weight_scales=tuple(float(s) for s in scales),
        weight_zero_point=weight_zero_point,
        bias=bias.astype(np.int32),
        output_scale=output_scale,
        output_zero_point=output_zero_point,
        weights=_shaped(op, weights).astype(_numpy_type(dtype)),
    )
    rest = {"input_scale": input_scale, "input_zero_point": input_zero_point}
    if op == "dense":
        x = x.reshape(SIDE * SIDE, inputs)
        model = fully_connected_model(rng, x.shape, channels, dtype, arithmetic=arithmetic, **rest)
    elif op == "conv":
        x = x.reshape(1, SIDE, SIDE, inputs)
        model = conv_model(
            rng, SIDE, SIDE, inputs, channels, 1, 1, dtype=dtype, arithmetic=arithmetic, **rest
        )
    else:
        x = np.repeat(x.reshape(1, SIDE, SIDE, 1), channels, axis=3)
        model = depthwise_model(
            rng, SIDE, SIDE, channels, 1, 1, dtype=dtype, arithmetic=arithmetic, **rest
        )
    return Case(model, (np.ascontiguousarray(x.astype(_numpy_type(dtype))),))


def _shaped(op: str, weights: Array) -> Array:
    channels, inputs = weights.shape
    if op == "dense":
        return weights
    if op == "conv":
        return weights.reshape(channels, 1, 1, inputs)
    return weights.reshape(1, 1, 1, channels)


def _multipliers(rng: np.random.Generator, span: Array, per_channel: bool) -> Array:
    """Around what spreads the accumulators over the outputs, and far from it."""
    usual = 2.0 ** rng.uniform(5, 10, span.size) / span
    if not per_channel:
        kinds = np.full(span.size, rng.random())
        usual = np.full(span.size, usual[0])
        drawn = rng.random(8)
        far, large, near = (np.full(span.size, v) for v in drawn[:3])
    else:
        mix = rng.choice([0.0, 0.1, 0.4])  # the share of channels that are not usual
        is_unusual = rng.random(span.size) < mix
        is_unusual[0] = True
        kinds = np.where(is_unusual, rng.random(span.size), 1.0)
        far, large, near = (rng.random(span.size) for _ in range(3))
    result = np.where(kinds < 0.4, usual * 2.0 ** (-31 * far), usual)
    result = np.where((kinds >= 0.4) & (kinds < 0.6), 2.0 ** (12 * large - 2), result)
    power = 2.0 ** np.rint(np.log2(result))
    beside = power * (1 + np.rint(3 * near - 1) * 2.0 ** -np.rint(20 + 4 * far))
    return np.where((kinds >= 0.6) & (kinds < 0.9), beside, result)


def _biases(rng: np.random.Generator, multipliers: Array) -> Array:
    centre = rng.integers(-300, 300, multipliers.size) / multipliers
    choice = rng.random(multipliers.size)
    # Mostly such that TensorFlow Lite's left shift keeps them inside int32.
    bits = 31 - (rng.random() < 0.9) * np.clip(np.log2(multipliers) + 2, 0, 31)
    size = 2.0 ** (rng.random(multipliers.size) * bits) * rng.choice([-1, 1], multipliers.size)
    end = rng.choice(INT32, multipliers.size) * (1 - 2.0 ** -rng.uniform(1, 30, multipliers.size))
    if rng.random() < 0.5:
        choice[1:] *= 0.9  # at most the first, unusual channel saturates
    bias = np.where(choice < 0.7, centre, np.where(choice < 0.9, 0.0, size))
    if rng.random() < 0.1:
        bias = np.where(choice > 0.95, end, bias)
    return np.clip(np.rint(bias), *INT32)


def _pixels(rng: np.random.Generator, terms: Array, dtype: DType) -> Array:
    """[256, inputs]: every value, or the extremes of some channels among random ones."""
    low, high = _limits(dtype)
    inputs = terms.shape[1]
    if inputs == 1:
        return np.arange(low, high + 1).reshape(-1, 1)
    x = rng.integers(low, high + 1, (SIDE * SIDE, inputs))
    x[0], x[1] = low, high
    picked = terms[rng.integers(0, len(terms), 40)]
    x[2:42] = np.where(picked > 0, high, low)
    x[42:82] = np.where(picked > 0, low, high)
    mixed = rng.random((80, inputs)) < rng.random((80, 1))
    x[82:162] = np.where(mixed, x[2:82], x[82:162])
    return x


def _addition(rng: np.random.Generator) -> Case:
    """All 65,536 pairs."""
    dtype = DType.UINT8 if rng.random() < 0.5 else DType.INT8
    low, high = _limits(dtype)
    kind = _numpy_type(dtype)
    reach = rng.choice([1, 4, 12])
    scales = [float(np.float32(2.0 ** rng.uniform(-reach, reach))) for _ in range(3)]
    # TensorFlow Lite ends the process where the sum's multiplier is one or more.
    scales[2] = max(scales[2], max(scales) * 2.0**-18)
    if rng.random() < 0.3:
        scales = [2.0 ** np.rint(np.log2(s)) for s in scales]
    model = add_model(
        rng,
        (1, 256, 256, 1),
        dtype,
        activation=ACTIVATIONS[rng.integers(len(ACTIVATIONS))],
        scales=(scales[0], scales[1]),
        zero_points=(_zero_point(rng, dtype), _zero_point(rng, dtype)),
        output_scale=scales[2],
        output_zero_point=_zero_point(rng, dtype),
    )
    values = np.arange(low, high + 1, dtype=kind)
    a = np.repeat(values, 256).reshape(1, 256, 256, 1)
    return Case(model, (a, np.ascontiguousarray(a.transpose(0, 2, 1, 3))))
