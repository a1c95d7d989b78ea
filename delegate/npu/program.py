"""Lowered partitions in, Programs out; and Programs to bytes and back.

All tasks become segments in one REGCMD buffer, each linked to the next of its job: tasks of a job
run in order on one core, and weights that a task keeps in CBUF stay there for the next. A program
for one core is one job. Every segment is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from delegate.chip.chip import Chip
from delegate.errors import EncodingError, ProgramError, UnknownFormError
from delegate.lower.lowered import Layer, LoweredPartition
from delegate.lower.memory.footprint import accesses
from delegate.lower.task import BufferId, ConvTask, TableLoad, Task
from delegate.npu.encode import ScheduledTask, encode_task, schedule, with_table_loads
from delegate.npu.evidence import KEPT_TABLE, TaskForm, task_forms
from delegate.npu.perf import estimate_task
from delegate.npu.program_check import check_program
from delegate.npu.program_reader import parse
from delegate.npu.program_types import (
    WORD_BYTES,
    Program,
    ProgramBuffer,
    ProgramLayer,
    ProgramTask,
    Reloc,
)
from delegate.npu.program_writer import serialize, serialized
from delegate.npu.regcmd import TAIL_WORDS, Segment, segment_stride_words, tail_words

__all__ = [
    "Program",
    "ProgramBuffer",
    "ProgramLayer",
    "ProgramTask",
    "Reloc",
    "build_program",
    "parse",
    "serialize",
    "serialized",
]


def build_program(lowered: LoweredPartition, compiler: str) -> Program:
    """Return the Program of a partition. ``compiler`` is "name version" of the producer.

    Raises EncodingError when a register field does not hold its value, ProgramError when the
    partition's buffers, references or bindings are inconsistent.
    """
    tasks = schedule(lowered.layers)
    if lowered.table_atoms is not None:
        are_kept = KEPT_TABLE not in lowered.chip.missing
        tasks = list(with_table_loads(tasks, lowered.table_atoms, are_kept=are_kept))
    segments = [_encode(lowered.chip, lowered.layers[item.layer], item.task) for item in tasks]
    _check_reuse(lowered, tasks)
    forms = list(task_forms(lowered.chip, tasks, segments))
    _check_forms(lowered, tasks, forms)
    offsets, size_words = _place(segments)
    buffers = _buffers(lowered, _stream(segments, offsets, size_words))
    _check_extents(lowered, tasks, buffers)
    program = Program(
        chip=lowered.chip.name,
        compiler=compiler,
        name=lowered.name,
        buffers=buffers,
        relocs=tuple(_relocs(segments, offsets)),
        layers=tuple(ProgramLayer(item.name, item.op, item.nodes) for item in lowered.layers),
        tasks=tuple(
            _program_task(lowered.chip, item, segment, first, form)
            for item, segment, first, form in zip(tasks, segments, offsets, forms, strict=True)
        ),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
    )
    check_program(program)
    return program


def _encode(chip: Chip, layer: Layer, task: Task | TableLoad) -> Segment:
    try:
        return encode_task(chip, layer.name, task)
    except EncodingError as error:
        raise EncodingError(str(error), layer.nodes) from None


def _check_reuse(lowered: LoweredPartition, tasks: Sequence[ScheduledTask]) -> None:
    """Check that a task that finds its weights in CBUF follows one that left exactly these in these
    banks. Raises EncodingError.
    """
    for before, item in zip((None, *tasks[:-1]), tasks, strict=True):
        task, previous = item.task, None if before is None else before.task
        if isinstance(task, ConvTask) and task.cbuf.weight_reuse:
            kept = (
                isinstance(previous, ConvTask)
                and previous.weights == task.weights
                and previous.cbuf.data_banks == task.cbuf.data_banks
                and previous.cbuf.weight_banks == task.cbuf.weight_banks
            )
            if not kept:
                layer = lowered.layers[item.layer]
                place = f"layer {layer.name}, tile {task.tile}: CNA.CBUF_CON0.WEIGHT_REUSE"
                problem = f"{place} needs the weights of another task before it"
                raise EncodingError(problem, layer.nodes)


def _check_forms(
    lowered: LoweredPartition, tasks: Sequence[ScheduledTask], forms: Sequence[TaskForm]
) -> None:
    """Check that every task has a form that the evidence allows."""
    evidence = lowered.chip.evidence
    if evidence is None:
        return
    problem, nodes = "", set[int]()
    reasons: dict[TaskForm, str] = {}
    for item, form in zip(tasks, forms, strict=True):
        if form not in reasons:
            reasons[form] = evidence.refusal(form)
        if reasons[form]:
            problem = problem or reasons[form]
            nodes.update(lowered.layers[item.layer].nodes)
    if problem:
        raise UnknownFormError(tuple(sorted(nodes)), problem)


def _check_extents(
    lowered: LoweredPartition, tasks: Sequence[ScheduledTask], buffers: tuple[ProgramBuffer, ...]
) -> None:
    """Check that every task stays inside its buffers, and writes only where results belong."""
    for item in tasks:
        for access in accesses(item.task):
            buffer, start, end = access.start.buffer, access.start.offset, access.end
            name = lowered.layers[item.layer].name
            place = f"program {lowered.name}: layer {name}, tile {item.task.tile}"
            size = buffers[buffer].size_bytes
            if start < 0 or end > size:
                raise ProgramError(
                    f"{place}: {access.what}: bytes {start}..{end - 1} of {buffer.name}, "
                    f"which has {size}"
                )
            if access.is_write and buffer not in _WRITTEN:
                raise ProgramError(f"{place}: {access.what} is in {buffer.name}, which is read")


# INPUT too: results that are joined with an input lie beside it.
_WRITTEN = (BufferId.SCRATCH, BufferId.INPUT, BufferId.OUTPUT)


def _place(segments: list[Segment]) -> tuple[list[int], int]:
    """Return the first word of every segment, and the size of all."""
    offsets, end = [], 0
    for segment in segments:
        offsets.append(end)
        end += segment_stride_words(len(segment.words))
    return offsets, end


def _stream(segments: list[Segment], offsets: list[int], size_words: int) -> bytes:
    """Return all segments with their tails; links hold the offset until they are relocated."""
    words = np.zeros(size_words, dtype="<u8")
    for segment, after, first in zip(segments, [*segments[1:], None], offsets, strict=True):
        next_body = None if after is None else len(after.words)
        content = (*segment.words, *tail_words(next_body, segment.enable_mask))
        words[first : first + len(content)] = np.array(content, dtype=np.uint64)
        if after is not None:
            next_offset = (first + segment_stride_words(len(segment.words))) * WORD_BYTES
            words[first + len(segment.words)] |= np.uint64(next_offset << 16)
    return words.tobytes()


def _program_task(
    chip: Chip, item: ScheduledTask, segment: Segment, first: int, form: TaskForm
) -> ProgramTask:
    cost = estimate_task(chip, item.task)
    return ProgramTask(
        regcmd_offset=first * WORD_BYTES,
        regcmd_count=len(segment.words) + TAIL_WORDS,
        enable_mask=segment.enable_mask,
        int_mask=segment.int_mask,
        layer=item.layer,
        job=0,
        tile=item.task.tile,
        npu_cycles=cost.npu_cycles,
        ddr_cycles=cost.ddr_cycles,
        bytes=cost.bytes,
        form=" ".join(form.names),
    )


def _relocs(segments: list[Segment], offsets: list[int]) -> Iterator[Reloc]:
    for index, segment in enumerate(segments):
        first = offsets[index]
        for slot in segment.addresses:
            yield Reloc(first + slot.word, slot.target.buffer, slot.target.offset)
        if index + 1 < len(segments):
            link = first + len(segment.words)
            yield Reloc(link, BufferId.REGCMD, offsets[index + 1] * WORD_BYTES)


def _buffers(lowered: LoweredPartition, regcmd: bytes) -> tuple[ProgramBuffer, ...]:
    sizes = {BufferId.REGCMD: len(regcmd), **lowered.sizes_bytes}
    contents = {BufferId.REGCMD: regcmd, BufferId.CONSTANTS: lowered.constants}
    return tuple(
        ProgramBuffer(sizes.get(buffer, 0), contents.get(buffer, b"")) for buffer in BufferId
    )
