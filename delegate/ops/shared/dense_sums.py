"""Sums by dense convolutions: of a pixel's channels, by a kernel of ones, and of images that are
larger than a window: in two steps, in int8, exactly.

An image's pixels lie one after the other, and so do its surfaces. The first step sums strips of n
pixels, for each of which two numbers of 8 bits are enough:

    quotient  q = round(sum / n)
    excess    e = n * q - sum        at most half of n, and what the quotient's rounding is off by

A depthwise convolution makes the quotients, a dense one the excesses: it sums with weights of -1,
and EW adds n times the quotients. The last step sums n * q - e over all strips, which is the sum of
the image whatever q was rounded to, and requantises it. Quotients and excesses are its channels.

Certainty: each task has a form that others ran, in ``auto``; the excess's is that of a convolution
with an addition in a vendor's program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import stages_of
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.legalize import may_add_behind
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.numerics.factors import UNIT_SCALE, UNIT_SHIFT
from delegate.lower.numerics.image_sums import quotient
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    Ew,
    EwOperation,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.operation import ConstantPool, Memory, Operation, Plan, Planning, plan_of
from delegate.lower.rules import TASKS_KEEP_MEMORY
from delegate.lower.selection import Moving, Selection, is_depthwise, kernels, surfaces_written
from delegate.lower.task import BnStage, ConvTask, Pair, Ref, Stages, Task, TaskKind
from delegate.ops.shared.pooling import require_rows_together

_AS_IT_IS: Final = Selection()
_PLAIN: Final = MultiplyStage()


@dataclass(frozen=True, slots=True)
class Strips:
    """The kernels of both steps, rows and columns: the ``first`` one's over the pixels of a strip,
    the ``last`` one's over the strips of an image.
    """

    first: Pair
    last: Pair

    @property
    def pixels(self) -> int:
        """Return the pixels of a strip."""
        return prod(self.first)

    @property
    def count(self) -> int:
        """Return the strips of an image."""
        return prod(self.last)

    def are_together(self, chip: Chip) -> bool:
        """Return whether one task sums the strips of all surfaces, where windows are as many rows
        apart as a surface has.
        """
        return self.last[0] <= chip.limits.stride

    def costs(self, chip: Chip) -> tuple[bool, bool, int]:
        """Return what costs most first: tasks; odd rows of 32 channels, which leave a part of CBUF
        empty; weights, of 32 channels for the excess and of 16 for the last step.
        """
        return not self.are_together(chip), self.first[1] % 2 > 0, 2 * self.pixels + self.count


def has_strips(chip: Chip) -> bool:
    """Return whether the tasks of strips are known."""
    is_free = Primitive.UNEQUAL_SIDES not in chip.lacks
    return is_free and may_add_behind(chip, TaskKind.DENSE, BnStage())


def longest_strip(_: Chip) -> int:
    """Return the most pixels of a strip, the largest weight: the last step's of its quotient."""
    return INT8_MAX


def most_strips(chip: Chip) -> int:
    """Return the most strips, whose weights in the last step fit CBUF: 16 kernels of 32 channels,
    beside the strips themselves.
    """
    lanes = 2 * CHANNELS_PER_SURFACE
    # A bank holds the strips: the most have 22 KiB.
    return (chip.cbuf.banks - 1) * chip.cbuf.bank_bytes // (CHANNELS_PER_SURFACE * lanes)


def strips_of(chip: Chip, pixels: int) -> Strips | None:
    """Return the strips that the sum of so many pixels is made of: of those that take the fewest
    tasks the ones with the least weights. None: there are none.
    """
    if not has_strips(chip):
        return None
    found = []
    for length in range(2, longest_strip(chip) + 1):
        count, rest = divmod(pixels, length)
        if rest or count > most_strips(chip):
            continue
        first, last = _sides(chip, length), _sides(chip, count)
        if first is not None and first[0] <= chip.limits.stride and last is not None:
            found.append(Strips(first, last))
    return min(found, key=lambda one: one.costs(chip), default=None)


def takes_groups(chip: Chip, strips: Strips, members: int) -> bool:
    """Return whether so many channels are summed with an image: groups are parts of surfaces, or
    surfaces whose strips a kernel has one below the other.
    """
    surfaces, rest = divmod(members, CHANNELS_PER_SURFACE)
    if surfaces == 0:
        return CHANNELS_PER_SURFACE % members == 0
    is_near = surfaces * strips.last[0] <= chip.limits.kernel_size
    return rest == 0 and is_near and surfaces * strips.count <= most_strips(chip)


