"""Functions of a number in fp16: BN makes the index, the DPU's tables have the function, linear
between entries.

The tables reach over 2^15 units of the index around 0, with an entry every 32; beyond them their
ends hold. What leaves them is an integer over 2^15.

Operators on fp16 maps, element by element, as tasks of the DPU alone.

Powers of a number in fp16, such as its reciprocal, over as many powers of two as fp16 has.

The DPU takes the number's pattern of bits as an int16. Patterns rise with the number, with as many
of them between any two powers of two, and so do those of results: a table with an entry every 32
patterns has 32 entries for each power of two, and what is linear between two of them is off by less
than the last place, wherever in the range it is. A power whose factor is a power of two, too, has
its own powers of two at entries, so that results between two entries have one exponent. The index
is the pattern itself, so that it is exact.

Certainty: others ran tables in tasks of the DPU alone of int8 and fp16, and element-wise tasks of
int16, not both together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.lower.binary_elementwise import require_dense
from delegate.lower.half.stages import ROUNDED, half_bits
from delegate.lower.lowered import HalfBound
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import INDEX_STEP, OutConvert
from delegate.lower.operation import (
    ConstantPool,
    Memory,
    Operation,
    Plan,
    Planning,
    plan_of,
    with_tasks_behind,
)
from delegate.lower.task import CURVE_ENTRIES, BnStage, Source, Stages, TableUse, Task
from delegate.lower.tiling.element_wise import map_parts, surfaces_touched

RESULT_BITS = 15
_MOST_ENTRY = (1 << RESULT_BITS) - 1
_REACH = CURVE_ENTRIES // 2 * INDEX_STEP
"""Units of the index from 0 to the tables' ends."""


@dataclass(frozen=True, slots=True)
class Curve:
    """``function`` within -1 to 1, of slopes up to ``slope`` and second derivatives up to ``bend``,
    perhaps with an edge at 0, and ``ends`` at infinity. ``units``: of the index per unit of the
    number, an fp16.
    """

    function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
    slope: float
    bend: float
    ends: tuple[float, float]
    units: float

    @property
    def entries(self) -> npt.NDArray[np.int64]:
        """Return the tables' content. Their ends are in the middle of all that the function has
        there and beyond, where they hold, too.
        """
        index = np.arange(-_REACH, _REACH + 1, INDEX_STEP)
        values = self.function(index / self.units)
        values[[0, -1]] = (values[[0, -1]] + np.array(self.ends)) / 2
        found = np.rint(values * 2.0**RESULT_BITS).astype(np.int64)
        return np.asarray(np.minimum(found, _MOST_ENTRY))

    @property
    def stages(self) -> Stages:
        """Return the stages of the task that looks the curve up."""
        use = TableUse((self.entries.astype("<i2").tobytes(),), 0)
        return Stages(
            bn=BnStage(mul=Source.REGISTER, mul_operand=half_bits(self.units)),
            table=use,
            out_convert=OutConvert(exponent=RESULT_BITS),
        )

    @property
    def bound(self) -> HalfBound:
        """Return the bound. An index is off by half a unit, and by an fp32's rounding, which is
        less than another 2^-8; a chord leaves the function by an eighth of its bend times the
        step's square; entries are off by half a unit of the result, the largest by one;
        interpolation rounds, or truncates, once more; beyond the tables the function goes on.
        """
        units = self.units
        index = self.slope * (0.5 + 2.0**-8) / units
        chord = self.bend * (INDEX_STEP / units) ** 2 / 8
        reach = np.array([-_REACH, _REACH]) / units
        tails = float(np.abs(self.function(reach) - np.array(self.ends)).max())
        absolute = max(index + chord, tails) + 2 * 2.0**-RESULT_BITS
        return HalfBound(
            ROUNDED.relative, absolute=absolute * (1 + ROUNDED.relative) + ROUNDED.absolute
        )


def half_map_tasks(
    chip: Chip,
    given: Stages,
    operands: Sequence[DeviceTensor],
    target: DeviceTensor,
    *,
    element: Element = Element.FP16,
) -> Iterator[Task]:
    """Yield the tasks of ``given`` stages, see ``plan_half_map``. ``element``: as which they take
    the numbers.
    """
    main, *others = operands
    for part in map_parts(chip, target.view):
        bn, ew = given.bn, given.ew
        behind = part.surfaces.start * ATOM_BYTES  # of fp16 per channel, an atom per surface
        if bn.operands is not None:
            bn = replace(bn, operands=bn.operands.moved(behind))
        if ew is not None and ew.per_channel:
            (other,) = others
            image = part.image if other.view.images > 1 else 0
            ew = replace(ew, operand=other.pixel(image).moved(behind))
        elif ew is not None:
            (other,) = others
            stride = other.surface_stride_bytes
            ew = replace(ew, operand=part.place(other), surface_stride_bytes=stride)
        own = given._replace(bn=bn, ew=ew)
        yield part.task(main, target, own, element)


