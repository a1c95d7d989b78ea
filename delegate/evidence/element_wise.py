"""Proofs of what the DPU does with tensors from memory, and EW with its operand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import ATOM_BYTES, Element
from delegate.evidence.arithmetic import Whole, column, dense, half_even
from delegate.evidence.bench import AS_IT_IS, Bench, Describe, cube, small_kernels
from delegate.evidence.scaling import MULTIPLIERS
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import EwStage, OutConvert

_HALF: Final = OutConvert(1, 1, 0)
_SHAPE: Final = (32, 4, 6)
_PER_CHANNEL: Final = np.resize(np.array([0, 1, -1, 2, 63, -64, 127, -128, 5]), _SHAPE[0])


def operand(
    b: Bench, e: npt.NDArray[Any], operation: EwOperation = EwOperation.ADD,
    element: Element = Element.INT8,
) -> EwStage:  # fmt: skip
    """A tensor as EW's operand."""
    return EwStage(
        b.constants.add(cube(e, element)), operand_bytes=element.bytes, operation=operation,
        surface_stride_bytes=e.shape[1] * e.shape[2] * ATOM_BYTES,
    )  # fmt: skip


def _channels(b: Bench, values: npt.ArrayLike, size: int = 1) -> EwStage:
    """A value of ``size`` bytes per channel as EW's operand."""
    content = np.asarray(values).astype(f"<i{size}").tobytes()
    return EwStage(b.constants.add(content), per_channel=True, operand_bytes=size)


def two(b: Bench) -> tuple[Whole, Whole]:
    """Two tensors that meet in ever other pairs."""
    x, e = b.values(*_SHAPE), b.values(*_SHAPE, seed=5)
    return x, e[:, ::-1, :].copy()


def alone(b: Bench) -> None:
    """Copies of one and of three surfaces; what lies behind the result stays. A convolution behind
    them, of the same sizes as the one before, takes nothing from that one.
    """
    b.plain(seed=1)
    for channels in (16, 48):
        x, behind = b.values(channels, 4, 6), b.values(32, 4, 6, seed=3)
        front, back = b.room(cube(x)), b.room(cube(behind))
        b.map(behind, behind, target=back)
        b.map(x, x, target=front)
    b.plain(seed=2)


def _conversion(b: Bench) -> None:
    """Scales beyond 8 bits, and shifts with their ties."""
    x, e = two(b)
    for offset, scale, shift in ((5, 3, 1), (-17, 300, 8), (128, 32_767, 15)):
        ew = replace(operand(b, e), offset=offset, scale=scale, shift=shift)
        b.through(x, x + half_even((e + offset) * scale, shift), _HALF, ew=ew)


def _addition(b: Bench) -> None:
    x, e = two(b)
    b.map(x, x + e, _HALF, ew=operand(b, e))


def _addition_behind_convolution(b: Bench) -> None:
    """Two readers share the operand: four surfaces, no two alike."""
    x, e = b.values(64, 4, 5), b.values(64, 4, 5, seed=9)
    b.through(x, x + e, _HALF, ew=operand(b, e))


def _of_two(
    operation: EwOperation, result: Callable[[Whole, Whole], Whole], out: OutConvert = AS_IT_IS
) -> Describe:
    def describe(b: Bench) -> None:
        x, e = two(b)
        b.map(x, result(x, e), out, ew=operand(b, e, operation))

    return describe


def _of_channels(
    operation: EwOperation, result: Callable[[Whole, Whole], Whole], out: OutConvert = AS_IT_IS
) -> Describe:
    def describe(b: Bench) -> None:
        x = b.values(*_SHAPE)
        ew = replace(_channels(b, _PER_CHANNEL), operation=operation)
        b.map(x, result(x, column(_PER_CHANNEL)), out, ew=ew)

    return describe


def _behind_convolution(values: npt.NDArray[np.int64], size: int) -> Describe:
    def describe(b: Bench) -> None:
        x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
        products = dense(x, kernels) * column(values)
        ew = replace(_channels(b, values, size), operation=EwOperation.MULTIPLY)
        for shift in (1, 9, 16)[: size + 1]:
            b.conv(x, kernels, products, out=OutConvert(1, shift, 0), ew=ew)

    return describe


def _register_operand(b: Bench) -> None:
    """Both signs, and beyond what 16 bits hold."""
    x = b.values(*_SHAPE)
    for number, shift in ((19, 0), (-150, 1), (70_000, 9)):
        ew = EwStage(register_operand=number)
        b.through(x, x + number, OutConvert(1, shift, 0), ew=ew)


def _truncation(b: Bench) -> None:
    """The shift and a second one by OUT_CVT: two roundings, ties in both; and the shift alone."""
    x, e = two(b)
    for shift in (1, 5, 9):
        ew = replace(operand(b, e, EwOperation.MULTIPLY), truncate=shift)
        b.map(x, half_even(x * e, shift), OutConvert(1, 9 - shift, 0), ew=ew)


def _relu(b: Bench) -> None:
    x = b.values(*_SHAPE)
    ew = EwStage(register_operand=20, relu=True)
    b.through(x, np.maximum(x + 20, 0), _HALF, ew=ew)


def _upper_limit(b: Bench) -> None:
    x = b.values(*_SHAPE)
    for limit in (1, 90):
        ew = EwStage(register_operand=20, relu=True, relux_max=limit)
        b.through(x, np.clip(x + 20, 0, limit), _HALF, ew=ew)


_BY_256: Final = OutConvert(1, 8, 0)


ELEMENT_WISE: Final[dict[str, Describe]] = {
    "element_wise_alone": alone,
    "operand_conversion": _conversion,
    "ew_addition": _addition,
    "ew_addition_behind_convolution": _addition_behind_convolution,
    "ew_addition_per_channel": _of_channels(EwOperation.ADD, np.add, _HALF),
    "ew_maximum": _of_two(EwOperation.MAX, np.maximum),
    "ew_minimum": _of_two(EwOperation.MIN, np.minimum),
    "ew_maximum_per_channel": _of_channels(EwOperation.MAX, np.maximum),
    "ew_minimum_per_channel": _of_channels(EwOperation.MIN, np.minimum),
    "ew_product": _of_two(EwOperation.MULTIPLY, np.multiply, _BY_256),
    "ew_product_per_channel": _of_channels(EwOperation.MULTIPLY, np.multiply, _BY_256),
    "ew_product_behind_convolution": _behind_convolution(_PER_CHANNEL, 1),
    "wide_ew_operand": _behind_convolution(MULTIPLIERS, 2),
    "ew_register_operand": _register_operand,
    "ew_truncation": _truncation,
    "ew_relu": _relu,
    "ew_upper_limit": _upper_limit,
}
"""By feature."""
