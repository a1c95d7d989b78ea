"""Everything that must hold in a Program before a device sees it.

Used on what we build and, above all, on what we read: a serialised Program is untrusted input.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from delegate.chip.chips import registers_of
from delegate.chip.element import ATOM_BYTES, MAX_BUFFER_BYTES, MAX_TOTAL_BYTES, Element
from delegate.chip.register_model import RegisterMap
from delegate.errors import ProgramError
from delegate.lower.lowered import Fold, Spread, TensorBinding
from delegate.lower.task import BufferId
from delegate.npu.program_types import WORD_BYTES, Program, Reloc
from delegate.npu.regcmd import (
    SEGMENT_ALIGN_WORDS,
    TAIL_WORDS,
    VALUE_MASK,
    Command,
    fetch_amount,
    unpack_word,
)

MAX_FOLDED_BYTES = 64
"""Bytes that one pixel of a folded input may have: what native conversion has room for."""

BYTE_VALUES = 256

_RANGES = {Element.INT8: (-128, 127), Element.UINT8: (0, 255)}
"""The values of quantised tensors that the host has as float32."""

MAX_FOLD = 1 << 12
"""Far above windows, steps and offsets of real folds, and small enough never to overflow."""

_ALWAYS_USED = {"CNA.FEATURE_DATA_ADDR", "CNA.DCOMP_ADDR0", "DPU.DST_BASE_ADDR"}
"""Address registers that no task leaves at 0; the others belong to readers that may be off."""


def check_program(program: Program) -> None:
    """Raises ProgramError, saying what is wrong, unless ``program`` is consistent in itself."""
    _check_buffers(program)
    _check_tasks(program)
    _check_links(program)
    _check_relocs(program)
    for kind, bindings, buffer in (
        ("input", program.inputs, BufferId.INPUT),
        ("output", program.outputs, BufferId.OUTPUT),
    ):
        for binding in bindings:
            _check_binding(program, kind, binding, buffer)
        _check_tensors(kind, bindings)
    _require(bool(program.outputs), "has no outputs")


def _check_tensors(kind: str, bindings: Sequence[TensorBinding]) -> None:
    """One binding for each tensor, or several in a row for the boxes that make an output, or that
    the device reads of an input.
    """
    runs = [list(run) for _, run in itertools.groupby(bindings, key=lambda b: b.tensor)]
    tensors = [run[0].tensor for run in runs]
    _require(len(set(tensors)) == len(tensors), f"binds an {kind} tensor twice")
    for first, *others in runs:
        place = f"{kind} tensor {first.tensor}"
        if first.spread is None:
            _require(not others, f"binds an {kind} tensor twice")
            continue
        for box in others:
            same = _whole(box) == _whole(first) and box.spread is not None
            _require(same, f"{place} has boxes of different tensors")
        if others and kind == "input":
            continue
        elements = sum(b.images * b.height * b.width * b.channels for b in (first, *others))
        made = elements == math.prod(first.shape)
        _require(made, f"{place} has shape {first.shape} but {elements} elements in its boxes")


def _whole(binding: TensorBinding) -> tuple[object, ...]:
    """Return what all boxes of a tensor have in common."""
    return binding.name, binding.shape, binding.element, binding.affine, binding.table


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ProgramError(f"program: {problem}; compile the model again")


def _check_buffers(program: Program) -> None:
    _require(len(program.buffers) == len(BufferId), f"has {len(program.buffers)} buffers, not 5")
    total = 0
    for buffer, item in zip(BufferId, program.buffers, strict=True):
        sane = 0 <= item.size_bytes <= MAX_BUFFER_BYTES
        _require(sane, f"buffer {buffer.name} has {item.size_bytes} bytes")
        fits = len(item.content) <= item.size_bytes
        _require(fits, f"content of buffer {buffer.name} is larger than the buffer")
        total += item.size_bytes
    _require(total <= MAX_TOTAL_BYTES, f"needs {total} bytes; the limit is {MAX_TOTAL_BYTES}")
    regcmd = program.buffers[BufferId.REGCMD]
    whole = len(regcmd.content) == regcmd.size_bytes and regcmd.size_bytes % WORD_BYTES == 0
    _require(whole, "buffer REGCMD is not whole command words")


def _check_tasks(program: Program) -> None:
    _require(bool(program.tasks), "has no tasks")
    end_of_previous, job = 0, 0
    size = program.buffers[BufferId.REGCMD].size_bytes
    for index, task in enumerate(program.tasks):
        place = f"task {index}"
        aligned = task.regcmd_offset % (SEGMENT_ALIGN_WORDS * WORD_BYTES) == 0
        _require(aligned, f"{place} starts at byte {task.regcmd_offset}, no multiple of 64")
        _require(task.regcmd_count > TAIL_WORDS, f"{place} has no commands")
        end = task.regcmd_offset + task.regcmd_count * WORD_BYTES
        in_order = end_of_previous <= task.regcmd_offset and end <= size
        _require(in_order, f"{place} overlaps another task or the end of REGCMD")
        _require(0 <= task.layer < len(program.layers), f"{place} names layer {task.layer}")
        ascending = task.job == job or (index > 0 and task.job == job + 1)
        _require(ascending, f"{place} is in job {task.job} after job {job}")
        end_of_previous, job = end, task.job


def _check_links(program: Program) -> None:
    """Check that every tail links to the next task of its job or ends the chain, and starts its
    blocks.
    """
    words, targets = program.words(), {reloc.word: reloc for reloc in program.relocs}
    following = (*program.tasks[1:], None)
    for index, (task, after) in enumerate(zip(program.tasks, following, strict=True)):
        place = f"tail of task {index}"
        link_word = task.regcmd_offset // WORD_BYTES + task.regcmd_count - TAIL_WORDS
        tail = words[link_word : link_word + TAIL_WORDS]
        link, amount, barrier, enable = (unpack_word(int(word)) for word in tail)
        names = [c.register.full_name if c.register else "" for c in (amount, barrier, enable)]
        expected = ["PC.REGISTER_AMOUNTS", "SYNC.BARRIER", "ENABLE.OPERATION_ENABLE"]
        _require(names == expected, f"{place} is not link, amount, barrier and start")
        _require(enable.value == task.enable_mask, f"{place} starts other blocks than the task")
        reloc = targets.get(link_word)
        if after is None or after.job != task.job:
            is_end = link == Command(0, 0, 0, None) and reloc is None and amount.value == 0
            _require(is_end, f"{place} does not end the chain")
            continue
        expected_reloc = Reloc(link_word, BufferId.REGCMD, after.regcmd_offset)
        is_link = link.register is not None and link.register.full_name == "PC.BASE_ADDRESS"
        linked = is_link and reloc == expected_reloc
        _require(linked, f"{place} does not link to the next task")
        length = fetch_amount(after.regcmd_count - TAIL_WORDS)
        _require(amount.value == length, f"{place} announces a wrong length")


def _check_relocs(program: Program) -> None:
    words, registers = program.words(), registers_of(program.chip)
    relocated = set()
    last = -1
    for reloc in program.relocs:
        _require(last < reloc.word < len(words), f"relocation of word {reloc.word} is out of order")
        last = reloc.word
        command = unpack_word(int(words[reloc.word]), registers)
        is_address = command.register is not None and command.register.is_address
        _require(is_address, f"relocation of word {reloc.word}, which holds no address")
        size = program.buffers[reloc.buffer].size_bytes
        inside = 0 <= reloc.addend < size
        _require(inside, f"relocation of word {reloc.word} points outside {reloc.buffer.name}")
        same = command.value == reloc.addend & VALUE_MASK
        _require(same, f"word {reloc.word} and its relocation disagree")
        relocated.add(reloc.word)
    # Words that write an address which nobody relocates and which some reader may use.
    written = (words >> np.uint64(48)) << np.uint64(16) | words & np.uint64(0xFFFF)
    addresses, needed = _address_registers(registers)
    has_value = words >> np.uint64(16) & np.uint64(VALUE_MASK) != 0
    missing = np.isin(written, addresses) & (has_value | np.isin(written, needed))
    missing[list(relocated)] = False
    for task in program.tasks:
        first = task.regcmd_offset // WORD_BYTES
        found = np.flatnonzero(missing[first : first + task.regcmd_count])
        _require(found.size == 0, f"word {first + found[:1].sum()} has an unrelocated address")


@functools.cache
def _address_registers(
    registers: RegisterMap,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Target and offset, as target << 16 | offset, of all address registers and of those always
    used.
    """
    found = {
        target << 16 | offset: register.full_name
        for (target, offset), register in registers.by_address.items()
        if register.is_address
    }
    needed = [key for key, name in found.items() if name in _ALWAYS_USED]
    return np.array(list(found), np.uint64), np.array(needed, np.uint64)


