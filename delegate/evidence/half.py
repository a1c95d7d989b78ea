"""Proofs of what is computed in fp16.

Values, weights and sums are chosen so that all sums are exact whatever the order of their terms;
only the results are rounded, to the nearest fp16, ties to even.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.evidence.arithmetic import column, dense, depthwise, padded, whole
from delegate.evidence.bench import Bench, Describe, small_kernels
from delegate.evidence.element_wise import operand
from delegate.lower.half.curves import RESULT_BITS
from delegate.lower.half.stages import half_bits
from delegate.lower.half.weights import pack_slopes
from delegate.lower.numerics.pipeline import INDEX_STEP, EwOperation
from delegate.lower.task import CURVE_ENTRIES, BnStage, OutConvert, Source, TableUse

_UNITS: Final = 1536.0
_INDICES: Final = 512
"""Numbers that are over it have whole indices."""
_FURTHEST: Final = 10
"""Of 128: numbers reach to 12.8, the tables to 10.7."""

Real = npt.NDArray[np.float64]

_FP16: Final = Element.FP16
_STEP: Final = 1 / 4
"""Of weights: sums are multiples of it, far below 2^24 of them."""


def _convolution(b: Bench) -> None:
    """Dense and depthwise, two groups of inputs and of kernels, a border; results of more bits
    than fp16 has.
    """
    x, kernels = b.values(40, 4, 5), 65 * small_kernels(32, 2, 3, 40)
    bias = np.arange(32) * 257 * _STEP - 900
    sums = dense(padded(x, 1, 1, 0, 1, 0), whole(kernels)) * _STEP + bias.reshape(-1, 1, 1)
    b.conv(x, kernels * _STEP, sums, element=_FP16, bias=bias, pads=(1, 1, 0))
    x = b.values(64, 4, 5)
    taps = (np.arange(3 * 3 * 64).reshape(3, 3, 64) * 11 % 129) - 64
    sums = depthwise(padded(x, 1, 1, 1, 1, 0), taps) * _STEP
    b.conv(x, taps * _STEP, sums, element=_FP16, depthwise=True, pads=(1, 1, 0))


def _values(b: Bench, seed: int = 0) -> Real:
    """Of both signs and of many magnitudes, subnormal numbers among them."""
    whole_numbers = b.values(24, 3, 5, seed=seed).astype(np.float64)
    return np.asarray(np.ldexp(whole_numbers, column(np.arange(24) // 2 - 14 + seed)))


def _element_wise(b: Bench) -> None:
    """As it is, and products and maxima of two tensors."""
    x, e = _values(b), _values(b, seed=3)
    b.map(x, x, element=_FP16)
    b.map(x, x * e, ew=operand(b, e, EwOperation.MULTIPLY, _FP16), element=_FP16)
    b.map(x, np.maximum(x, e), ew=operand(b, e, EwOperation.MAX, _FP16), element=_FP16)


def _pair(operation: EwOperation, sign: int) -> Describe:
    """Sums that fp16 cannot hold."""

    def describe(b: Bench) -> None:
        x, e = _values(b), _values(b, seed=2)
        b.map(x, x + sign * e, ew=operand(b, e, operation, _FP16), element=_FP16)

    return describe


def _per_channel(*, prelu: bool) -> Describe:
    """Another factor per channel, of both signs; with ``prelu`` values from 0 on stay."""

    def describe(b: Bench) -> None:
        x, factors = _values(b), (np.arange(24) - 7) / 64
        operands = b.constants.add(pack_slopes(factors.astype(np.float16), 24))
        bn = BnStage(mul=Source.MEMORY, prelu=prelu, operands=operands)
        products = x * factors.reshape(-1, 1, 1)
        b.map(x, np.where((x >= 0) & prelu, x, products), bn=bn, element=_FP16)

    return describe


def _table(b: Bench) -> None:
    """Runs of equal entries, at 0 too, and slopes of one unit of the result per unit of the index:
    whatever is between entries is exact. Beyond both ends, too.
    """
    entries = np.arange(CURVE_ENTRIES) - CURVE_ENTRIES // 2
    steps = np.clip(entries, -300, 400)
    steps = np.where(np.abs(steps) < 40, 0, steps)
    numbers = np.rint(b.values(24, 12, 15) / _FURTHEST * _INDICES) / _INDICES
    x = numbers.astype(np.float16).astype(np.float64)
    places = x * _UNITS
    index = np.arange(-(CURVE_ENTRIES // 2), CURVE_ENTRIES // 2 + 1) * INDEX_STEP
    found = np.interp(places, index, steps * INDEX_STEP)
    use = TableUse(((steps * INDEX_STEP).astype("<i2").tobytes(),), 0)
    bn = BnStage(mul=Source.REGISTER, mul_operand=half_bits(_UNITS))
    out = OutConvert(1, 0, 0, exponent=RESULT_BITS)
    b.map(x, found * 2.0**-RESULT_BITS, bn=bn, table=use, out=out, element=_FP16)


HALF: Final[dict[str, Describe]] = {
    "fp16_convolution": _convolution,
    "fp16_element_wise": _element_wise,
    "fp16_operand": _pair(EwOperation.ADD, 1),
    "ew_difference": _pair(EwOperation.SUBTRACT, -1),
    "fp16_slopes": _per_channel(prelu=True),
    "fp16_factors": _per_channel(prelu=False),
    "fp16_table": _table,
}
"""By feature."""
