"""Proofs of what RK3576 does, in the forms that its programs have."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from delegate.evidence.arithmetic import (
    Whole,
    by_sign,
    column,
    dense,
    depthwise,
    half_even,
    padded,
)
from delegate.evidence.bench import Bench, Describe, small_kernels
from delegate.evidence.element_wise import alone, operand, two
from delegate.evidence.output import lookups
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import BnStage, BsStage, OutConvert, Source

_QUARTER: Final = OutConvert(1, 2, 0)
_PAD: Final = -9
_INT32: Final = np.iinfo(np.int32)
_BIAS: Final = np.arange(64) * 29 - 900


def _convolution(b: Bench) -> None:
    """Two groups of input channels, two groups of kernels, a border on three sides, H != W, every
    input value; OUT_CVT with a scale of 15 bits, ties to even, and an offset.
    """
    x, kernels = b.values(48, 4, 6), small_kernels(64, 3, 3, 48)
    sums = dense(padded(x, 1, 1, 0, 1, _PAD), kernels) + column(_BIAS)
    for scale, shift, offset in ((1, 2, 0), (16_385, 16, -7), (24_576, 17, 5)):
        out = OutConvert(scale, shift, offset)
        b.conv(x, kernels, sums, out=out, bias=_BIAS, pads=(1, 1, _PAD))


def _depthwise(b: Bench) -> None:
    """The second byte of a weight holds a zero point, of either sign."""
    x = b.values(64, 4, 5)
    kernels = (np.arange(3 * 3 * 64).reshape(3, 3, 64) * 11 % 7) - 3
    for zero_point in (0, 2, -3):
        sums = depthwise(padded(x, 1, 1, 1, 1, _PAD), kernels - zero_point)
        b.conv(
            x, kernels, sums, out=OutConvert(1, 4, 0), depthwise=True, zero_point=zero_point,
            pads=(1, 1, _PAD),
        )  # fmt: skip


def _dilated(b: Bench) -> None:
    """Rows and columns two apart: no other form is known."""
    x, kernels = b.values(16, 7, 9), small_kernels(32, 3, 3, 16)
    b.conv(x, kernels, dense(x, kernels, (2, 2)), out=_QUARTER, dilation=(2, 2))


_MULTIPLIERS: Final = np.resize(np.array([1, 2, 3, 127, 128, 255, 4095, 16_385, 32_767]), 32)
_SHIFT: Final = 14


def _operand_blocks(b: Bench) -> None:
    """Summands at both ends of what OUT_CVT brings back, and of 24 bits; multipliers of all sizes;
    sums of inputs with either sign; and the blocks of depthwise channels, which have none.
    """
    x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
    bias = np.resize(np.array([1, -1, 127, -128, 255, -257, 65_535, -65_536, 1 << 24]), 32)
    for of_inputs in (0, 3, -5):
        sums = dense(x, kernels) + column(bias) + of_inputs * x.sum(axis=0)
        # 32 bits are reached behind the shift only: sources differ on products before it.
        scaled = _int32(half_even(sums * column(_MULTIPLIERS), _SHIFT))
        for shift in (0, 6):
            bs = b.blocks(bias, _MULTIPLIERS, _SHIFT, of_inputs=of_inputs)
            b.conv(x, kernels, scaled, bs, OutConvert(1, shift, 0))
    x = b.values(64, 4, 5)
    weights = np.full((1, 1, 64), 3)
    summands, multipliers = np.resize(bias, 64), np.resize(_MULTIPLIERS, 64)
    scaled = _int32(half_even((3 * x + column(summands)) * column(multipliers), _SHIFT))
    bs = b.blocks(summands, multipliers, _SHIFT, depthwise=True)
    b.conv(x, weights, scaled, bs, depthwise=True)


def _int32(values: Whole) -> Whole:
    """Saturated to 32 bits, as behind BS."""
    return np.clip(values, _INT32.min, _INT32.max)


def _shift_record(b: Bench) -> None:
    """Shifts of values from 0 on and of others: alike, and apart; ties of both signs."""
    x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
    ones, none = np.ones(32, np.int64), np.zeros(32, np.int64)
    sums = dense(x, kernels)
    for shift, negative in ((1, 1), (2, 4), (3, 0)):
        bs = b.blocks(none, ones, shift, negative)
        b.conv(x, kernels, by_sign(sums, shift, negative), bs)


def _clamps(b: Bench) -> None:
    x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
    sums = dense(x, kernels)
    for limit in (None, 1, 150):
        bn = BnStage(relu=True, relux_max=limit)
        b.conv(x, kernels, np.clip(sums, 0, limit), out=OutConvert(1, 1, -100), bn=bn)


def _main(add: int, mul: int, shift: int) -> BsStage:
    """What the first map of a sum goes through."""
    return BsStage(
        alu=Source.REGISTER, alu_operand=add, mul=Source.REGISTER, mul_operand=mul, shift=shift
    )


def _addition(b: Bench) -> None:
    """Two maps in scales of their own, each rounded by its shift, and by OUT_CVT."""
    x, e = two(b)
    for first, second, out in (
        ((0, 1, 0), (0, 1, 0), 1),
        ((7, 300, 8), (-17, 211, 6), 2),
        ((-128, 32_767, 14), (128, 32_767, 15), 1),
    ):
        ew = replace(operand(b, e), offset=second[0], scale=second[1], shift=second[2])
        total = _converted(x, *first) + _converted(e, *second)
        b.map(x, total, OutConvert(1, out, 0), bs=_main(*first), ew=ew)


def _converted(x: Whole, add: int, mul: int, shift: int) -> Whole:
    return half_even((x + add) * mul, shift)


def _product(b: Bench) -> None:
    """Zero points are taken off both maps."""
    x, e = two(b)
    for add, offset in ((0, 0), (5, -128), (-77, 31)):
        ew = replace(operand(b, e, EwOperation.MULTIPLY), offset=offset)
        bs = BsStage(alu=Source.REGISTER, alu_operand=add)
        b.map(x, (x + add) * (e + offset), OutConvert(3, 10, 0), bs=bs, ew=ew)


RK3576: Final[dict[str, Describe]] = {
    "convolution": _convolution,
    "depthwise_convolution": _depthwise,
    "dilated_columns": _dilated,
    "dilated_rows": _dilated,
    "operand_blocks": _operand_blocks,
    "shift_record": _shift_record,
    "activation_clamps": _clamps,
    "element_wise_alone": alone,
    "ew_addition": _addition,
    "ew_product": _product,
    "table_load": lookups(0, 1),
    "table": lookups(0, 1, 2, 3),
}
"""By feature."""