def _check_binding(program: Program, kind: str, binding: TensorBinding, buffer: BufferId) -> None:
    place = f"{kind} tensor {binding.tensor}"
    counts = (binding.images, binding.height, binding.width, binding.channels, binding.surfaces)
    _require(min(counts) >= 1, f"{place} is empty")
    elements = math.prod(counts[:4])
    if binding.fold is not None:
        _check_fold(place, binding, binding.fold, is_input=buffer is BufferId.INPUT)
        fold = binding.fold
        elements = binding.images * fold.height * fold.width * fold.channels
    positive = all(size >= 1 for size in binding.shape)
    if binding.spread is None:
        same = positive and math.prod(binding.shape) == elements
        _require(same, f"{place} has shape {binding.shape} but {elements} elements")
    else:
        _require(positive, f"{place} has shape {binding.shape}")
        _check_spread(place, binding, binding.spread)
    if binding.table or binding.affine is not None:
        _check_values(place, binding, is_input=buffer is BufferId.INPUT)
    enough = binding.surfaces * binding.laid_out.lanes >= binding.channels
    _require(enough, f"{place} has {binding.surfaces} surfaces for {binding.channels} channels")
    stride = binding.surface_stride_bytes
    surface_bytes = binding.height * binding.width * ATOM_BYTES
    wide = binding.surfaces == 1 or stride >= surface_bytes
    _require(wide and stride >= 0, f"{place} has surfaces of {stride} bytes")
    # The last surface may end where its pixels end.
    image_bytes = (binding.surfaces - 1) * stride + surface_bytes
    apart = binding.images == 1 or binding.image_stride_bytes >= image_bytes
    _require(apart and binding.image_stride_bytes >= 0, f"{place} has overlapping images")
    _require(binding.location.buffer is buffer, f"{place} is in {binding.location.buffer.name}")
    end = binding.location.offset + (binding.images - 1) * binding.image_stride_bytes + image_bytes
    size = program.buffers[binding.location.buffer].size_bytes
    inside = binding.location.offset >= 0 and end <= size
    _require(inside, f"{place} ends outside {binding.location.buffer.name}")
    steps = (binding.location.offset, stride, binding.image_stride_bytes)
    aligned = all(step % ATOM_BYTES == 0 for step in steps)
    _require(aligned, f"{place} has an offset or stride that is no multiple of 16")
    narrow = binding.laid_out.bytes == 1 or binding.fill == 0
    _require(narrow and -128 <= binding.fill <= 127, f"{place} has fill {binding.fill}")