def clamped(planning: Planning, plan: Plan, clamp: BnStage) -> Plan:
    """Return ``plan`` with tasks that clamp its result: no form is known that does behind EW, or
    where pixels lie apart.
    """
    if not clamp.relu:
        return plan
    assert plan.completed is None  # which would give a plan without them
    chip, stages = planning.chip, Stages(bn=clamp)
    writes = surfaces_touched(chip, planning.tensor(plan.operation.result).view.channels)
    return with_tasks_behind(
        *(planning, plan, writes),
        lambda source, target: half_map_tasks(chip, stages, [source], target),
    )


def plan_half_map(
    planning: Planning,
    operation: Operation,
    stages: Callable[[ConstantPool], Stages],
    bound: HalfBound,
    *,
    constant: Callable[[ConstantPool, DeviceTensor], DeviceTensor] | None = None,
) -> Plan:
    """Return the plan of ``stages``, EW without its operand, which put their constants into the
    pool. The second operand, if there is one, is EW's and has the result's shape, or one pixel
    where EW takes a number per channel; ``constant``: makes one for a result instead. ``bound``
    says how far results are from exact ones.
    """

    def tasks(memory: Memory) -> Iterator[Task]:
        given = [memory.tensors[t] for t in operation.operands]
        own, target = stages(memory.constants), memory.tensors[operation.result]
        if own.ew is not None and own.ew.per_channel:
            require_dense(operation.node, given[1])
        if constant is not None:
            given.append(constant(memory.constants, target))
        yield from half_map_tasks(planning.chip, own, given, target)

    channels = planning.tensor(operation.result).view.channels
    touched = surfaces_touched(planning.chip, channels)
    reads = tuple((tensor, touched) for tensor in dict.fromkeys(operation.operands))
    footprint = Footprint(operation.node, reads, operation.result, touched)
    return plan_of(planning, operation, footprint, tasks).within(bound)


Real = npt.NDArray[np.float64]

_MIDDLE: Final = CURVE_ENTRIES // 2 * INDEX_STEP
"""The pattern that is in the middle of the tables, which have all of positive numbers."""
_NAN: Final = 0x7E00


@dataclass(frozen=True, slots=True)
class Power:
    """``factor * x ** exponent`` of normal numbers from ``least`` to ``most``; of all others NaN,
    at the latest 32 patterns on.
    """

    factor: float
    exponent: float
    least: float
    most: float

    @property
    def entries(self) -> npt.NDArray[np.int64]:
        """Return the tables' content: patterns of results."""
        patterns = np.arange(CURVE_ENTRIES) * INDEX_STEP
        first, last = (int(np.float16(end).view(np.int16)) for end in (self.least, self.most))
        within = patterns[(patterns > first - INDEX_STEP) & (patterns < last + INDEX_STEP)]
        found = np.full(CURVE_ENTRIES, _NAN)
        results = self.factor * _numbers(within) ** self.exponent
        found[within // INDEX_STEP] = results.astype(np.float16).view(np.int16)
        return found

    @property
    def stages(self) -> Stages:
        """Return the stages of the task that looks it up, of int16."""
        use = TableUse((self.entries.astype("<i2").tobytes(),), 0)
        return Stages(bn=BnStage(-_MIDDLE, Source.REGISTER, 1), table=use)

    @property
    def relative(self) -> float:
        """Return how far results are off at most, of every number, whichever way a chip rounds what
        lies between two entries; infinite: fp16 does not hold them.
        """
        first, last = (int(np.float16(end).view(np.int16)) for end in (self.least, self.most))
        patterns = np.arange(first, last + 1)
        exact = self.factor * _numbers(patterns) ** self.exponent
        step, rest = np.divmod(patterns, INDEX_STEP)
        entries = self.entries
        whole, part = np.divmod((entries[step + 1] - entries[step]) * rest, INDEX_STEP)
        ends = (entries[step] + whole, entries[step] + whole + (part > 0))
        return max(float(np.abs(_numbers(end) / exact - 1).max()) for end in ends)


def _numbers(patterns: npt.NDArray[np.int64]) -> Real:
    return patterns.astype(np.int16).view(np.float16).astype(np.float64)
