"""The numbers of an addition: two operand multipliers and one output conversion.

out = round_half_away((a * Ma + b * Mb) * SCALE / 2^SHIFT) + zero_point, with a and b without their
zero points. TFLite works with 20 extra bits and 31-bit multipliers, so its result is the real one
rounded half away; what matters here is how near Ma * SCALE / 2^SHIFT comes to sa / so, and the same
for b. One SCALE has to serve both: every 15-bit one is tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delegate.errors import LoweringError
from delegate.graph import Activation
from delegate.lower.requantize import activation_range
from delegate.lower.stages import INT8_MAX, INT8_MIN, INT32_MAX

# Operand multipliers stay at or below 2^14: converted operands then reach 255 * 2^14, as in
# programs observed on silicon.
MAX_OPERAND_MULTIPLIER = 1 << 14
MIN_SCALE, MAX_SCALE = 1 << 14, (1 << 15) - 1
MAX_OUT_SHIFT = 62
# |a| <= 255: both operands are int8 minus an int8 zero point.
OPERAND_RANGE = INT8_MAX - INT8_MIN


@dataclass(frozen=True, slots=True)
class AddScales:
    """``error_lsb`` bounds the distance to the real sum before rounding, over all operands."""

    first: int
    second: int
    scale: int
    shift: int
    error_lsb: float

    @property
    def steps_per_lsb(self) -> float:
        """One output LSB in units of the sum."""
        return 2.0**self.shift / self.scale


def choose_add_scales(node: int, first: float, second: float) -> AddScales:
    """The nearest scales for first = sa / so and second = sb / so. Raises LoweringError beyond half
    an LSB of error.
    """
    return ranked_add_scales(node, first, second, 1)[0]


def ranked_add_scales(node: int, first: float, second: float, count: int) -> list[AddScales]:
    """Up to ``count`` choices with an error below half an LSB, best first, at least one. Raises
    LoweringError.
    """
    scale = np.arange(MIN_SCALE, MAX_SCALE + 1, dtype=np.int64)
    largest = max(first, second)
    # The largest shift with which the larger multiplier still fits.
    room = np.floor(np.log2((MAX_OPERAND_MULTIPLIER + 0.49) * scale / largest)).astype(np.int64)
    shift = np.clip(room, 0, MAX_OUT_SHIFT)
    power = np.ldexp(1.0, shift.astype(np.int32))
    a = np.rint(first * power / scale).astype(np.int64)
    b = np.rint(second * power / scale).astype(np.int64)
    error = np.abs(a * scale / power - first) + np.abs(b * scale / power - second)
    error[np.maximum(a, b) > MAX_OPERAND_MULTIPLIER] = np.inf
    order = np.argsort(error, kind="stable")[:count]
    found = [
        AddScales(int(a[i]), int(b[i]), int(scale[i]), int(shift[i]), error_lsb)
        for i in order
        if (error_lsb := float(error[i]) * OPERAND_RANGE) < 0.5
    ]
    if not found:
        raise LoweringError(
            node,
            "error_below_half_lsb",
            f"the operand scales are {first:.6g} and {second:.6g} output LSBs; the sum could be "
            f"off by {float(error[order[0]]) * OPERAND_RANGE:.3g} LSB before rounding",
        )
    return found


def sum_clamp(
    scales: AddScales, activation: Activation, output_scale: float, zero_point: int
) -> tuple[bool, int | None]:
    """(ReLU, RELUX limit) for the sum, counted from the lower clamp.

    A limit's output is exactly the clamp: it is the nearest sum to it.
    """
    low, high = activation_range(activation, output_scale, zero_point)
    if activation is Activation.NONE:
        return False, None
    if activation is not Activation.RELU_N1_TO_1:
        low = zero_point
        if high >= INT8_MAX:
            return True, None
    limit = round((high - low) * scales.steps_per_lsb)
    return True, limit if limit <= INT32_MAX else None


def lower_clamp(
    scales: AddScales, activation: Activation, output_scale: float, zero_point: int
) -> tuple[int, int]:
    """A lower clamp that is not the zero point: in steps of the sum, and in output LSBs; else 0."""
    if activation is not Activation.RELU_N1_TO_1:
        return 0, 0
    low_lsb = activation_range(activation, output_scale, zero_point)[0] - zero_point
    return round(low_lsb * scales.steps_per_lsb), low_lsb
