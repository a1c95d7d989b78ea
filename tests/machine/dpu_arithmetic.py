"""The arithmetic of the DPU's stages on NumPy integers, as descriptions of the hardware read.

Shared by the oracles that judge registers and the simulator from outside. Arrays are int64 of any
shape; operands and shifts are numbers or broadcast. Nothing saturates but ``bs`` and ``bn``.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Operand = Array | int

INT32 = np.iinfo(np.int32)


def half_even(value: Array, shift: Operand) -> Array:
    """``value`` / 2^``shift`` to nearest, ties to even."""
    shift = np.asarray(shift, np.int64)
    floor = value >> shift
    rest = value - (floor << shift)
    # Without a shift there is no rest: any half above 0 will do.
    half = np.left_shift(np.int64(1), np.maximum(shift - 1, 0))
    return np.asarray(floor + ((rest > half) | ((rest == half) & (floor & 1 == 1) & (shift > 0))))


def half_away(value: Array, shift: int) -> Array:
    """``value`` / 2^``shift`` to nearest, ties away from zero."""
    if shift == 0:
        return value
    rounded = (np.abs(value) + (1 << (shift - 1))) >> shift
    return np.where(value < 0, -rounded, rounded)


def rounded(value: Array, shift: int, ties_away: bool) -> Array:
    """``value`` / 2^``shift``, as OUT_CVT and the conversion of operands round."""
    return half_away(value, shift) if ties_away else half_even(value, shift)


def shift_by_sign(value: Array, shift: int, negative: int) -> Array:
    """Ties to even; ``shift`` serves values >= 0, ``negative`` those below."""
    return half_even(value, np.where(value < 0, negative, shift))


def saturate(value: Array) -> Array:
    """To int32."""
    return np.clip(value, INT32.min, INT32.max)


def bs(
    value: Array, alu: Operand | None, mul: Operand | None, shift: int = 0, negative: int = 0
) -> Array:
    """Adds, then multiplies and shifts; saturates after each. None: the part is bypassed."""
    if alu is not None:
        value = saturate(value + alu)
    return value if mul is None else saturate(shift_by_sign(value * mul, shift, negative))


def bn(
    value: Array, alu: Operand | None, mul: Operand | None, shift: int = 0, negative: int = 0
) -> Array:
    """Multiplies, then adds, then shifts the sum, if there is a product; then saturates."""
    total = (value if mul is None else value * mul) + (0 if alu is None else alu)
    return saturate(total if mul is None else shift_by_sign(total, shift, negative))
