"""The DPU's stages in the hardware's order, as numbers.

    BS       x = (x + add) * multiply >> shift          then ReLU, RELUX
    BN       x = (x * multiply + add) >> shift          then ReLU, RELUX
    EW       x = x + operand  or  x * operand >> shift, or the larger or smaller of both
                                                        then ReLU, RELUX
    OUT_CVT  x = (x * scale >> shift) + offset          saturated to int8

BS adds before it multiplies, BN after. Shifts round half to even; OUT_CVT's rounds half away from
zero, or on a board that cannot (``last_rounding``) to even as well. An operand is a number (a
register) or an array with one value per channel (memory); EW's can also be another tensor,
converted before: (e + offset) * scale. A lookup table stands between BN and EW.

Every stage but a table rises with its input as long as no multiplier is negative, and so does a
pipeline without one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT8_MIN, INT8_MAX = -128, 127

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Operand = int | Int64Array


INDEX_STEP = 32
"""Units between the entries of a table."""
ENTRY_SCALE = 256
ENTRY_OFFSET = -64
"""An entry is ``result * scale + offset``, or the least int16."""
FUNCTION_STEPS = INT8_MAX - INT8_MIN + 1
"""Entries of a function of one int8 value."""


class EwOperation(enum.Enum):
    """EW's operation with its operand. A pipeline of integers subtracts by a negative scale."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True, eq=False)
class MultiplyStage:
    """BS, which adds before it multiplies, or BN, of which ``add`` is in units of the product.
    ``relux`` None: no upper clamp.
    """

    multiply: Operand = 1
    add: Operand = 0
    shift: int = 0
    relu: bool = False
    relux: int | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether it multiplies by nothing."""
        return isinstance(self.multiply, int) and self.multiply == 1 and self.shift == 0

    def of(self, channels: slice) -> MultiplyStage:
        """Return the stage of some channels."""
        add, multiply = _part(self.add, channels), _part(self.multiply, channels)
        return replace(self, add=add, multiply=multiply)


def table_entries(results: Int64Array) -> Int64Array:
    """Return the entries as the DPU's memory has them."""
    return np.maximum(results * ENTRY_SCALE + ENTRY_OFFSET, np.iinfo(np.int16).min)


@dataclass(frozen=True, slots=True, eq=False)
class Ew:
    """``operand`` None: another tensor, of which ``(e + offset) * scale`` is taken. ``shift``: of
    a product.
    """

    operation: EwOperation
    operand: Operand | None = None
    offset: int = 0
    scale: int = 1
    shift: int = 0
    relu: bool = False
    relux: int | None = None

    def of(self, x: FloatArray, e: FloatArray | float) -> FloatArray:
        """Return EW's result of ``x``, before its clamps. ``e``: values of the other tensor."""
        operand = (e + self.offset) * self.scale if self.operand is None else _column(self.operand)
        match self.operation:
            case EwOperation.ADD:
                return x + operand
            case EwOperation.SUBTRACT:
                return x - operand
            case EwOperation.MULTIPLY:
                return np.asarray(np.rint(x * (operand * 2.0**-self.shift)))
            case EwOperation.MAX:
                return np.maximum(x, operand)
            case EwOperation.MIN:
                return np.minimum(x, operand)


