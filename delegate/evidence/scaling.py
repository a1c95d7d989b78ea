"""Proofs of what BS and BN do."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.evidence.arithmetic import by_sign, column, dense, depthwise, half_even
from delegate.evidence.bench import Bench, Describe, small_kernels
from delegate.lower.task import BnStage, BsStage, OutConvert, Source
from delegate.lower.weights import pack_bias

_BLOCK = 8
_CHANNELS = 32
# Beyond 8 bits, at their ends, at those of 16 bits, and low bytes that read otherwise alone.
MULTIPLIERS: Final = np.resize(
    np.array([1, 127, 128, 255, 256, 257, 300, 4097, 16_384, 32_767, -1, -129, -32_768]),
    _CHANNELS,
)
_BIAS: Final = np.arange(_CHANNELS) * 17 - 250


def _blocks(bias: npt.ArrayLike, sums: npt.ArrayLike, multipliers: npt.ArrayLike) -> bytes:
    """Operands of BS: 8 channels at a time summands, factors of the sums of inputs, multipliers."""
    a = np.broadcast_to(np.asarray(bias), _CHANNELS).astype("<i4").reshape(-1, _BLOCK)
    b = np.broadcast_to(np.asarray(sums), _CHANNELS).astype("<i2").reshape(-1, _BLOCK)
    c = np.broadcast_to(np.asarray(multipliers), _CHANNELS).astype("<i2").reshape(-1, _BLOCK)
    rows = (x.tobytes() + y.tobytes() + z.tobytes() for x, y, z in zip(a, b, c, strict=True))
    return b"".join(rows)


def _summand(b: Bench) -> None:
    x = b.values(16, 4, 6)
    for number, shift in ((77, 0), (-300, 1), (70_000, 9), (-(1 << 30), 24)):
        bs = BsStage(alu=Source.REGISTER, alu_operand=number)
        b.map(x, x + number, OutConvert(1, shift, 0), bs=bs)


def _input_sums(b: Bench) -> None:
    """Dense and depthwise; also with the border's values in the sum."""
    x, kernels = b.values(16, 4, 5), small_kernels(_CHANNELS, 2, 2, 16)
    inputs = dense(x, np.ones((1, 2, 2, 16), np.int64))
    for number in (-3, 101):
        sums = dense(x, kernels) + number * inputs
        bs = BsStage(
            alu=Source.MEMORY,
            operands=b.constants.add(bytes(4 * _CHANNELS)),
            ow=Source.REGISTER,
            ow_operand=number,
        )
        b.conv(x, kernels, sums, bs, OutConvert(1, 6, 0))
    x = b.values(64, 4, 5)
    weights = (np.arange(2 * 2 * 64).reshape(2, 2, 64) * 5 % 9) - 4
    sums = depthwise(x, weights) - 7 * depthwise(x, np.ones((2, 2, 64), np.int64))
    bs = BsStage(
        alu=Source.MEMORY,
        operands=b.constants.add(bytes(4 * 64)),
        ow=Source.REGISTER,
        ow_operand=-7,
    )
    b.conv(x, weights, sums, bs, OutConvert(1, 4, 0), depthwise=True)


def _input_sums_per_channel(b: Bench) -> None:
    x, kernels = b.values(16, 4, 5), small_kernels(_CHANNELS, 2, 2, 16)
    numbers = np.resize(np.array([0, 1, -1, 3, -128, 127, 128, 255, -256]), _CHANNELS)
    inputs = dense(x, np.ones((1, 2, 2, 16), np.int64))
    sums = dense(x, kernels) + column(_BIAS) + column(numbers) * inputs
    bs = BsStage(
        alu=Source.MEMORY,
        ow=Source.MEMORY,
        operands=b.constants.add(_blocks(_BIAS, numbers, 1)),
    )
    b.conv(x, kernels, sums, bs, OutConvert(1, 7, 0))


def _multiplier(b: Bench) -> None:
    """Both signs without a shift, and the shift with its ties where nothing is negative."""
    x = b.values(_CHANNELS, 4, 6)
    for number in (3, -300, 32_767, -32_768):
        shift = abs(number).bit_length()
        b.through(x, x * number, OutConvert(1, shift, 0), mul=number)
    x = np.abs(x) % 128
    for number, shift in ((3, 1), (257, 9), (16_384, 15)):
        b.through(x, half_even(x * number, shift), mul=number, shift=shift)


