"""Lowered partitions in, Programs out; and Programs to bytes: the flatbuffer of program.fbs.

All tasks become segments in one REGCMD buffer, each linked to the next of its job: tasks of a job
run in order on one core, and weights that a task keeps in CBUF stay there for the next. A program
for one core is one job. Every segment is complete. Equal Programs give equal bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import flatbuffers
import numpy as np

from delegate.chip.chip import Chip
from delegate.errors import EncodingError, ProgramError, UnknownFormError
from delegate.lower.lowered import LoweredPartition
from delegate.lower.memory.footprint import accesses
from delegate.lower.task import BufferId, ConvTask
from delegate.npu import FORMAT_VERSION, program_types
from delegate.npu.evidence import KEPT_TABLE, OWN_TABLES, TaskForm, task_forms
from delegate.npu.perf import estimate_task
from delegate.npu.program_check import check_program
from delegate.npu.program_reader import parse
from delegate.npu.program_types import (
    CHECKSUM_BYTES,
    FILE_IDENTIFIER,
    RELOC,
    WORD_BYTES,
    Fields,
    Kind,
    Program,
    ProgramBuffer,
    ProgramLayer,
    ProgramTask,
    Reloc,
    Slot,
)
from delegate.npu.regcmd import (
    TAIL_WORDS,
    ScheduledTask,
    Segment,
    encode_task,
    segment_stride_words,
    tail_words,
    with_table_loads,
)

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

_MOST_RECORD_BYTES = 320
"""The most bytes of a table with its vtable, without the strings and vectors in it."""

_RELOC_ALIGNMENT = 8
"""The alignment of its largest number."""

_CHECKSUM_PLACEHOLDER = (1 << 64) - 1
"""Anything but the default 0, which the builder would leave out."""


def build_program(lowered: LoweredPartition, compiler: str) -> Program:
    """Return the Program of a partition. ``compiler`` is "name version" of the producer.

    Raises EncodingError when a register field does not hold its value, ProgramError when a task
    leaves its buffers.
    """
    layers = lowered.layers
    tasks = [ScheduledTask(n, task) for n, layer in enumerate(layers) for task in layer.tasks]
    if lowered.table_atoms is not None:
        loaded = with_table_loads(
            *(tasks, lowered.table_atoms),
            are_kept=KEPT_TABLE not in lowered.chip.missing,
            load_themselves=OWN_TABLES in lowered.chip.proved,
        )
        tasks = list(loaded)
    segments: list[Segment] = []
    for before, item in zip((None, *tasks[:-1]), tasks, strict=True):
        layer, task = layers[item.layer], item.task
        try:
            segments.append(encode_task(lowered.chip, layer.name, task))
            if isinstance(task, ConvTask) and task.weight_reuse:
                _check_reuse(layer.name, task, before)
        except EncodingError as error:
            raise type(error)(str(error), layer.nodes) from None
    forms = list(task_forms(lowered.chip, tasks, segments))
    _check_forms(lowered, tasks, forms)
    offsets, regcmd, relocs = _stream(segments)
    sizes = {BufferId.REGCMD: len(regcmd), **lowered.sizes_bytes}
    contents = {BufferId.REGCMD: regcmd, BufferId.CONSTANTS: lowered.constants}
    buffers = tuple(
        ProgramBuffer(sizes.get(buffer, 0), contents.get(buffer, b"")) for buffer in BufferId
    )
    _check_extents(lowered, tasks, buffers)
    return Program(
        chip=lowered.chip.name,
        compiler=compiler,
        name=lowered.name,
        buffers=buffers,
        relocs=tuple(relocs),
        layers=tuple(ProgramLayer(item.name, item.op, item.nodes) for item in layers),
        tasks=tuple(
            _program_task(lowered.chip, item, segment, first, form)
            for item, segment, first, form in zip(tasks, segments, offsets, forms, strict=True)
        ),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
    )


def _check_reuse(layer: str, task: ConvTask, before: ScheduledTask | None) -> None:
    """Check that a task that finds its weights in CBUF follows one that left exactly these in these
    banks. Raises EncodingError.
    """
    previous = None if before is None else before.task
    kept = (
        isinstance(previous, ConvTask)
        and previous.weights == task.weights
        and previous.data_banks == task.data_banks
        and previous.weight_banks == task.weight_banks
    )
    if not kept:
        place = f"layer {layer}, tile {task.tile}: CNA.CBUF_CON0.WEIGHT_REUSE"
        raise EncodingError(f"{place} needs the weights of another task before it")


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
        raise UnknownFormError(problem, tuple(sorted(nodes)))


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


def _stream(segments: list[Segment]) -> tuple[list[int], bytes, list[Reloc]]:
    """Return the first word of every segment, all segments with their tails, and the relocations;
    links hold the offset until they are relocated.
    """
    *offsets, end = accumulate(
        (segment_stride_words(len(segment.words)) for segment in segments), initial=0
    )
    words, relocs = np.zeros(end, dtype="<u8"), []
    for segment, after, first in zip(segments, [*segments[1:], None], offsets, strict=True):
        next_body = None if after is None else len(after.words)
        content = (*segment.words, *tail_words(next_body, segment.enable_mask))
        words[first : first + len(content)] = np.array(content, dtype=np.uint64)
        relocs += [
            Reloc(first + slot.word, slot.target.buffer, slot.target.offset)
            for slot in segment.addresses
        ]
        if after is not None:
            link = first + len(segment.words)
            next_offset = (first + segment_stride_words(len(segment.words))) * WORD_BYTES
            words[link] |= np.uint64(next_offset << 16)
            relocs.append(Reloc(link, BufferId.REGCMD, next_offset))
    return offsets, words.tobytes(), relocs


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
        form=" ".join((form.form.name, *form.relies_on)),
    )


def serialize(program: Program) -> bytes:
    """Return the bytes of ``program``. Raises ProgramError when it is inconsistent."""
    check_program(program)
    return bytes(serialized(program))


def serialized(program: Program) -> bytearray:
    """Return the same of what ``build_program`` gave, without a last copy: for who can give up
    ``program`` before that is made, and asks the loader whether it takes what this gives.
    """
    builder = flatbuffers.Builder(_size_bytes(program))
    relocs = b"".join(RELOC.pack(item.word, item.buffer, item.addend) for item in program.relocs)
    chip = builder.CreateString(program.chip)
    content = {
        Slot.COMPILER: builder.CreateString(program.compiler),
        Slot.NAME: builder.CreateString(program.name),
        Slot.BUFFERS: _tables(builder, program_types.BUFFER, program.buffers),
        Slot.RELOCS: _byte_vector(builder, relocs, RELOC.size, _RELOC_ALIGNMENT),
        Slot.LAYERS: _tables(builder, program_types.LAYER, program.layers),
        Slot.TASKS: _tables(builder, program_types.TASK, program.tasks),
        Slot.INPUTS: _tables(builder, program_types.BINDING, program.inputs),
        Slot.OUTPUTS: _tables(builder, program_types.BINDING, program.outputs),
    }
    builder.StartObject(len(Slot))
    builder.PrependUOffsetTRelativeSlot(Slot.CHIP, chip, 0)
    builder.PrependUint64Slot(Slot.CHECKSUM, _CHECKSUM_PLACEHOLDER, 0)
    from_end = builder.Offset()
    builder.PrependUint32Slot(Slot.VERSION, FORMAT_VERSION, 0)
    for slot, offset in content.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.vtables.clear()  # see _tables
    builder.Finish(builder.EndObject(), file_identifier=FILE_IDENTIFIER)
    # The builder fills its memory from the end. The file is made within it: programs hold all
    # weights, and every copy of them counts while a model is loaded.
    data: bytearray = builder.Bytes
    del data[: builder.Head()]
    position = len(data) - from_end
    data[position : position + CHECKSUM_BYTES] = bytes(CHECKSUM_BYTES)
    struct.pack_into("<Q", data, position, zlib.crc32(data))
    return data


def _size_bytes(program: Program) -> int:
    """Return at least the bytes that the file takes: a builder without room doubles its memory."""
    content_bytes = sum(len(item.content) for item in program.buffers)
    bindings = len(program.inputs) + len(program.outputs)
    records = len(program.tasks) + len(program.layers) + len(program.relocs) + bindings
    names_bytes = sum(len(layer.name) + 8 * len(layer.nodes) for layer in program.layers)
    names_bytes += sum(len(task.tile) + len(task.form) for task in program.tasks)
    content_bytes += sum(len(binding.table) for binding in program.inputs)
    return content_bytes + 4 * names_bytes + _MOST_RECORD_BYTES * (records + 16)


def _tables(builder: flatbuffers.Builder, fields: Fields, items: Sequence[object]) -> int:
    """Return a vector of tables, one for each of ``items``.

    Releases of the package differ in when they let tables share a vtable (23.5 even when their
    sizes differ), which would make the bytes depend on what is installed. So none is shared.
    """
    offsets = []
    for item in items:
        values = [_value(builder, kind, item, name) for name, kind in fields.items()]
        builder.StartObject(len(fields))
        for slot, (kind, value) in enumerate(zip(fields.values(), values, strict=True)):
            prepend = _NUMBERS.get(kind, flatbuffers.Builder.PrependUOffsetTRelativeSlot)
            prepend(builder, slot, value, 0)
        builder.vtables.clear()
        offsets.append(builder.EndObject())
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


_NUMBERS = {
    Kind.UINT8: flatbuffers.Builder.PrependUint8Slot,
    Kind.INT8: flatbuffers.Builder.PrependInt8Slot,
    Kind.UINT32: flatbuffers.Builder.PrependUint32Slot,
    Kind.INT32: flatbuffers.Builder.PrependInt32Slot,
    Kind.UINT64: flatbuffers.Builder.PrependUint64Slot,
    Kind.FLOAT32: flatbuffers.Builder.PrependFloat32Slot,
}


def _value(builder: flatbuffers.Builder, kind: Kind, item: Any, name: str) -> Any:
    """Return a number, 0 in a part that is not there; or where what a field refers to begins in the
    file, 0 if it is left out.
    """
    for part in name.split("."):
        item = 0 if item is None else getattr(item, part)
    match kind:
        case Kind.TEXT:
            return builder.CreateString(item)
        case Kind.INT32S:
            return builder.CreateNumpyVector(np.array(item, dtype="<i4"))
        case Kind.BYTES_IF_ANY if not item:
            return 0
        case Kind.BYTES | Kind.BYTES_IF_ANY:
            return _byte_vector(builder, item)
        case _:
            return item


def _byte_vector(
    builder: flatbuffers.Builder, content: bytes, item_bytes: int = 1, alignment: int = 1
) -> int:
    """CreateByteVector, which copies ``content`` once more on its way."""
    builder.StartVector(item_bytes, len(content) // item_bytes, alignment)
    builder.head = builder.Head() - len(content)
    with memoryview(builder.Bytes) as memory:
        memory[builder.head : builder.head + len(content)] = content
    return int(builder.EndVector())