@dataclass(frozen=True, slots=True)
class OutConvert:
    """OUT_CVT: saturate8(round(x * scale >> shift) + offset), ``shift`` below 64.

    Ties go away from zero if ``ties_away`` (OUT_CVT_SHIFT.CVT_ROUND = 1), else to even. Pipelines
    ask for ties away, as TensorFlow Lite's reference kernels round so in their last step.
    ``exponent``: in fp16, behind a table, the result is what was found over 2^exponent.
    """

    scale: int = 1
    shift: int = 0
    offset: int = 0
    ties_away: bool = False
    exponent: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """All stages of a task. ``ew`` None: bypassed."""

    bs: MultiplyStage = MultiplyStage()
    bn: MultiplyStage = MultiplyStage()
    ew: Ew | None = None
    out: OutConvert = OutConvert(ties_away=True)

    def of(self, channels: slice) -> Pipeline:
        """Return the stages of some channels."""
        ew = self.ew
        if ew is not None and ew.operand is not None:
            ew = replace(ew, operand=_part(ew.operand, channels))
        return replace(self, bs=self.bs.of(channels), bn=self.bn.of(channels), ew=ew)

    def stages(self, x: FloatArray, e: FloatArray | float = 0.0) -> Iterator[FloatArray]:
        """Yield the result of each stage before its clamps; OUT_CVT's, last, as int8.
        ``x``: [channels, values] whole numbers of int32; ``e``: EW's other tensor.

        In doubles, which is exact as long as every stage stays within int32: products of 32 and 15
        bits take 47 of 53. The hardware saturates there; see ``fits_int32``.
        """
        x = yield from self.before_table(x)
        ew, out = self.ew, self.out
        if ew is not None:
            x = ew.of(x, e)
            yield x
            x = _clamped(x, ew.relu, ew.relux)
        x = x * (out.scale * 2.0**-out.shift)
        x = np.copysign(np.floor(np.abs(x) + 0.5), x) if out.ties_away else np.rint(x)
        yield np.asarray(np.clip(x + out.offset, INT8_MIN, INT8_MAX))

    def before_table(self, x: FloatArray) -> Generator[FloatArray, None, FloatArray]:
        """Yield the results of BS and BN before their clamps; return the clamped result."""
        bs, bn = self.bs, self.bn
        x = x + _column(bs.add) if np.any(bs.add) else x
        yield x
        x = _multiplied(x, bs)
        yield x
        x = _clamped(x, bs.relu, bs.relux)
        if np.any(bn.add):
            x = np.rint((x * _column(bn.multiply) + _column(bn.add)) * 2.0**-bn.shift)
        else:
            x = _multiplied(x, bn)
        yield x
        return _clamped(x, bn.relu, bn.relux)

    def index(self, accumulators: Int64Array) -> FloatArray:
        """Return BN's results for ``accumulators`` [channels, values]: the index of a table."""
        stages = self.before_table(accumulators.astype(np.float64))
        while True:
            try:
                next(stages)
            except StopIteration as end:
                return np.asarray(end.value)

    def run(self, x: FloatArray, e: FloatArray | float = 0.0) -> FloatArray:
        """Return the int8 results; see ``stages``."""
        for result in self.stages(x, e):
            last = result
        return last

    def checked(self, x: FloatArray, e: FloatArray | float = 0.0) -> tuple[FloatArray, bool]:
        """Return the int8 results, and whether no stage saturates for them."""
        *inner, result = self.stages(x, e)
        fits = all(value.min() >= INT32_MIN and value.max() <= INT32_MAX for value in inner)
        return result, fits

    def fits_int32(self, x: FloatArray, e: FloatArray | float = 0.0) -> bool:
        """Return whether no stage saturates for ``x``, so that ``run`` is exact, and no multiplier
        is negative, so that results rise with the input and with EW's other tensor: the ends of a
        range speak for all between them then.
        """
        ew, factors = self.ew, [self.bs.multiply, self.bn.multiply, self.out.scale]
        if ew is not None:
            factors.append(ew.scale)
        if ew is not None and ew.operation is EwOperation.MULTIPLY:
            factors.append(-1 if ew.operand is None else ew.operand)
        return all(bool(np.all(f >= 0)) for f in factors) and self.checked(x, e)[1]


@dataclass(frozen=True, slots=True)
class Difference:
    """The distance from TensorFlow Lite's results of nodes that are one task instead of several: at
    most so many LSB for any input, and the share of results that differ if every accumulator is as
    frequent.
    """

    most_lsb: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Stages of a convolution and of what follows it. ``differs`` says how far the results are from
    TensorFlow Lite's. ``entries``: of the tables, where a function follows; None: EW adds a map.
    """

    pipeline: Pipeline
    entries: Int64Array | None
    differs: Callable[[], Difference]


def _part(operand: Operand, channels: slice) -> Operand:
    return operand[channels] if isinstance(operand, np.ndarray) else operand


def _column(operand: Operand) -> FloatArray | float:
    """Return ``operand`` so that it meets [channels, values]."""
    if isinstance(operand, np.ndarray):
        return operand[:, np.newaxis].astype(np.float64)
    return float(operand)


def _multiplied(values: FloatArray, stage: MultiplyStage) -> FloatArray:
    """Return whole numbers times what ``stage`` multiplies by, shifted and rounded."""
    if stage.is_plain:
        return values
    return np.asarray(np.rint(values * (_column(stage.multiply) * 2.0**-stage.shift)))


def _clamped(values: FloatArray, relu: bool, relux: int | None) -> FloatArray:
    if relu:
        values = np.maximum(values, 0.0)
    return values if relux is None else np.minimum(values, float(relux))