def _multiplier_per_channel(b: Bench) -> None:
    """The summand first, then the product."""
    x, kernels = b.values(16, 4, 5), small_kernels(_CHANNELS, 1, 1, 16)
    products = (dense(x, kernels) + column(_BIAS)) * column(MULTIPLIERS)
    place = b.constants.add(_blocks(_BIAS, 0, MULTIPLIERS))
    bs = BsStage(alu=Source.MEMORY, mul=Source.MEMORY, operands=place)
    for shift in (1, 9, 16):
        b.conv(x, kernels, products, bs, OutConvert(1, shift, 0))


def _shift_of_negatives(b: Bench) -> None:
    x = b.values(_CHANNELS, 4, 6)
    for number, shift, negative in ((5, 3, 1), (-3, 1, 2), (257, 9, 9)):
        result = by_sign(x * number, shift, negative)
        b.through(x, result, mul=number, shift=shift, shift_of_negatives=negative)


def _bs_clamp(b: Bench) -> None:
    """Behind the summand alone, and in units of the product; some of it lies beyond either end."""
    x, kernels = b.values(16, 4, 5), small_kernels(_CHANNELS, 1, 1, 16)
    sums = dense(x, kernels)
    summands = b.constants.add(pack_bias(_BIAS, _CHANNELS))
    for limit in (1, 50, 120):
        bs = BsStage(alu=Source.MEMORY, operands=summands, relu=True, relux_max=limit)
        b.conv(x, kernels, np.clip(sums + column(_BIAS), 0, limit), bs)
    x = b.values(_CHANNELS, 4, 6)
    for number, shift, limit in ((3, 1, 101), (300, 9, 60), (-257, 8, 77)):
        bs = BsStage(
            alu=Source.REGISTER,
            alu_operand=7,
            mul=Source.REGISTER,
            mul_operand=number,
            shift=shift,
            shift_negative=shift,
            relu=True,
            relux_max=limit,
        )
        b.map(x, np.clip(half_even((x + 7) * number, shift), 0, limit), bs=bs)


def _bn_multiplier(b: Bench) -> None:
    x = b.values(_CHANNELS, 4, 6)
    for number, shift, negative in ((3, 1, 1), (-300, 8, 9), (32_767, 15, 15)):
        bn = BnStage(mul=Source.REGISTER, mul_operand=number, shift=shift, shift_negative=negative)
        b.through(x, by_sign(x * number, shift, negative), bn=bn)


def _bn_multiplier_per_channel(b: Bench) -> None:
    """Behind a convolution, as programs use it; negative sums are multiplied as others are."""
    x, kernels = b.values(16, 4, 5), small_kernels(_CHANNELS, 1, 1, 16)
    sums = dense(x, kernels)
    place = b.constants.add(MULTIPLIERS.astype("<i2").tobytes())
    for shift in (1, 9, 16):
        bn = BnStage(mul=Source.MEMORY, operands=place, shift=shift, shift_negative=shift)
        b.conv(x, kernels, half_even(sums * column(MULTIPLIERS), shift), bn=bn)


def _bn_summand(b: Bench) -> None:
    """Alone, and in units of the product."""
    x = b.values(_CHANNELS, 4, 6)
    b.through(x, x + 41, bn=BnStage(alu_operand=41))
    bn = BnStage(alu_operand=-1001, mul=Source.REGISTER, mul_operand=13, shift=4, shift_negative=4)
    b.through(x, half_even(x * 13 - 1001, 4), bn=bn)


def _bn_relu(b: Bench) -> None:
    x = b.values(_CHANNELS, 4, 6)
    b.through(x, np.maximum(x, 0), bn=BnStage(relu=True))


def _bn_upper_limit(b: Bench) -> None:
    x = b.values(_CHANNELS, 4, 6)
    for limit in (1, 50):
        b.through(x, np.clip(x, 0, limit), bn=BnStage(relu=True, relux_max=limit))


SCALING: Final[dict[str, Describe]] = {
    "summand": _summand,
    "input_sums": _input_sums,
    "input_sums_per_channel": _input_sums_per_channel,
    "multiplier": _multiplier,
    "multiplier_per_channel": _multiplier_per_channel,
    "shift_of_negatives": _shift_of_negatives,
    "bs_clamp": _bs_clamp,
    "bn_multiplier": _bn_multiplier,
    "bn_multiplier_per_channel": _bn_multiplier_per_channel,
    "bn_summand": _bn_summand,
    "bn_relu": _bn_relu,
    "bn_upper_limit": _bn_upper_limit,
}
"""By feature."""
