"""The pipeline of a requantisation: factors per channel that choosers propose, and clamps.

    BS       t = round((acc + moved) * C >> s1)
    BN       u = round(t * D >> s2)                in units of 2^-(R - b) LSB
    EW       v = u * 2^b                           in units of 2^-R LSB
    OUT_CVT  out = round_half_away(v >> R) + zero point

The activation clamps where zero is the zero point and one LSB a power of two: below behind BN,
above behind BN or, where channels have units of their own there, behind EW.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    Ew,
    EwOperation,
    Int64Array,
    MultiplyStage,
    Operand,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.tflite import Target
from delegate.model.graph import Activation

# BS and BN multipliers are signed 16-bit operands: 15 bits of magnitude. Documented.
FACTOR_BITS = 15
LARGEST_FACTOR = (1 << FACTOR_BITS) - 1
# OUT_CVT_SCALE as the vendor normalises it (0x4000..0x7fff); a pure shift is 2^14 >> 14.
UNIT_SCALE = 1 << 14
UNIT_SHIFT = 14
# What comes out of BS and BN keeps within so many bits, so that rounding cannot reach 2^31.
KEPT_BITS = 30
# Results this far from zero are saturated wherever the zero point is: twice the outputs' span.
OUTPUT_LSB = 2 * (INT8_MAX - INT8_MIN + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """C, D, shifts and units of a pipeline with two multipliers."""

    first: Operand
    """C: a number for all channels (a register), or one per channel (memory)."""
    second: Operand
    """D, likewise."""
    bs_shift: int
    bn_shift: int
    unit_bits: int
    """R."""
    ew_bits: Int64Array | None = None
    """[channels]: b; None: EW is free."""
    moved: Operand = 0
    scale: int = UNIT_SCALE
    """OUT_CVT's, of which 2^14 is 1. One LSB is 2^(R + 14) / scale behind BN; other scales are
    known only of nodes whose EW is free.
    """

    def for_all(self) -> Factors:
        """Return the factors of one channel as numbers for all."""
        names = ("first", "second", "moved")
        first = {name: int(np.ravel(getattr(self, name))[0]) for name in names}
        return replace(self, **first, ew_bits=None)

    @property
    def steps_per_lsb(self) -> float:
        """Return the steps behind BN that make one LSB."""
        return (1 << self.unit_bits) * (UNIT_SCALE / self.scale)


def pipeline_of(factors: Factors, target: Target) -> Pipeline:
    """Return the stages of ``factors`` with the clamps of ``target``."""
    activation, outputs, zero_point = target.activation, target.outputs, target.zero_point
    relu, relux, low = False, None, 0
    # Where BN has nothing else to do, int8 clamps what it can.
    is_clamped = isinstance(factors.second, int) and factors.second == 1
    is_clamped = is_clamped and outputs == (INT8_MIN, INT8_MAX)
    if activation is not Activation.NONE and not is_clamped:
        relu = True
        if activation is Activation.RELU_N1_TO_1:
            # No channel gets below -2^30: a bound beyond that is as good there, and fits int32.
            least = max(1, (1 << KEPT_BITS) >> factors.unit_bits)
            low = max(outputs[0] - zero_point, -least)
        # The nearest to the clamp gives it exactly.
        limit = round((outputs[1] - zero_point - low) * factors.steps_per_lsb)
        # Beyond int32 nothing is: int8 saturates. Some known forms have both clamps or none.
        relux = min(limit, INT32_MAX)
    bn, ew = MultiplyStage(factors.second, shift=factors.bn_shift, relu=relu, relux=relux), None
    if low:
        moved = round(-low * factors.steps_per_lsb)
        if bn.is_plain:
            # The lower bound is not the zero point: BN adds it before it clamps, EW takes it off.
            bn, ew = replace(bn, add=moved), Ew(EwOperation.ADD, -moved)
        else:
            # BN's number would count before its shift, beyond int32: EW adds and clamps.
            bn = MultiplyStage(factors.second, shift=factors.bn_shift)
            ew = Ew(EwOperation.ADD, moved, relu=True, relux=relux)
            zero_point += low
    elif factors.ew_bits is not None:
        bn = MultiplyStage(factors.second, shift=factors.bn_shift, relu=relu)
        powers = np.left_shift(np.int64(1), factors.ew_bits)
        ew = Ew(EwOperation.MULTIPLY, powers, relu=relux is not None, relux=relux)
    return Pipeline(
        MultiplyStage(factors.first, factors.moved, factors.bs_shift),
        bn,
        ew,
        OutConvert(factors.scale, UNIT_SHIFT + factors.unit_bits, zero_point, ties_away=True),
    )


def settled(target: Target) -> tuple[Target, Int64Array]:
    """Return ``target`` with channels that give an end of the outputs for every input brought near
    that end, and how far each channel's accumulators were moved for it (mostly 0).

    Pruning and converters leave biases at the ends of int32 in channels that hardly vary, and the
    stages keep as many bits as the largest accumulator of a layer needs. How far beyond the range a
    channel lies changes no result: its bias can be moved towards zero.
    """
    # How far the accumulator nearest to zero is from it; negative where the range includes zero.
    nearest = np.maximum(target.low, -target.high)
    rows = np.flatnonzero(nearest * target.real > OUTPUT_LSB)
    moved = np.zeros_like(target.q)
    if not rows.size:
        return target, moved
    ends = target.of(rows).first(np.array([1 - OUTPUT_LSB, OUTPUT_LSB]))
    to_below, to_above = ends[:, 0] - 1 - target.high[rows], ends[:, 1] - target.low[rows]
    moved[rows] = np.where(target.low[rows] > 0, to_above, to_below)
    return replace(target, low=target.low + moved, high=target.high + moved), moved
