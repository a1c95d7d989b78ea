"""Declare what operations and tasks touch: the one declaration that everything about memory
follows.

The DPU writes whole groups of channels, so tasks write more than their result, and readers of whole
groups read more than their operand. ``Footprint`` says so per operation, in surfaces of its
tensors, from the plan of its tasks; ``accesses`` says it per task, in bytes of the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from delegate.chip.element import ATOM_BYTES, align, surfaces_of
from delegate.lower.task import ConvTask, DpuTask, PoolTask, Ref, TableLoad, Task
from delegate.lower.weights import OPERAND_BLOCK_CHANNELS, SCALAR_BYTES
from delegate.model.graph import Node

BN_OPERAND_BYTES = 2
"""The bytes of a channel's operand of BN."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Surfaces, counted from the first one of each tensor, that the tasks of ``node`` touch.

    ``reads``: of every operand in memory, some beyond its channels. ``writes``: of ``result``, the
    padding of its last group included. Whatever the tiles are, they touch all pixels.
    ``work_bytes``: of memory that the tasks write and read back themselves.
    ``byte_by_byte``: every task writes bytes that follow from those at the same places of the only
    operand, so that the result may lie where that is. ``surface_pixels``: of what the pixels from
    one surface of ``result`` to the next are a multiple, unless it has one pixel.
    """

    node: Node
    reads: tuple[tuple[int, int], ...]
    result: int
    writes: int
    byte_by_byte: bool = False
    work_bytes: int = 0
    surface_pixels: int = 1


@dataclass(frozen=True, slots=True)
class Access:
    """Rows of ``row_bytes`` from ``start`` on, ``rows`` of them in each of ``surfaces``. ``what``
    is for messages. ``real``: surfaces that hold channels which somebody asked for; writes to the
    others, and what is read of them, only complete a group. None: nobody told them apart.
    """

    what: str
    start: Ref
    row_bytes: int
    rows: int = 1
    row_stride_bytes: int = 0
    surfaces: int = 1
    surface_stride_bytes: int = 0
    is_write: bool = False
    real: int | None = None

    @property
    def end(self) -> int:
        """The byte of the buffer behind the last one."""
        last = self.start.offset + (self.surfaces - 1) * self.surface_stride_bytes
        return last + (self.rows - 1) * self.row_stride_bytes + self.row_bytes


def accesses(task: Task | TableLoad) -> Iterator[Access]:
    """All that ``task`` reads and writes, whole groups of channels included."""
    if isinstance(task, TableLoad):
        yield Access("the copied atom", task.source, ATOM_BYTES)
        yield Access("the copy", task.target, ATOM_BYTES, is_write=True, real=0)
        return
    if isinstance(task, PoolTask):
        yield _pooled(task)
    else:
        yield from _operands(task)
    output = task.output
    row_bytes = output.width * ATOM_BYTES
    yield Access(
        "the output",
        output.target,
        row_bytes,
        output.height,
        row_bytes + output.row_gap_bytes,
        output.surfaces,
        output.surface_stride_bytes,
        is_write=True,
        real=-(-output.channels_real * output.element_bytes // ATOM_BYTES),
    )


def _pooled(task: PoolTask) -> Access:
    row_bytes = task.width * ATOM_BYTES
    return Access(
        "the pooled map",
        task.source,
        row_bytes,
        task.height,
        task.source_line_stride_bytes,
        task.output.surfaces,
        task.source_surface_stride_bytes,
        real=surfaces_of(task.output.channels_real * task.element.bytes),
    )


def _operands(task: DpuTask) -> Iterator[Access]:
    output = task.output
    surfaces = surfaces_of(output.channels * task.element.bytes)
    if isinstance(task, ConvTask):
        feature = task.feature
        used = feature.channels_real if feature.channels_used is None else feature.channels_used
        yield Access(
            "the input",
            feature.source,
            feature.width * ATOM_BYTES,
            feature.height,
            feature.line_stride_bytes,
            surfaces_of(feature.channels * task.element.bytes),
            feature.surface_stride_bytes,
            real=surfaces_of(used * task.element.bytes),
        )
        yield Access("the weights", task.weights.source, task.weights.total_bytes)
    else:
        strides = task.source_line_stride_bytes, task.source_surface_stride_bytes
        yield _map("the main operand", task, task.source, surfaces, *strides)
    if task.bs.operands is not None:
        yield _bs_operands(task, task.bs.operands)
    if task.bs.scalars is not None:
        yield Access("the BS scalars", task.bs.scalars, _scalar_bytes(task))
    if task.bn.operands is not None:
        yield Access("the BN operands", task.bn.operands, output.channels * BN_OPERAND_BYTES)
    if task.ew is not None and task.ew.operand is not None:
        if task.ew.per_channel:
            size = output.channels * task.ew.operand_bytes
            yield Access("the EW operand", task.ew.operand, size)
        else:
            strides = task.ew.line_stride_bytes, task.ew.surface_stride_bytes
            yield _map("the EW operand", task, task.ew.operand, surfaces, *strides)


def _scalar_bytes(task: DpuTask) -> int:
    """A word of shifts; of tasks without a convolution the summand twice, too, and what
    multiplies.
    """
    if isinstance(task, ConvTask):
        return SCALAR_BYTES
    return (4 if task.scales_main else 2) * SCALAR_BYTES


def _map(
    what: str, task: DpuTask, start: Ref, surfaces: int, line_bytes: int | None, stride_bytes: int
) -> Access:
    """An operand with the pixels of the output."""
    rows, row_bytes = task.output.height, task.output.width * ATOM_BYTES
    if line_bytes in (None, row_bytes):
        rows, row_bytes, line_bytes = 1, rows * row_bytes, 0
    real = surfaces_of(task.output.channels_real * task.element.bytes)
    return Access(what, start, row_bytes, rows, line_bytes or 0, surfaces, stride_bytes, real=real)


def _bs_operands(task: DpuTask, start: Ref) -> Access:
    size, channels = task.bs.bytes_per_channel, task.output.channels
    if task.bs.is_in_blocks:
        whole = align(channels, OPERAND_BLOCK_CHANNELS)
        return Access("the BS operands", start, whole * size)
    used = task.bs.operands_used
    used = task.output.channels_real if used is None else used
    return Access(
        "the BS operands",
        start,
        ATOM_BYTES,
        surfaces=channels * size // ATOM_BYTES,
        surface_stride_bytes=ATOM_BYTES,
        real=-(-used * size // ATOM_BYTES),
    )
