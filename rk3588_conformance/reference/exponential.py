"""The reference of SOFTMAX: exponentials, their sum and its reciprocal in fixed point, as the
kernels have them.

Numbers of 32 bits with so many above the unit: 5 of distances from the row's largest value, none of
exponentials, 12 of their sum, 2 while the reciprocal is iterated.
"""

import math

import numpy as np

from delegate.ops.softmax import SoftmaxOptions
from rk3588_conformance.reference.arithmetic import (
    Array,
    Call,
    quantize_multiplier,
    scale_by,
    shifted,
)

_ONE = (1 << 31) - 1
_QUARTER_BITS = 24
"""A quarter of a distance's unit."""
_EIGHTH = 1 << 28
_EXP_OF_EIGHTH, _THIRD = 1895147668, 715827883
"""e^-(1/8) and 1/3 times 2^31."""
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""e^-(1/4), e^-(1/2), e^-1 ... e^-16 times 2^31."""
_SUM_BITS = 12
_FIRST, _SLOPE = 1515870810, -1010580540
"""48 / 17 and -32 / 17 with two bits above the unit."""
_ITERATIONS = 3
_MOST_CLASSES = 511


def softmax(call: Call) -> Array:
    """Return the shares of a row's exponentials in 256 steps."""
    beta = call.options(SoftmaxOptions).beta
    real = min(beta * call.quantization().scale * (1 << 26), float(_ONE))
    mantissa, left = quantize_multiplier(real)
    values = call.steps()
    distances = values - values.max(axis=-1, keepdims=True)
    counts = distances >= -math.floor((31 << 26) / (1 << left))
    scaled = scale_by(np.where(counts, distances, 0), mantissa, left)
    exponentials = np.where(counts, _exponential(scaled), 0)
    sums = shifted(exponentials, _SUM_BITS).sum(axis=-1, keepdims=True)
    inverse, over = _reciprocal(sums)
    shares = shifted(_product(inverse, exponentials), over + 31 - 8)
    return np.minimum(shares, 255) + call.result.zero_point


def has_too_many_classes(call: Call) -> bool:
    """Return whether shifts of 32 bits and more are possible, which C leaves open."""
    return call.operand().shape[-1] > _MOST_CLASSES


def _product(a: Array, b: Array | int) -> Array:
    """Return a product of fractions, rounded to the nearest."""
    return scale_by(a, b, 0)


def _exponential(distances: Array) -> Array:
    """Return e^``distances``: a series for what is below a quarter, and a factor for each bit."""
    quarter = 1 << _QUARTER_BITS
    rest = (distances & (quarter - 1)) - quarter
    found = _series(rest << 5)
    above = rest - distances
    for number, power in enumerate(_POWERS):
        is_set = above & (quarter << number)
        found = np.where(is_set, _product(found, power), found)
    return np.where(distances == 0, _ONE, found)


def _series(rest: Array) -> Array:
    """Return e^``rest``, from -1/4 to 0: five terms around -1/8."""
    x = rest + _EIGHTH
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    terms = shifted(_product(shifted(fourth, 2) + cube, _THIRD) + square, 1)
    return _EXP_OF_EIGHTH + _product(x + terms, _EXP_OF_EIGHTH)


def _reciprocal(sums: Array) -> tuple[Array, Array]:
    """Return a fraction, and by how many bits it is too large for 1 / ``sums``."""
    room = 32 - np.frexp(sums.astype(np.float64))[1].astype(np.int64)
    fraction = (sums << room) - (1 << 31)  # from 1 to 2, less 1
    half = (fraction + _ONE + 1) >> 1
    found = _FIRST + _product(half, _SLOPE)
    for _ in range(_ITERATIONS):
        left = (1 << 29) - _product(half, found)
        found = found + (_product(found, left) << 2)
    return np.minimum(found << 1, _ONE), _SUM_BITS - room
