"""Asks the evidence for stages that operations would like best, before they choose.

Each function stands for one choice: whether a chip, on this board and in this mode, is known to run
tasks of a kind with such stages. Where it is not, the operation takes the next of its ways.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.chip.evidence import Standing
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import (
    BnStage,
    BsStage,
    BufferId,
    EwStage,
    OutConvert,
    Ref,
    Source,
    Stages,
    TableUse,
    TaskKind,
)

_SOME: Final = 1
_PLACE: Final = Ref(BufferId.CONSTANTS, 0)

SUMMAND: Final = Stages(BsStage(alu=Source.MEMORY, ow=Source.REGISTER, operands=_PLACE))
"""Convolutions: BS adds a summand per channel, OUT_CVT scales; as Mesa's driver has them."""
RECORD: Final = Stages(
    BsStage(alu=Source.MEMORY, mul=Source.MEMORY, ow=Source.MEMORY, operands=_PLACE)
)
"""Convolutions: BS takes summand, multiplier and sum of inputs per channel from a record, as the
vendor's programs have them."""
_REGISTER: Final = SUMMAND._replace(bs=replace(SUMMAND.bs, mul=Source.REGISTER))
_TWO_REGISTERS: Final = _REGISTER._replace(bn=BnStage(mul=Source.REGISTER))
_TWO_PER_CHANNEL: Final = RECORD._replace(
    bn=BnStage(mul=Source.MEMORY, operands=_PLACE),
    ew=EwStage(operand=_PLACE, per_channel=True, operation=EwOperation.MULTIPLY),
)
_ALONE: Final = BsStage(alu=Source.REGISTER, mul=Source.REGISTER)
_INDEX: Final = BnStage(alu_operand=_SOME, mul=Source.REGISTER)
_LOOK_UP: Final = TableUse((bytes(1),), 0)


def is_known(chip: Chip, kind: TaskKind, stages: Stages, element: Element = Element.INT8) -> bool:
    """Whether these very stages have been run. A chip without evidence is one whose forms do not
    matter: all that its registers can say, but for numbers that it only takes from memory.
    """
    if chip.evidence is None:
        return not chip.forms.operand_blocks
    return chip.evidence.standing(kind, stages, element) is Standing.WHOLE


def keeps_weights(chip: Chip, kind: TaskKind, stages: Stages, element: Element) -> bool:
    """Whether a task with ``stages`` may find its weights in CBUF."""
    if chip.evidence is None:
        return True
    standing = chip.evidence.standing(kind, stages, element, keeps_weights=True)
    return standing is Standing.WHOLE


def rounds_twice(chip: Chip, kind: TaskKind, *, per_channel: bool) -> bool:
    """Whether BS and BN may both multiply, and EW bring units together, behind a convolution."""
    return is_known(chip, kind, _TWO_PER_CHANNEL if per_channel else _TWO_REGISTERS)


def multiplies_by_register(chip: Chip, kind: TaskKind) -> bool:
    """Whether BS may multiply all channels of a convolution by a register."""
    return is_known(chip, kind, _REGISTER)


def ties_away(chip: Chip, kind: TaskKind, stages: Stages) -> bool:
    """Whether OUT_CVT may round ties away from zero behind ``stages``."""
    return is_known(chip, kind, stages._replace(out_convert=OutConvert(shift=1, ties_away=True)))


def pair(operation: EwOperation, *, relu: bool = False) -> Stages:
    """The DPU alone, of two maps."""
    is_product = operation is EwOperation.MULTIPLY
    bs = replace(_ALONE, mul=Source.OFF) if is_product else _ALONE
    return Stages(bs, ew=EwStage(operand=_PLACE, operation=operation, relu=relu))


def exact_product() -> Stages:
    """A product of two maps that is rounded twice, by BN and by EW."""
    ew = EwStage(operand=_PLACE, operation=EwOperation.MULTIPLY, truncate=_SOME)
    return Stages(_ALONE, BnStage(mul=Source.REGISTER), ew)


def table_behind(multiplies: bool) -> Stages:
    """A table in a convolution's own task. ``multiplies``: BS does, per channel."""
    return (RECORD if multiplies else SUMMAND)._replace(bn=_INDEX, table=_LOOK_UP)