def _check_spread(place: str, binding: TensorBinding, spread: Spread) -> None:
    """Check that every element of the box is one of the tensor."""
    is_input = binding.location.buffer is BufferId.INPUT
    plain = binding.fold is None and (is_input or binding.laid_out.bytes == 1)
    _require(plain, f"{place} is spread and folded, or an output of several bytes")
    strides = (spread.image, spread.row, spread.pixel, spread.channel)
    sizes = (binding.images, binding.height, binding.width, binding.channels)
    last = spread.first
    last += sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    inside = min(spread.first, *strides) >= 0 and last < math.prod(binding.shape)
    _require(inside, f"{place} has a box that reaches beyond it")


def _check_values(place: str, binding: TensorBinding, *, is_input: bool) -> None:
    affine, table = binding.affine, binding.table
    if table:
        bytewise = binding.element.bytes == 1 and affine is None and is_input
        _require(bytewise and len(table) == BYTE_VALUES, f"{place} has an impossible table")
    if affine is not None:
        low, high = _RANGES.get(affine.element, (0, -1))
        sane = math.isfinite(affine.scale) and affine.scale > 0 and low <= affine.zero_point <= high
        whole = sane and binding.element is Element.FP32
        _require(whole, f"{place} has an impossible quantisation")


def _check_fold(place: str, binding: TensorBinding, fold: Fold, *, is_input: bool) -> None:
    _require(is_input, f"{place} is folded, which only inputs can be")
    image = (fold.height, fold.width, fold.channels)
    window = (fold.window_h, fold.window_w, fold.step_h, fold.step_w)
    sane = min(*image, *window) >= 1 and max(*window, fold.top, fold.left) <= MAX_FOLD
    _require(sane and min(fold.top, fold.left) >= 0, f"{place} has an impossible fold")
    room = fold.lanes * binding.laid_out.bytes <= MAX_FOLDED_BYTES
    lanes = fold.lanes == binding.channels and room
    _require(lanes, f"{place} folds {fold.lanes} lanes into {binding.channels} channels")