def _sides(chip: Chip, pixels: int) -> Pair | None:
    """Return the rows and columns of a kernel of so many taps, the fewest rows."""
    most = chip.limits.kernel_size
    fitting = (n for n in range(1, most + 1) if pixels % n == 0 and pixels // n <= most)
    return next(((rows, pixels // rows) for rows in fitting), None)


def plan_large_sum(
    planning: Planning,
    operation: Operation,
    strips: Strips,
    stages: tuple[int, Pipeline],
    members: int = 1,
) -> Plan:
    """Plan the sum of every image. ``stages``: of the sum, to which they add a number in BS first.
    ``members``: of groups of channels, each of which gets the sum of all. Raises LoweringError.
    """
    operand, node = operation.operands[0], operation.node
    count = surfaces_of(planning.tensor(operand).view.channels)
    area = _surface_area(planning.chip, strips)
    # Every task writes whole groups, the last one results of as many surfaces as there are.
    written = count * planning.chip.groups.surfaces_written(1, is_depthwise=False)
    footprint = Footprint(
        node, ((operand, count),), operation.result, written, work_bytes=count * area
    )

    def tasks(memory: Memory) -> Iterator[Task]:
        moving = Moving(planning.chip, node, memory.constants)
        source, target = memory.tensors[operand], memory.tensors[operation.result]
        for image in range(source.view.images):
            given, made = source.image(image), target.part(image, 1, 1)
            require_rows_together(node, given)
            strides = given.surface_stride_bytes, made.surface_stride_bytes
            together = count if strides == (given.view.pixels * ATOM_BYTES, ATOM_BYTES) else 1
            if members > CHANNELS_PER_SURFACE * together:
                problem = "surfaces of a group do not follow each other"
                raise LoweringError(node.index, TASKS_KEEP_MEMORY, problem)
            for first in range(0, count, together):
                channels = first * CHANNELS_PER_SURFACE, CHANNELS_PER_SURFACE
                ends = given.surfaces_from(*channels), made.surfaces_from(*channels)
                work = memory.work.moved(first * area)
                stack = _Stack(moving, strips, together, *ends, work, members)
                yield from stack.tasks(*stages)

    return plan_of(planning, operation, footprint, tasks)


def plan_channel_sum(
    planning: Planning, operation: Operation, stages: tuple[int, Pipeline]
) -> Plan:
    """Plan the sum of every pixel's channels: one kernel with weights of 1. ``stages``: as of
    ``plan_large_sum``. Raises LoweringError.
    """
    operand, groups, (bias, pipeline) = operation.operands[0], planning.chip.groups, stages
    channels = planning.tensor(operand).view.channels
    footprint = Footprint(
        operation.node,
        ((operand, groups.dense_lanes(channels) // CHANNELS_PER_SURFACE),),
        operation.result,
        groups.surfaces_written(1, is_depthwise=False),
        surface_pixels=groups.surface_pixels(is_depthwise=False),
    )

    def tasks(memory: Memory) -> Iterator[Task]:
        moving = Moving(planning.chip, operation.node, memory.constants)
        source, target = memory.tensors[operand], memory.tensors[operation.result]
        ones = np.ones((1, 1, 1, channels), np.int8)
        for image in range(source.view.images):
            ends = source.image(image), target.image(image)
            conv = moving.convolution(*ends, ones, Selection(), is_depthwise=False)
            found = whole_number_stages(conv, pipeline, bias, memory.constants)
            yield from tile_tasks(conv, found, memory.constants)

    return plan_of(planning, operation, footprint, tasks)


def _surface_area(chip: Chip, strips: Strips) -> int:
    """Return the bytes of a surface's quotients and excesses, whole groups of each."""
    return _quotient_area(chip, strips) + align(
        chip.groups.surfaces_written(1, is_depthwise=False) * strips.count * ATOM_BYTES,
        DMA_ALIGN_BYTES,
    )


def _quotient_area(chip: Chip, strips: Strips) -> int:
    return align(surfaces_written(chip, 1) * strips.count * ATOM_BYTES, DMA_ALIGN_BYTES)


@dataclass(frozen=True, slots=True, eq=False)
class _Stack:
    """``surfaces`` of an image one behind the other, from ``source`` on, whose sums are pixels one
    behind the other, from ``target`` on; ``work``: where quotients and excesses lie.
    ``members``: of groups of channels.
    """

    moving: Moving
    strips: Strips
    surfaces: int
    source: DeviceTensor
    target: DeviceTensor
    work: Ref
    members: int = 1

    def tasks(self, bias: int, pipeline: Pipeline) -> Iterator[Task]:
        """Yield the tasks of both steps. Raises LoweringError."""
        # The array takes the channels of two surfaces together.
        beside = 2 if self.surfaces % 2 == 0 else 1
        rows, columns = self.strips.first
        height = self.surfaces // beside * self.strips.count
        channels = beside * CHANNELS_PER_SURFACE
        given = _map(self.source, self.source.location, View(1, height * rows, columns, channels))
        view = View(1, height, 1, channels)
        quotients = _map(self.source, self.work, view)
        excesses = _map(self.source, self.work.moved(self._apart), view)
        yield from self._quotients(given, quotients)
        yield from self._excesses(given, quotients, excesses)
        yield from self._sums(bias, pipeline)

    @property
    def _apart(self) -> int:
        """Return the bytes from the quotients to the excesses."""
        return self.surfaces * _quotient_area(self.moving.chip, self.strips)

    @property
    def _selection(self) -> Selection:
        return Selection(strides=(self.strips.first[0], 1))

    def _quotients(self, given: DeviceTensor, made: DeviceTensor) -> list[ConvTask]:
        chip, channels = self.moving.chip, given.view.channels
        depthwise = is_depthwise(chip, channels)
        ones = kernels(np.ones(self.strips.first), channels, depthwise=depthwise)
        return self.moving.move(
            *(given, made, ones, self._selection),
            is_depthwise=depthwise,
            out=quotient(self.strips.pixels),
        )

    def _excesses(
        self, given: DeviceTensor, quotients: DeviceTensor, made: DeviceTensor
    ) -> list[ConvTask]:
        weights = kernels(-np.ones(self.strips.first), given.view.channels, depthwise=False)
        found = self.moving, given, made, weights, quotients
        return sum_behind(*found, selection=self._selection, scale=self.strips.pixels)

    def _sums(self, bias: int, pipeline: Pipeline) -> Iterator[Task]:
        """Yield the last step: all surfaces one below the other, or one by one."""
        moving, (rows, columns), size = self.moving, self.strips.last, CHANNELS_PER_SURFACE
        summed = max(self.members // size, 1)
        mine = np.arange(size) // min(self.members, size)
        is_mine = mine[:, np.newaxis] == mine
        kernel = np.concatenate([is_mine * self.strips.pixels, -1 * is_mine], axis=1)
        wanted = (size, summed * rows, columns, 2 * size)
        weights = np.broadcast_to(kernel[:, np.newaxis, np.newaxis], wanted).astype(np.int8)
        are_apart = summed > 1 or not self.strips.are_together(moving.chip)
        together = 1 if are_apart else self.surfaces
        for first in range(0, self.surfaces, together):
            place = self.work.moved((first - first % summed) * self.strips.count * ATOM_BYTES)
            view = View(1, together * summed * rows, columns, 2 * size)
            source = _map(self.source, place, view, self._apart)
            place = self.target.location.moved(first * ATOM_BYTES)
            # What is written beyond a surface is the place of the next one's sums.
            apart = together * ATOM_BYTES if together > 1 else self.target.surface_stride_bytes
            target = _map(self.target, place, View(1, together, 1, size), apart)
            window = Selection(strides=(rows if together > 1 else 1, 1))
            conv = moving.convolution(source, target, weights, window, is_depthwise=False)
            stages = whole_number_stages(conv, pipeline, bias, moving.constants)
            yield from tile_tasks(conv, stages, moving.constants)


def _map(
    like: DeviceTensor, place: Ref, view: View, surface_bytes: int | None = None
) -> DeviceTensor:
    """Return a map at ``place``; ``surface_bytes``: from one surface to the next, None: they follow
    each other.
    """
    apart = view.pixels * ATOM_BYTES if surface_bytes is None else surface_bytes
    surfaces = surfaces_of(view.channels)
    strides = Strides(apart, surfaces * apart)
    return replace(like, view=view, location=place, surfaces=surfaces, within=strides)


def whole_number_stages(
    conv: Convolution, pipeline: Pipeline, bias: int, constants: ConstantPool
) -> Stages:
    """Return the stages of ``conv``, a convolution of whole numbers; they add ``bias`` first."""
    assert isinstance(pipeline.bs.add, int)
    summands = np.full(conv.output_view.channels, bias + pipeline.bs.add, np.int64)
    return stages_of(conv, pipeline, summands, constants)


def sum_behind(
    moving: Moving,
    source: DeviceTensor,
    target: DeviceTensor,
    weights: npt.NDArray[np.int8],
    summand: DeviceTensor,
    *,
    selection: Selection = _AS_IT_IS,
    bn: MultiplyStage = _PLAIN,
    bias: int = 0,
    scale: int = 1,
) -> list[ConvTask]:
    """Return a convolution of whole numbers, and ``scale`` times a map that EW adds behind it.
    Raises LoweringError.
    """
    conv = moving.convolution(source, target, weights, selection, is_depthwise=False)
    # Of BS with a record others ran that EW adds a map behind it.
    bs = MultiplyStage(multiply=np.full(len(weights), UNIT_SCALE), shift=UNIT_SHIFT)
    pipeline = Pipeline(bs, bn, Ew(EwOperation.ADD, scale=scale), OutConvert())
    stages = whole_number_stages(conv, pipeline, bias, moving.constants)
    return tile_tasks(conv, stages, moving.constants, summand=summand)
