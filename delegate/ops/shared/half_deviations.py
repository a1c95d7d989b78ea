"""One over the standard deviation of a pixel's channels in fp16, whatever their magnitude is.

With distances d, and any number r for each pixel:

    1 / sqrt(mean(d^2) + eps)  =  r / sqrt(mean((d r)^2) + eps r^2)

So r need not be precise, if all tasks take the same one. It is one over the mean magnitude of d,
plus a little, from a table; d r then is of about 1 in every pixel, its squares neither overflow nor
vanish, and what is under the root, times a power of two, is within fp16's normal numbers. Values of
a pixel are maps of a surface, all channels the same, so that no lane has anything else. What is no
number, or beyond fp16, makes the pixel's result NaN: the tables hold nothing else outside the range
that numbers reach.

Imported for float models only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from delegate.chip.element import Element
from delegate.lower.half.curves import Power, half_map_tasks
from delegate.lower.half.stages import half_bits
from delegate.lower.lowered import HalfBound
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.task import BnStage, BsStage, EwStage, Source, Stages, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.ops.shared import half_rows
from delegate.ops.shared.half import constant_values

_UNIT: Final = 2.0**-11
"""The share of a number by which rounding to fp16 moves it."""
_SINGLE: Final = 2.0**-24
_SUBNORMAL: Final = 2.0**-25
_LEAST_NORMAL: Final = 2.0**-14
_MOST: Final = 2.0**15
"""The largest number that tables are asked for."""
_PRODUCT: Final = 126.0
"""The magnitude of a distance times r, over twice the largest number it could be: 252 squared is
below 2^16."""
_PRODUCTS: Final = 32
"""The array rounds sums of so many."""

_MULTIPLY: Final = EwStage(operand_bytes=Element.FP16.bytes, operation=EwOperation.MULTIPLY)
_ADD: Final = replace(_MULTIPLY, operation=EwOperation.ADD)
DISTANCE: Final = Stages(ew=replace(_MULTIPLY, operation=EwOperation.SUBTRACT))
SQUARE: Final = Stages(ew=_MULTIPLY)


@dataclass(frozen=True, slots=True)
class Scales:
    """The constants for ``channels``, and ``epsilon`` below the root."""

    channels: int
    epsilon: float

    @property
    def floor(self) -> float:
        """Return what is added to half of the mean magnitude, so that r has a largest value."""
        return float(np.float16(max(_LEAST_NORMAL, math.sqrt(self.epsilon))))

    @property
    def numerator(self) -> float:
        """Return r times what it is the reciprocal of: so small that no square is above 2^16, as
        the largest distance is at most ``channels`` times the mean magnitude.
        """
        return min(1.0, 2.0 ** math.floor(math.log2(_PRODUCT / self.channels)))

    @property
    def exponent(self) -> int:
        """Return the power of two that what is under the root is multiplied by, an even one: the
        mean of squares is at most 2^16 over half of the channels.
        """
        return 2 * math.floor(math.log2(self.channels / 2) / 2)

    @property
    def magnitude_weight(self) -> float:
        """Return the weight of a magnitude, not above one over twice the channels."""
        found = np.float16(1 / (2 * self.channels))
        is_above = float(found) * 2 * self.channels > 1
        return float(np.nextafter(found, np.float16(0)) if is_above else found)

    @property
    def square_weight(self) -> float:
        return float(np.float16(2.0**self.exponent / self.channels))

    @property
    def factors(self) -> tuple[float, float]:
        """Return the two fp16 by which r squared is multiplied, the second a power of two."""
        share, exponent = math.frexp(self.epsilon * 2.0**self.exponent)
        second = exponent // 2
        return float(np.float16(math.ldexp(share, exponent - second))), 2.0**second

    @property
    def least_square(self) -> float:
        """Return the least number under the root. For a mean magnitude of s at most the deviation,
        (s^2 + eps) / (s / 2 + floor)^2 is at least 1 / (1/4 + floor^2 / eps), by Cauchy's
        inequality.
        """
        ratio = 1 / (0.25 + self.floor**2 / self.epsilon)
        return 0.95 * 2.0**self.exponent * self.numerator**2 * ratio

    @property
    def reciprocal(self) -> Power:
        return Power(self.numerator, -1.0, self.floor, _MOST)

    @property
    def root(self) -> Power:
        """Return the root's table, from a power of two on."""
        return Power(1.0, -0.5, 2.0 ** math.floor(math.log2(self.least_square)), _MOST)

    @property
    def bound(self) -> HalfBound:
        """Return the bound. Under the root are the roundings of distances and products, twice each,
        as they are squared, of squares, weights, sums, and of the last addition; what is lost of
        subnormal numbers is compared with the least number that can be there.
        """
        groups = -(-self.channels // _PRODUCTS)
        under = (1 + _UNIT) ** 8 * (1 + _SINGLE) ** (2 * groups + 9) - 1
        # A product's rounding counts twice its magnitude, of which the mean is at most 2.
        lost = _SUBNORMAL * (2.0**self.exponent * (2 * 2 * self.numerator + 1) * 1.01 + 3)
        under += lost / self.least_square
        behind = (1 + self.root.relative) * (1 + _SINGLE) ** 2 * (1 + _UNIT)
        return HalfBound((1 - under) ** -0.5 * behind - 1, absolute=_SUBNORMAL)


def plan_deviation(planning: Planning, operation: Operation) -> Plan:
    """Plan one over the deviation of the operands' distances: of each other, or of one alone.
    Raises LoweringError.
    """
    chip, node = planning.chip, operation.node
    first, second, epsilon = node.inputs
    scales = Scales(
        planning.tensor(first).elements.channels,
        float(constant_values(planning.graph, epsilon).item()),
    )
    like = planning.tensor(first)
    large = half_rows.map_of(chip, like, scales.channels)
    small = half_rows.map_of(chip, like, Element.FP16.lanes)
    reads = tuple(
        (t, surfaces_touched(chip, planning.tensor(t).view.channels))
        for t in dict.fromkeys((first, second))
    )
    written = surfaces_touched(chip, planning.tensor(operation.result).view.channels)
    footprint = Footprint(
        *(node, reads, operation.result, written),
        work_bytes=_LARGE * large.size_bytes + _SMALL * small.size_bytes,
    )

    def tasks(memory: Memory) -> Iterator[Task]:
        place, maps = memory.work, []
        given = memory.tensors[first]
        for one, count in ((large, _LARGE), (small, _SMALL)):
            for _ in range(count):
                channels = one.elements.channels
                maps.append(half_rows.map_of(chip, given, channels, place))
                place = place.moved(one.size_bytes)
        yield from _Tasks(planning, operation, memory, scales, tuple(maps)).tasks(first, second)

    return plan_of(planning, operation, footprint, tasks).within(scales.bound)


_LARGE: Final = 3
_SMALL: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Tasks:
    """The tasks of an operation, with ``maps`` in its work area."""

    planning: Planning
    operation: Operation
    memory: Memory
    scales: Scales
    maps: tuple[DeviceTensor, ...]

    def tasks(self, first: int, second: int) -> Iterator[Task]:
        wide, other, products, *small = self.maps
        means, r, squares, constant, roots = small
        given, scales = self.memory.tensors, self.scales
        distances = given[first]
        if second != first:
            centres = given[second]
            if centres.elements.channels != scales.channels:
                yield from self._spread(centres, wide)
                centres = wide
            distances = other
            yield from self._map(DISTANCE, given[first], centres, distances)
        yield from self._map(self._magnitude, distances, target=wide)
        yield from self._sums(wide, means, scales.magnitude_weight, scales.floor)
        yield from self._map(scales.reciprocal.stages, means, target=r, element=Element.INT16)
        yield from self._spread(r, wide)
        yield from self._map(SQUARE, distances, wide, products)
        yield from self._map(SQUARE, products, products, wide)
        yield from self._sums(wide, squares, scales.square_weight)
        first_factor, second_factor = map(half_bits, scales.factors)
        by = BsStage(mul=Source.REGISTER, mul_operand=first_factor)
        times = BnStage(mul=Source.REGISTER, mul_operand=second_factor)
        yield from self._map(Stages(by, times, _MULTIPLY), r, r, constant)
        yield from self._map(Stages(ew=_ADD), squares, constant, means)
        yield from self._map(scales.root.stages, means, target=roots, element=Element.INT16)
        scale = BnStage(mul=Source.REGISTER, mul_operand=half_bits(2.0 ** (scales.exponent // 2)))
        target = given[self.operation.result]
        yield from self._map(Stages(bn=scale, ew=_MULTIPLY), roots, r, target)

    @property
    def _magnitude(self) -> Stages:
        """Return the stages of a magnitude: negative numbers times -1, per channel."""
        surfaces = surfaces_touched(self.planning.chip, self.maps[0].view.channels)
        slopes = self.memory.constants.add(
            np.full(surfaces * Element.FP16.lanes, -1, "<f2").tobytes()
        )
        return Stages(bn=BnStage(mul=Source.MEMORY, prelu=True, operands=slopes))

    def _map(
        self,
        stages: Stages,
        main: DeviceTensor,
        other: DeviceTensor | None = None,
        target: DeviceTensor | None = None,
        element: Element = Element.FP16,
    ) -> Iterator[Task]:
        assert target is not None
        operands = [main] if other is None else [main, other]
        yield from half_map_tasks(self.planning.chip, stages, operands, target, element=element)

    def _spread(self, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
        """Yield the task that gives every channel of ``target`` the first one of ``source``."""
        weights = half_rows.first_lane(target.elements.channels, source)
        yield from self._dense(source, target, weights)

    def _sums(
        self, source: DeviceTensor, target: DeviceTensor, weight: float, bias: float = 0.0
    ) -> Iterator[Task]:
        shape = target.elements.channels, source.elements.channels
        yield from self._dense(source, target, np.full(shape, weight, np.float16), bias)

    def _dense(
        self, source: DeviceTensor, target: DeviceTensor, weights: half_rows.Half, bias: float = 0.0
    ) -> Iterator[Task]:
        index = self.operation.node.index
        conv = half_rows.dense(self.planning.chip, index, source, target, weights, bias)
        yield from half_rows.dense_tasks(conv, self.memory.constants)
