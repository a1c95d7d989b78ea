"""Maxima and minima of a chip whose EW is only known to add: sums that saturate.

max(x, e) = x + max(e - x, 0), and e - x - 128, saturated to int8, is that difference with the zero
point -128; min(x, e) = x - max(x - e, 0). Both tasks are exact, and in the forms of ADD and SUB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import INT8_MIN, EwOperation
from delegate.lower.task import (
    BsStage,
    ElementwiseTask,
    EwStage,
    OutConvert,
    Ref,
    Source,
    Stages,
)
from delegate.lower.tiling.element_wise import map_parts

UNCHANGED: Final = BsStage(alu=Source.REGISTER, alu_operand=0, mul=Source.REGISTER, mul_operand=1)
"""BS that adds 0 and multiplies by 1."""
_DIFFERENCE: Final = OutConvert(offset=INT8_MIN)


def sums(
    chip: Chip, first: DeviceTensor, second: DeviceTensor, target: DeviceTensor
) -> Iterator[ElementwiseTask]:
    """``target`` from two maps of its size, all of the same scale and zero point: exact."""
    for part in map_parts(chip, target.view):
        ew = EwStage(
            part.place(second),
            surface_stride_bytes=second.surface_stride_bytes,
            offset=-target.zero_point,
        )
        task = part.task(first, target, Stages(UNCHANGED, ew=ew))
        yield replace(task, tile=f"{task.tile} sum")


def by_sums(task: ElementwiseTask, between: Ref) -> Iterator[ElementwiseTask]:
    """``task``, a maximum or minimum of two maps without gaps between rows, as two sums.
    ``between``: room for a map of its size.
    """
    ew, output = task.ew, task.output
    assert ew is not None
    assert ew.operand is not None
    is_max = ew.operation is EwOperation.MAX
    less = EwStage(
        ew.operand,
        per_channel=ew.per_channel,
        operand_bytes=ew.operand_bytes,
        surface_stride_bytes=ew.surface_stride_bytes,
        scale=-1,
    )
    source, stride = task.source, task.source_surface_stride_bytes
    if is_max:
        less = replace(less, operand=source, surface_stride_bytes=stride)
        source, stride = ew.operand, ew.surface_stride_bytes
    surface = output.height * output.width * ATOM_BYTES
    yield replace(
        task,
        tile=f"{task.tile} difference",
        source=source,
        source_surface_stride_bytes=stride,
        output=replace(output, target=between, surface_stride_bytes=surface),
        bs=UNCHANGED,
        ew=less,
        out_convert=_DIFFERENCE,
    )
    excess = EwStage(
        between, surface_stride_bytes=surface, offset=-INT8_MIN, scale=1 if is_max else -1
    )
    yield replace(task, bs=UNCHANGED, ew=excess, out_convert=OutConvert())
