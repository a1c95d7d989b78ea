"""Scales of an addition that give TFLite's result for every pair of operands.

Two int8 operands make 65,536 pairs: those whose sum lies near a tie are computed as TFLite's
reference kernel does and as the DPU does, for one choice of scales after the other, nearest to the
real ratios first, until one has no difference. The other pairs cannot differ, because both errors
are smaller than their distance to a tie. Exact ties are what the errors of TFLite's own multipliers
make of them.
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
# So many choices of scales are looked at.
CANDIDATES = 1024
# TFLite's own sums are nearer to the real ones than this, in LSB: 20 bits, two operands, and as
# many whole LSB as outputs have.
_TFLITE_ERROR = 2.0 ** (9 - _LEFT_SHIFT)


@functools.lru_cache(maxsize=256)
def exact_add_scales(
    node: int,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
) -> AddScales:
    """The scales with the fewest different results, for (first, second, result). ``zero_points`` in
    int8. Raises LoweringError as ``ranked_add_scales`` does.
    """
    first, second = (scales[i] / scales[2] for i in (0, 1))
    candidates = ranked_add_scales(node, first, second, CANDIDATES)
    values = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)
    a = np.repeat(values - zero_points[0], values.size)
    b = np.tile(values - zero_points[1], values.size)
    # Only sums near a tie can be rounded differently.
    real = a * first + b * second
    margin = candidates[-1].error_lsb + _TFLITE_ERROR
    near = np.flatnonzero(np.abs(real - np.floor(real) - 0.5) <= margin)
    a, b = a[near], b[near]
    wanted = _clamped(_tflite_sums(a, b, scales), zero_points[2])
    best, fewest = candidates[0], near.size + 1
    for candidate in candidates:
        results = _clamped(_device_sums(a, b, candidate), zero_points[2])
        different = int(np.count_nonzero(results != wanted))
        if different < fewest:
            best, fewest = candidate, different
        if different == 0:
            break
    return best


def _clamped(sums: Int64Array, zero_point: int) -> Int64Array:
    """Results counted from the zero point, as far as int8 holds them."""
    return np.clip(sums, INT8_MIN - zero_point, INT8_MAX - zero_point)


def _tflite_sums(a: Int64Array, b: Int64Array, scales: tuple[float, float, float]) -> Int64Array:
    twice = 2.0 * max(scales[0], scales[1])
    first = tflite_results(a << _LEFT_SHIFT, *quantize_multiplier(scales[0] / twice))
    second = tflite_results(b << _LEFT_SHIFT, *quantize_multiplier(scales[1] / twice))
    output = quantize_multiplier(twice / ((1 << _LEFT_SHIFT) * scales[2]))
    return tflite_results(first + second, *output)


def _device_sums(a: Int64Array, b: Int64Array, scales: AddScales) -> Int64Array:
    """BS, EW and OUT_CVT without clamps; ties go away from zero."""
    product = (a * scales.first + b * scales.second) * scales.scale
    half = (1 << scales.shift) >> 1
    rounded: Int64Array = np.sign(product) * ((np.abs(product) + half) >> scales.shift)
    return rounded
