"""Tasks of the DPU alone in the forms of a chip that reads its numbers from memory.

In: a layer as operators lower it. Out: the same, with records of numbers in the constants, and with
a task per surface where surfaces have gaps between them, of which no program is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from delegate.chip.element import ATOM_BYTES
from delegate.chip.limits import CHANNELS_PER_SURFACE
from delegate.lower.constants import ConstantPool
from delegate.lower.lowered import Layer
from delegate.lower.task import BnStage, BsStage, ElementwiseTask, EwStage, Source, Task
from delegate.lower.weights import pack_scalars


def in_known_forms(layer: Layer, constants: ConstantPool) -> Layer:
    """``layer`` for a chip with ``forms.operand_blocks``."""
    return replace(layer, tasks=tuple(_known(layer, constants)))


def _known(layer: Layer, constants: ConstantPool) -> Iterator[Task]:
    for task in layer.tasks:
        if isinstance(task, ElementwiseTask):
            known = _with_place_in_bs(task)
            scalars = constants.add(_record(known))
            yield from _without_gaps(replace(known, bs=replace(known.bs, scalars=scalars)))
        else:
            yield task


def _with_place_in_bs(task: ElementwiseTask) -> ElementwiseTask:
    """The place in tables as summand and factor, in that order: (x + a) * b for x * b + a * b."""
    if task.table is None or task.bn.alu_operand is None:
        return task
    factor = task.bn.mul_operand
    summand, rest = divmod(task.bn.alu_operand, factor)
    assert not rest
    bs = BsStage(Source.REGISTER, summand, Source.REGISTER, factor)
    return replace(task, bs=bs, bn=BnStage())


def _record(task: ElementwiseTask) -> bytes:
    bs = task.bs
    summand = bs.alu_operand if bs.alu is Source.REGISTER else 0
    multiplier = bs.mul_operand if bs.mul is Source.REGISTER else 1
    return pack_scalars(summand, multiplier if task.scales_main else None, bs.shift)


def _without_gaps(task: ElementwiseTask) -> Iterator[ElementwiseTask]:
    output, ew = task.output, task.ew
    rows = output.height * output.width * ATOM_BYTES
    strides = [output.surface_stride_bytes, task.source_surface_stride_bytes]
    if ew is not None:
        strides.append(ew.surface_stride_bytes)
    if all(stride == rows for stride in strides):
        yield task
        return
    for number in range(output.surfaces):
        left = output.channels_real - number * CHANNELS_PER_SURFACE
        yield replace(
            task,
            tile=f"{task.tile} surface {number}",
            source=task.source.moved(number * task.source_surface_stride_bytes),
            source_surface_stride_bytes=rows,
            output=replace(
                output,
                target=output.target.moved(number * output.surface_stride_bytes),
                channels=CHANNELS_PER_SURFACE,
                channels_real=min(max(left, 0), CHANNELS_PER_SURFACE),
                surface_stride_bytes=rows,
            ),
            ew=None if ew is None else _of_surface(ew, number, rows),
        )


def _of_surface(ew: EwStage, number: int, rows: int) -> EwStage:
    if ew.operand is None or ew.per_channel:
        return ew
    operand = ew.operand.moved(number * ew.surface_stride_bytes)
    return replace(ew, operand=operand, surface_stride_bytes=rows)
