"""Which bytes a task touches, so that a plan that would run over a buffer's end is refused here.

A base address inside its buffer says nothing about the last byte. The hardware has no bounds: it
would read a neighbour's bytes or fault in the IOMMU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delegate.lower.task import ConvTask, Ref, Source, Task

ATOM_BYTES = 16
ATOM_CHANNELS = 16

ALU_BYTES = 4
MUL_BYTES = 2
BLOCK_CHANNELS = 8
BLOCK_BYTES = 64


@dataclass(frozen=True, slots=True)
class Access:
    """``size_bytes`` from ``start`` on; ``what`` is for messages."""

    what: str
    start: Ref
    size_bytes: int
    is_write: bool = False


def surface_accesses(task: Task) -> Iterator[Access]:
    """What ``task`` reads or writes that tasks may write, surface by surface: tiles of other rows
    touch other ranges.
    """
    output = task.output
    surfaces = -(-output.channels // ATOM_CHANNELS)
    rows_bytes = output.height * output.width * ATOM_BYTES
    if isinstance(task, ConvTask):
        feature = task.feature
        size = (feature.height - 1) * feature.line_stride_bytes + feature.width * ATOM_BYTES
        count = -(-feature.channels // ATOM_CHANNELS)
        stride = feature.surface_stride_bytes
        yield from _surfaces("the input", feature.source, size, count, stride)
    else:
        stride = task.source_surface_stride_bytes
        yield from _surfaces("the main operand", task.source, rows_bytes, surfaces, stride)
    if task.ew is not None and task.ew.operand is not None:
        operand, stride = task.ew.operand, task.ew.surface_stride_bytes
        if task.ew.per_channel:
            yield Access("the EW operand", operand, output.channels)
        else:
            yield from _surfaces("the EW operand", operand, rows_bytes, surfaces, stride)
    if task.bs.operands is not None:
        yield _bs_operands(task, task.bs.operands)
    stride = output.surface_stride_bytes
    written = _surfaces("the output", output.target, output.surface_bytes, output.surfaces, stride)
    for access in written:
        yield replace(access, is_write=True)


def _bs_operands(task: Task, start: Ref) -> Access:
    is_dense = Source.MEMORY not in (task.bs.mul, task.bs.ow)
    blocks = -(-task.output.channels // BLOCK_CHANNELS) * BLOCK_BYTES
    return Access(
        "the BS operands", start, task.output.channels * ALU_BYTES if is_dense else blocks
    )


def _surfaces(
    what: str, start: Ref, size_bytes: int, count: int, stride_bytes: int
) -> Iterator[Access]:
    for surface in range(count):
        yield Access(what, Ref(start.buffer, start.offset + surface * stride_bytes), size_bytes)


def accesses(task: Task) -> Iterator[Access]:
    """Every range of memory that ``task`` reads or writes, whole channel groups included."""
    output = task.output
    surfaces = -(-output.channels // ATOM_CHANNELS)
    rows_bytes = output.height * output.width * ATOM_BYTES
    if isinstance(task, ConvTask):
        feature = task.feature
        last = (feature.height - 1) * feature.line_stride_bytes + feature.width * ATOM_BYTES
        inner = -(-feature.channels // ATOM_CHANNELS) - 1
        size = inner * feature.surface_stride_bytes + last
        yield Access("the input", feature.source, size)
        yield Access("the weights", task.weights.source, task.weights.total_bytes)
    else:
        size = (surfaces - 1) * task.source_surface_stride_bytes + rows_bytes
        yield Access("the main operand", task.source, size)
    if task.bs.operands is not None:
        yield _bs_operands(task, task.bs.operands)
    if task.bn.operands is not None:
        yield Access("the BN operands", task.bn.operands, output.channels * MUL_BYTES)
    if task.ew is not None and task.ew.operand is not None:
        size = (surfaces - 1) * task.ew.surface_stride_bytes + rows_bytes
        if task.ew.per_channel:
            size = output.channels * task.ew.operand_bytes
        yield Access("the EW operand", task.ew.operand, size)
    size = (output.surfaces - 1) * output.surface_stride_bytes + output.surface_bytes
    yield Access("the output", output.target, size, is_write=True)
