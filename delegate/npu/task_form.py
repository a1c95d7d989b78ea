"""Forms of a Program's tasks, found from their commands: what makes tasks declares nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.chips import chip_named
from delegate.chip.forms import rk3588
from delegate.chip.forms.form import Form, Registers
from delegate.lower.task import BufferId, DpuTask, TableLoad
from delegate.npu.program_types import WORD_BYTES, Program
from delegate.npu.regcmd import TAIL_WORDS, VALUE_MASK, Segment
from delegate.npu.schedule import ScheduledTask

KEPT_TABLE: Final = "kept-table"
"""A task looks up in tables that it does not find loaded by the task right before it."""

COMPUTED: Final = {
    "DPU_RDMA.RDMA_BS_BASE_ADDR": "computed-summands",
    "DPU_RDMA.RDMA_BN_BASE_ADDR": "computed-factors",
    "CNA.DCOMP_ADDR0": "computed-weights",
}
"""A task takes operands that tasks before it compute, by the register of their address."""

_WRITTEN = (BufferId.SCRATCH, BufferId.INPUT, BufferId.OUTPUT)


@dataclass(frozen=True, slots=True)
class TaskForm:
    """The ``form`` of a task, and what it ``relies_on`` of the tasks before it: names like
    ``kept-table``. Weights that a task keeps in CBUF are a setting of its form.
    """

    form: Form
    relies_on: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that evidence is kept of, the form first."""
        return (self.form.name, *self.relies_on)


def task_forms(
    chip: Chip, tasks: Sequence[ScheduledTask], segments: Sequence[Segment]
) -> Iterator[TaskForm]:
    """The form of each task. ``segments``: their commands."""
    before: ScheduledTask | None = None
    for item, segment in zip(tasks, segments, strict=True):
        relies_on = list(_computed(chip, segment))
        if isinstance(item.task, DpuTask) and item.task.table is not None:
            is_loaded = before is not None and isinstance(before.task, TableLoad)
            relies_on += [] if is_loaded else [KEPT_TABLE]
        yield TaskForm(form_of(chip, segment), tuple(relies_on))
        before = item


def program_forms(program: Program) -> Iterator[TaskForm]:
    """The form of each task of a finished Program, with the relations that the Program names."""
    chip, words = chip_named(program.chip), program.words()
    for task in program.tasks:
        first = task.regcmd_offset // WORD_BYTES
        body = words[first : first + task.regcmd_count - TAIL_WORDS].tolist()
        relies_on = tuple(task.form.split()[1:])
        yield TaskForm(_form(chip, task.enable_mask, body), relies_on)


def form_of(chip: Chip, segment: Segment) -> Form:
    """The form of the task with these commands."""
    return _form(chip, segment.enable_mask, segment.words)


def _form(chip: Chip, enable_mask: int, words: Iterable[int]) -> Form:
    registers: Registers = {word & 0xFFFF: word >> 16 & VALUE_MASK for word in words}
    if chip.forms.operand_blocks:
        from delegate.chip.forms import rk3576

        return rk3576.form_of(enable_mask, registers)
    return rk3588.form_of(enable_mask, registers)


def _computed(chip: Chip, segment: Segment) -> Iterator[str]:
    places = {
        chip.registers.by_name[name].offset: relation
        for name, relation in COMPUTED.items()
        if name in chip.registers.by_name
    }
    for slot in segment.addresses:
        relation = places.get(segment.words[slot.word] & 0xFFFF)
        if relation is not None and slot.target.buffer in _WRITTEN:
            yield relation
