"""Decides which stages a program may use, by what is known of the forms of tasks.

In: a chip, what its board has shown, and whether results must be equal. Out: the standing of stages
that lowering offers, and of the finished tasks. The form of stages is that of a small task which
has them; there is no second description of forms.

Forms of a Program's tasks, found from their commands: what makes tasks declares nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final

from delegate.chip.chip import (
    COMPUTED_SUMMANDS,
    COMPUTED_WEIGHTS,
    PROVED,
    Chip,
    Form,
    Registers,
    Standing,
)
from delegate.chip.chips import chip_named, part_of
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.known_forms import (
    STAGES,
    KnownForms,
    known_forms_of,
    proved_state,
    stages_of,
)
from delegate.errors import EncodingError
from delegate.lower.legalize import SUMMAND
from delegate.lower.memory.footprint import accesses
from delegate.lower.task import (
    BufferId,
    ConvTask,
    DpuTask,
    ElementwiseTask,
    FeatureInput,
    OutputCube,
    Ref,
    Stages,
    TableLoad,
    Task,
    TaskKind,
    Weights,
)
from delegate.npu.program_types import WORD_BYTES, Program
from delegate.npu.regcmd import TAIL_WORDS, VALUE_MASK, ScheduledTask, Segment, encode_task

KEPT_TABLE: Final = "kept-table"
"""A task looks up in tables that it does not find loaded by the task right before it."""

OWN_TABLES: Final = "own-tables"
"""A task loads the tables that it looks up in, on RK3588. Others ran such tasks of the DPU alone,
and behind convolutions in fp16, not behind those of int8: a board has to prove it."""

COMPUTED: Final = {
    "DPU_RDMA.RDMA_BS_BASE_ADDR": COMPUTED_SUMMANDS,
    "DPU_RDMA.RDMA_BN_BASE_ADDR": "computed-factors",
    "CNA.DCOMP_ADDR0": COMPUTED_WEIGHTS,
}
"""A task takes operands that tasks before it compute, by the register of their address."""

_WRITTEN = (BufferId.SCRATCH, BufferId.OUTPUT)


@dataclass(frozen=True, slots=True)
class TaskForm:
    """The ``form`` of a task, and what it ``relies_on`` of the tasks before it: names like
    ``kept-table``. Weights that a task keeps in CBUF are a setting of its form.
    """

    form: Form
    relies_on: tuple[str, ...]


def task_forms(
    chip: Chip, tasks: Sequence[ScheduledTask], segments: Sequence[Segment]
) -> Iterator[TaskForm]:
    """Yield the form of each task. ``segments``: their commands."""
    before: ScheduledTask | None = None
    registers = chip.registers.by_name
    places = {registers[name].offset: text for name, text in COMPUTED.items() if name in registers}
    written_inputs = cache(partial(_written_inputs, tasks))  # few programs ask

    def is_computed(place: Ref) -> bool:
        if place.buffer is BufferId.INPUT:
            return any(place.offset in written for written in written_inputs())
        return place.buffer in _WRITTEN

    for item, segment in zip(tasks, segments, strict=True):
        relies_on = [
            places[offset]
            for slot in segment.addresses
            if (offset := segment.words[slot.word] & 0xFFFF) in places and is_computed(slot.target)
        ]
        if isinstance(item.task, DpuTask) and item.task.table is not None:
            is_loaded = before is not None and isinstance(before.task, TableLoad)
            is_own = item.task.table.is_loaded_here
            relies_on += [OWN_TABLES] if is_own else [] if is_loaded else [KEPT_TABLE]
        form = form_of(chip, segment.enable_mask, segment.words)
        yield TaskForm(form, tuple(relies_on))
        before = item


def _written_inputs(tasks: Sequence[ScheduledTask]) -> list[range]:
    """Return the bytes of INPUT that tasks write: results that are joined with an input lie there,
    beside what the host writes.
    """
    writes = (one for item in tasks for one in accesses(item.task) if one.is_write)
    return [
        range(one.start.offset, one.end) for one in writes if one.start.buffer is BufferId.INPUT
    ]


def program_forms(program: Program) -> Iterator[TaskForm]:
    """Yield the form of each task of a finished Program, with the relations that it names."""
    chip, words = chip_named(program.chip), program.words()
    for task in program.tasks:
        first = task.regcmd_offset // WORD_BYTES
        body = words[first : first + task.regcmd_count - TAIL_WORDS].tolist()
        relies_on = tuple(task.form.split()[1:])
        yield TaskForm(form_of(chip, task.enable_mask, body), relies_on)


def form_of(chip: Chip, enable_mask: int, words: Iterable[int]) -> Form:
    """Return the form of the task that starts ``enable_mask`` behind these commands."""
    registers: Registers = {word & 0xFFFF: word >> 16 & VALUE_MASK for word in words}
    found: Form = part_of("delegate.chip", chip.target, "forms").form_of(enable_mask, registers)
    return found


_PLACE: Final = Ref(BufferId.CONSTANTS, 0)
_MAP: Final = Ref(BufferId.SCRATCH, 0)
_KNOWN_RELATIONS: Final = frozenset({KEPT_TABLE})
"""Tables of one submit served tasks of the next on the same core (measured, ``silicon.md``)."""
_DILATION: Final = "dil"
_SPREAD: Final = "deconv_stride"
"""The settings' names, see ``delegate.chip.forms.words`` and ``delegate.chip.rk3588.forms``."""
_SIDE: Final = 4
"""Rows and columns of the tasks that stand for stages."""


