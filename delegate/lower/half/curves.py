"""Functions of a number in fp16: BN makes the index, the DPU's tables have the function, linear
between entries.

The tables reach over 2^15 units of the index around 0, with an entry every 32; beyond them their
ends hold. What leaves them is an integer over 2^15.

Operators on fp16 maps, element by element, as tasks of the DPU alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.lower.binary_elementwise import require_dense
from delegate.lower.half.bound import ROUNDED
from delegate.lower.half.stages import half_bits
from delegate.lower.lowered import HalfBound
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import INDEX_STEP, OutConvert
from delegate.lower.operation import ConstantPool, Memory, Operation, Plan, Planning, plan_of
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


_SUMMANDS_BYTES = Element.FP16.lanes * Element.FP32.bytes
"""The bytes of a surface's summands in BS."""


def half_map_tasks(
    chip: Chip,
    given: Stages,
    operands: Sequence[DeviceTensor],
    target: DeviceTensor,
    *,
    has_factors: bool = False,
    element: Element = Element.FP16,
) -> Iterator[Task]:
    """Yield the tasks of ``given`` stages, see ``plan_half_map``. ``element``: as which they take
    the numbers.
    """
    main, *others = operands
    for part in map_parts(chip, target.view):
        bs, bn, ew = given.bs, given.bn, given.ew
        if bs.operands is not None:
            place = bs.operands.moved(part.surfaces.start * _SUMMANDS_BYTES)
            bs = replace(bs, operands=place)
        if has_factors:
            image = part.image if others[0].view.images > 1 else 0
            bn = replace(bn, operands=others[0].pixel(image))
        if bn.operands is not None:  # fp16 per channel, so an atom per surface
            place = bn.operands.moved(part.surfaces.start * ATOM_BYTES)
            bn = replace(bn, operands=place)
        if ew is not None:
            (other,) = others
            stride = other.surface_stride_bytes
            ew = replace(ew, operand=part.place(other), surface_stride_bytes=stride)
        own = given._replace(bs=bs, bn=bn, ew=ew)
        yield part.task(main, target, own, element)


def plan_half_map(
    planning: Planning,
    operation: Operation,
    stages: Callable[[ConstantPool], Stages],
    bound: HalfBound,
    *,
    has_factors: bool = False,
) -> Plan:
    """Return the plan of ``stages``, EW without its operand, which put their constants into the
    pool. The second operand, if there is one, is EW's and has the result's shape; ``has_factors``:
    it has one pixel, by whose channels BN multiplies. ``bound`` says how far results are from exact
    ones.
    """

    def tasks(memory: Memory) -> Iterator[Task]:
        given = [memory.tensors[t] for t in operation.operands]
        if has_factors:
            require_dense(operation.node, given[1])
        own = stages(memory.constants)
        yield from half_map_tasks(
            planning.chip, own, given, memory.tensors[operation.result], has_factors=has_factors
        )

    channels = planning.tensor(operation.result).view.channels
    touched = surfaces_touched(planning.chip, channels)
    reads = tuple((tensor, touched) for tensor in dict.fromkeys(operation.operands))
    footprint = Footprint(operation.node, reads, operation.result, touched)
    return plan_of(planning, operation, footprint, tasks).within(bound)
