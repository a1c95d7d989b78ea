"""Proofs of what RK3576 does, in the forms that its programs have."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from delegate.evidence.arithmetic import Whole, by_sign, column, dense, half_even
from delegate.evidence.bench import Bench, Describe, small_kernels
from delegate.evidence.convolution import by_channel, convolution, dilated
from delegate.evidence.element_wise import alone, operand, two
from delegate.evidence.output import lookups
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import BnStage, BsStage, OutConvert, Source

_INT32: Final = np.iinfo(np.int32)
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
    "convolution": convolution(width=6, rows=3),
    "depthwise_convolution": by_channel(0, 2, -3),  # in the second byte of each weight
    "dilated_columns": dilated(2, 2),  # no other form is known
    "dilated_rows": dilated(2, 2),
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