@dataclass(frozen=True, slots=True, eq=False)
class FormEvidence:
    """``known``: the forms that others have run; None: whatever the chip's encoder takes is what
    its vendor's programs have. ``is_exact``: forms nobody has run are taken, too, but for those
    that others saw fail.
    """

    chip: Chip
    known: KnownForms | None
    is_exact: bool = False
    _memory: dict[tuple[TaskKind, Element, Stages, bool], Standing] = field(
        default_factory=dict, repr=False
    )

    def standing(
        self, kind: TaskKind, stages: Stages, element: Element, /, *, keeps_weights: bool = False
    ) -> Standing:
        """Return how well ``stages`` are known in tasks of ``kind``. ``keeps_weights``: of the task
        before.
        """
        key = kind, element, stages, keeps_weights
        if key in self._memory:  # lowering asks for few, again and again
            return self._memory[key]
        task = _task(self.chip, kind, element, stages)
        if keeps_weights and isinstance(task, ConvTask):
            task = replace(task, weight_reuse=True)
        form, known, found = self._form_of(task), self.known, Standing.WHOLE
        if form is None or (known is not None and known.refusal(form)):
            found = Standing.REFUSED
        elif known is not None and not self.is_exact:
            is_refused = any(name in STAGES for name, _ in known.unknown(form))
            found = Standing.REFUSED if is_refused else Standing.IN_PARTS
            if stages_of(form.settings) in known.stages.get(form.kind, ()):
                found = Standing.WHOLE
        self._memory[key] = found
        return found

    def knows_dilations(
        self, kind: TaskKind, dilations: tuple[int, int], element: Element, /
    ) -> bool:
        """Return whether taps of tasks of ``kind`` may lie so far apart."""
        return self._knows(_DILATION, kind, element, dilations=dilations)

    def knows_spread(self, kind: TaskKind, spread: tuple[int, int], element: Element, /) -> bool:
        """Return whether pixels of tasks of ``kind`` may lie so far apart."""
        return self._knows(_SPREAD, kind, element, spread=spread)

    def _knows(self, setting: str, kind: TaskKind, element: Element, **changed: Any) -> bool:
        """Return whether ``setting`` of a convolution that is ``changed`` so has been run in its
        kind of task, or need not.
        """
        if self.known is None or self.is_exact:
            return True
        form = self._form_of(replace(_task(self.chip, kind, element, SUMMAND), **changed))
        return form is not None and setting not in dict(self.known.unknown(form))

    def knows_relation(self, name: str, /) -> bool:
        """Return whether tasks may rely on those before them as ``name`` says."""
        is_free = self.known is None or self.is_exact
        return is_free or name in _KNOWN_RELATIONS or name in self.chip.proved

    def knows_task(self, task: Task, /) -> bool:
        """Return whether a program may have ``task``: its form is not one that failed, and each of
        its settings has been run in its kind of task, unless any may be taken.
        """
        form = self._form_of(task)
        if form is None or form.name in self.chip.missing:
            return False
        return not self.refusal(TaskForm(form, ()))

    def _form_of(self, task: Task) -> Form | None:
        """Return the form of ``task``; None: the encoder refuses it."""
        try:
            segment = encode_task(self.chip, "", task)
        except EncodingError:
            return None
        return form_of(self.chip, segment.enable_mask, segment.words)

    def refusal(self, task: TaskForm) -> str:
        """Return why a program may not have such a task; empty: it may."""
        if self.known is None:
            return ""
        seen = self.known.refusal(task.form)
        if seen or self.is_exact:
            return seen
        unknown = [f"{name} {value}" for name, value in self.known.unknown(task.form)]
        unknown += [name for name in task.relies_on if not self.knows_relation(name)]
        kind = task.form.kind
        return f"nobody has run a task of kind {kind} with {', '.join(unknown)}" if unknown else ""


