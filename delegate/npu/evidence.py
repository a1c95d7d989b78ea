"""Which stages a program may use: what is known of the forms of tasks, by mode and by board.

In: a chip, what a board has shown, and whether results must be equal. Out: the standing of stages
that lowering offers, and of the finished tasks. The form of stages is that of a small task which
has them; there is no second description of forms.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.evidence import Standing
from delegate.chip.forms.known import Items, KnownForms, known_rk3588, stages_of
from delegate.errors import EncodingError
from delegate.lower.task import (
    BufferId,
    CbufPlan,
    ConvTask,
    ElementwiseTask,
    EwStage,
    FeatureInput,
    OutputCube,
    Ref,
    Stages,
    Task,
    TaskKind,
    Weights,
)
from delegate.npu.encode import encode_task
from delegate.npu.task_form import KEPT_TABLE, TaskForm, form_of

_PLACE: Final = Ref(BufferId.CONSTANTS, 0)
_MAP: Final = Ref(BufferId.SCRATCH, 0)
_FLOAT: Final = "_fp"
_KNOWN_RELATIONS: Final = frozenset({KEPT_TABLE})
"""Tables of one submit served tasks of the next on the same core (measured, ``silicon.md``)."""
_SIDE: Final = 4
"""Rows and columns of the tasks that stand for stages."""


@dataclass(frozen=True, slots=True, eq=False)
class FormEvidence:
    """``known``: the forms that others have run; None: whatever the chip's encoder takes is what
    its vendor's programs have. ``is_exact``: forms nobody has run are taken, too, but for those
    that others saw fail. ``avoided``: stages that failed on this board, by kind.
    """

    chip: Chip
    known: KnownForms | None
    is_exact: bool = False
    avoided: frozenset[tuple[str, Items]] = frozenset()
    _memory: dict[tuple[TaskKind, Element, Stages, bool], Standing] = field(
        default_factory=dict, repr=False
    )

    def standing(
        self, kind: TaskKind, stages: Stages, element: Element, /, *, keeps_weights: bool = False
    ) -> Standing:
        """How well ``stages`` are known in tasks of ``kind``. ``keeps_weights``: of the task
        before.
        """
        key = kind, element, _without_numbers(stages), keeps_weights
        if key not in self._memory:
            self._memory[key] = self._standing(*key)
        return self._memory[key]

    def _standing(
        self, kind: TaskKind, element: Element, stages: Stages, keeps_weights: bool
    ) -> Standing:
        task = _task(self.chip, kind, element, stages)
        if keeps_weights and isinstance(task, ConvTask):
            task = replace(task, cbuf=replace(task.cbuf, weight_reuse=True))
        try:
            segment = encode_task(self.chip, "", task)
        except EncodingError:
            return Standing.REFUSED
        form = form_of(self.chip, segment)
        if (form.kind, stages_of(form.settings)) in self.avoided:
            return Standing.REFUSED
        if self.known is None:
            return Standing.WHOLE
        if self.known.refusal(form):
            return Standing.REFUSED
        return Standing.WHOLE if self.is_exact else self.known.standing_of_stages(form)

    def knows_task(self, task: Task, /) -> bool:
        """Return whether a program may have ``task``: its form is not one that failed, and each of
        its settings has been run in its kind of task, unless any may be taken.
        """
        try:
            form = form_of(self.chip, encode_task(self.chip, "", task))
        except EncodingError:
            return False
        if form.name in self.chip.missing or (form.kind, stages_of(form.settings)) in self.avoided:
            return False
        return self.known is None or not self.refusal(TaskForm(form, ()))

    def refusal(self, task: TaskForm) -> str:
        """Why a program may not have such a task; empty: it may. Float models have no other way for
        some of their operators: there what nobody has run is taken, and is the first to be proved.
        """
        if self.known is None:
            return ""
        seen = self.known.refusal(task.form)
        if seen or self.is_exact or task.form.kind.endswith(_FLOAT):
            return seen
        unknown = [f"{name} {value}" for name, value in self.known.unknown(task.form)]
        unknown += [name for name in task.relies_on if name not in _KNOWN_RELATIONS]
        kind = task.form.kind
        return f"nobody has run a task of kind {kind} with {', '.join(unknown)}" if unknown else ""


def evidence_for(chip: Chip, *, is_exact: bool) -> FormEvidence:
    """Return what is known of ``chip`` without a board."""
    known = None if chip.forms.operand_blocks else known_rk3588()
    return FormEvidence(chip, known, is_exact)


def _without_numbers(stages: Stages) -> Stages:
    """Stages that are equal for stages of one form, as far as that is simple."""
    bs, bn, ew, out = stages.bs, stages.bn, stages.ew, stages.out_convert
    return Stages(
        replace(
            bs,
            alu_operand=0,
            mul_operand=0,
            ow_operand=0,
            shift=0,
            shift_negative=0,
            relux_max=_number(bs.relux_max),
            operands=_place(bs.operands),
            scalars=_place(bs.scalars),
            operands_used=None,
        ),
        replace(
            bn,
            alu_operand=_number(bn.alu_operand),
            mul_operand=0,
            shift=0,
            shift_negative=0,
            relux_max=_number(bn.relux_max),
            operands=_place(bn.operands),
        ),
        None if ew is None else _operand_alone(ew),
        replace(
            out,
            scale=1,
            shift=min(out.shift, 1),
            offset=0,
            exponent=_number(out.exponent or None) or 0,
        ),
        None if stages.table is None else replace(stages.table, functions=_FUNCTION, slot=0),
    )


_FUNCTION: Final = (bytes(256),)


def _number(value: int | None) -> int | None:
    return None if value is None else 1


def _place(ref: Ref | None) -> Ref | None:
    return None if ref is None else _PLACE


def _operand_alone(ew: EwStage) -> EwStage:
    return replace(
        ew,
        operand=None if ew.operand is None else _PLACE if ew.per_channel else _MAP,
        truncate=min(ew.truncate, 1),
        surface_stride_bytes=0 if ew.operand is None else _SIDE * _SIDE * ATOM_BYTES,
        line_stride_bytes=None,
        offset=0,
        scale=1,
        shift=0,
        register_operand=0,
        relux_max=_number(ew.relux_max),
    )


def _task(chip: Chip, kind: TaskKind, element: Element, stages: Stages) -> Task:
    """A small task of ``kind`` that has ``stages``."""
    is_depthwise = kind in (TaskKind.DEPTHWISE, TaskKind.SPREAD)
    lanes, surface = element.lanes, _SIDE * _SIDE * ATOM_BYTES
    if kind is TaskKind.ALONE:
        cube = OutputCube(_MAP, _SIDE, _SIDE, lanes, lanes, surface, 1, None, element.bytes)
        return ElementwiseTask("", _MAP, surface, cube, *stages, element=element)
    channels = chip.groups.outputs(is_depthwise) // element.bytes
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
    cbuf = CbufPlan(banks, chip.cbuf.weight_banks if chip.cbuf.data_banks else 1, False)
    spread = (2, 2) if is_spread else (1, 1)
    return ConvTask(
        "", feature, weights, cbuf, cube, is_depthwise, *stages, spread=spread, element=element
    )
