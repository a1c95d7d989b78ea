"""Scales of an addition that give TFLite's result for every pair of operands.

Two int8 operands make 65,536 pairs: those whose sum lies near a tie are computed as TFLite's
reference kernel does and as the DPU does, for one choice of scales after the other, nearest to the
real ratios first, until one has no difference. The other pairs cannot differ, because both errors
are smaller than their distance to a tie. Exact ties are what the errors of TFLite's own multipliers
make of them; where those are not proportional to the operands no scales fit all pairs, and the
rarest stay different.
"""

from __future__ import annotations

import functools

import numpy as np

from delegate.lower.add_scales import AddScales, ranked_add_scales
from delegate.lower.factors import tflite_results
from delegate.lower.multipliers import quantize_multiplier
from delegate.lower.stages import INT8_MAX, INT8_MIN, Int64Array

# TFLite's kernel computes with so many bits more than the operands have.
_LEFT_SHIFT = 20
# So many choices of scales are looked at, in parts that take little memory.
CANDIDATES = (64, 8192)
_AT_ONCE = 32
# TFLite's own sums are nearer to the real ones than this, in LSB: 20 bits, two operands, and as
# many whole LSB as outputs have.
_TFLITE_ERROR = 2.0 ** (9 - _LEFT_SHIFT)


@functools.lru_cache(maxsize=256)
def exact_add_scales(
    node: int,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
) -> AddScales:
    """Scales for (first, second, result) without a different result, or those whose different pairs
    are the rarest. ``zero_points`` in int8. Raises LoweringError as ``ranked_add_scales`` does.
    """
    best, weight = _search(node, scales, zero_points, CANDIDATES[0])
    if weight:
        best, _ = _search(node, scales, zero_points, CANDIDATES[1])
    return best


def _search(
    node: int, scales: tuple[float, float, float], zero_points: tuple[int, int, int], count: int
) -> tuple[AddScales, float]:
    """The best of ``count`` choices, and how much its pairs weigh that differ. Small operands weigh
    more, because feature maps have more of them.
    """
    first, second = (scales[i] / scales[2] for i in (0, 1))
    candidates = ranked_add_scales(node, first, second, count)
    values = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)
    a = np.repeat(values - zero_points[0], values.size)
    b = np.tile(values - zero_points[1], values.size)
    # Only sums near a tie can be rounded differently.
    real = a * first + b * second
    margin = candidates[-1].error_lsb + _TFLITE_ERROR
    near = np.flatnonzero(np.abs(real - np.floor(real) - 0.5) <= margin)
    a, b = a[near], b[near]
    wanted = _clamped(_tflite_sums(a, b, scales), zero_points[2])
    weights = 1.0 / ((1.0 + np.abs(a)) * (1.0 + np.abs(b)))
    best, lightest = candidates[0], np.inf
    for start in range(0, len(candidates), _AT_ONCE):
        part = candidates[start : start + _AT_ONCE]
        results = _clamped(_device_sums(a, b, part), zero_points[2])
        different = (results != wanted) @ weights
        least = int(np.argmin(different))
        if different[least] < lightest:
            best, lightest = part[least], float(different[least])
        if lightest == 0:
            break
    return best, lightest


def _clamped(sums: Int64Array, zero_point: int) -> Int64Array:
    """Results counted from the zero point, as far as int8 holds them."""
    return np.clip(sums, INT8_MIN - zero_point, INT8_MAX - zero_point)


def _tflite_sums(a: Int64Array, b: Int64Array, scales: tuple[float, float, float]) -> Int64Array:
    twice = 2.0 * max(scales[0], scales[1])
    first = tflite_results(a << _LEFT_SHIFT, *quantize_multiplier(scales[0] / twice))
    second = tflite_results(b << _LEFT_SHIFT, *quantize_multiplier(scales[1] / twice))
    output = quantize_multiplier(twice / ((1 << _LEFT_SHIFT) * scales[2]))
    return tflite_results(first + second, *output)


def _device_sums(a: Int64Array, b: Int64Array, choices: list[AddScales]) -> Int64Array:
    """BS, EW and OUT_CVT without clamps, [choices, pairs]; ties go away from zero."""
    first, second, scale, shift = (
        np.array([getattr(choice, name) for choice in choices], np.int64)[:, np.newaxis]
        for name in ("first", "second", "scale", "shift")
    )
    product = (a * first + b * second) * scale
    half = np.left_shift(1, shift) >> 1
    rounded: Int64Array = np.sign(product) * ((np.abs(product) + half) >> shift)
    return rounded