def evidence_for(chip: Chip, *, is_exact: bool) -> FormEvidence:
    """Return what is known of ``chip``, with what its board has proved."""
    forms = tuple(state for state in chip.proved.values() if state != PROVED)
    return FormEvidence(chip, known_forms_of(chip.target, forms), is_exact)


def proofs(chip: Chip, program: Program) -> dict[str, str]:
    """Return, by name, what a board proves that was right with ``program``: forms that nobody is
    known to have run, and what tasks rely on.
    """
    known = known_forms_of(chip.target)
    found: dict[str, str] = {}
    if known is None:
        return found
    for task in program_forms(program):
        if not known.sources(task.form):
            found[task.form.name] = proved_state(task.form)
        found |= dict.fromkeys(set(task.relies_on) - _KNOWN_RELATIONS, PROVED)
    return found


def _task(chip: Chip, kind: TaskKind, element: Element, stages: Stages) -> Task:
    """Return a small task of ``kind`` that has ``stages``, a map of EW's of its own size."""
    is_depthwise = kind in (TaskKind.DEPTHWISE, TaskKind.SPREAD)
    lanes, surface, ew = element.lanes, _SIDE * _SIDE * ATOM_BYTES, stages.ew
    if ew is not None and ew.operand is not None:
        ew = replace(ew, surface_stride_bytes=surface, line_stride_bytes=None)
        stages = stages._replace(ew=ew)
    if kind is TaskKind.ALONE:
        cube = OutputCube(_MAP, _SIDE, _SIDE, lanes, lanes, surface, 1, None, element.bytes)
        return ElementwiseTask("", _MAP, surface, cube, *stages, element=element)
    channels = chip.groups.outputs(is_depthwise, element.bytes)
    cube = OutputCube(
        _MAP, _SIDE, _SIDE, channels, channels, surface, channels // lanes, None, element.bytes
    )
    is_spread = kind in (TaskKind.SPREAD, TaskKind.SPREAD_DENSE)
    pixels = _SIDE // 2 if is_spread else _SIDE
    feature = FeatureInput(
        source=_MAP, height=pixels, width=pixels, channels=channels, channels_real=channels,
        line_stride_bytes=pixels * ATOM_BYTES, surface_stride_bytes=pixels * pixels * ATOM_BYTES,
        entries_per_row=pixels * channels * element.bytes // chip.cbuf.entry_bytes,
        pad_top=0, pad_left=0, pad_value=0,
    )  # fmt: skip
    size = channels * element.bytes
    kernels = 1 if is_depthwise else channels
    weights = Weights(_PLACE, size * kernels, size, kernels, 1, 1)
    banks = chip.cbuf.data_banks or 1
    weight_banks = chip.cbuf.weight_banks if chip.cbuf.data_banks else 1
    spread = (2, 2) if is_spread else (1, 1)
    return ConvTask(
        *("", feature, weights, banks, weight_banks, cube, is_depthwise, *stages),
        spread=spread,
        element=element,
    )
