"""Rewrites of what a chip lacks into what it has.

In: a convolution before it is tiled, or a layer's tasks, as lowering makes them for a chip that has
everything. Out: the same results by the primitives of the chip at hand. What has no rewrite is
refused here, or by the encoder.

Where no task is known whose taps lie apart, kernels get taps in between: those count as zero, so
sums are the same. A depthwise task takes a cycle for each tap of 64 channels. With more than 64 it
becomes a dense one, whose taps may lie apart, with zeros for all other channels.

The questions stand here, too: which primitives a task asks of a chip, and whether a chip, on this
board and in this mode, is known to run tasks with the stages that an operation would like best.
Where it is not, the operation takes the next of its ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from typing import Final

import numpy as np

from delegate.chip.chip import COMPUTED_SUMMANDS, COMPUTED_WEIGHTS, Chip, Primitive, Standing
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, Element
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.lowered import Layer
from delegate.lower.numerics.pipeline import EwOperation, MultiplyStage, OutConvert
from delegate.lower.operation import ConstantPool
from delegate.lower.rules import FORM_IS_KNOWN, KERNEL_SIZE_IN_RANGE
from delegate.lower.task import (
    BnStage,
    BsStage,
    BufferId,
    ElementwiseTask,
    EwStage,
    Pair,
    PoolTask,
    Ref,
    Source,
    Stages,
    TableUse,
    Task,
    TaskKind,
)
from delegate.lower.weights import pack_scalars, widen_multiplier


def legal_convolution(conv: Convolution) -> Convolution:
    """Return ``conv`` by what its chip has. Raises LoweringError where no rewrite replaces what it
    lacks.
    """
    has_equal_sides = Primitive.UNEQUAL_SIDES in conv.chip.lacks
    if has_equal_sides:
        conv = with_equal_sides(conv)
    if conv.dilations != (1, 1):
        conv = with_known_taps(conv)
    (kh, kw), most = conv.kernel, conv.chip.limits.kernel_size
    if max(kh, kw) > most:
        problem = f"it is {kh} x {kw}, the limit {most}"
        raise LoweringError(conv.node, KERNEL_SIZE_IN_RANGE, problem)
    sides = {"kernel": conv.kernel, "strides": conv.strides, "dilations": conv.dilations}
    for name, (rows, columns) in sides.items():
        if has_equal_sides and rows != columns:
            raise LoweringError(conv.node, FORM_IS_KNOWN, f"{name} {rows} x {columns}")
    return conv


def with_equal_sides(conv: Convolution) -> Convolution:
    """Return ``conv`` with as many rows as columns of kernel, strides and dilations, where taps
    alone make them equal. Taps that are added, behind the others, count as zero: sums are the same.
    """
    first = 0 if conv.is_depthwise else 1
    sides = conv.weights.shape[first : first + 2]
    output = conv.output_view
    strides = conv.strides
    if output.height == 1:  # it leads nowhere
        strides = (strides[1], strides[1])
    elif output.width == 1:
        strides = (strides[0], strides[0])
    # So does the dilation of a single tap.
    pairs = zip(sides, conv.dilations, strict=True)
    steps = [dilation if side > 1 else 0 for side, dilation in pairs]
    dilation = gcd(*steps) or 1
    apart = [step // dilation or 1 for step in steps]
    side = max((count - 1) * step + 1 for count, step in zip(sides, apart, strict=True))
    if side > conv.chip.limits.kernel_size:
        return conv
    weights = conv.weights
    if sides != (side, side):
        shape = (*weights.shape[:first], side, side, *weights.shape[first + 2 :])
        weights = np.full(shape, conv.weight_zero_point, weights.dtype)
        rows, columns = (
            slice(0, (count - 1) * step + 1, step) for count, step in zip(sides, apart, strict=True)
        )
        weights[(slice(None),) * first + (rows, columns)] = conv.weights
    return replace(conv, weights=weights, strides=strides, dilations=(dilation, dilation))


_MOST_TAPS: Final = 64


def close_size(chip: Chip, kernel: Pair, dilations: Pair, *, is_depthwise: bool) -> Pair | None:
    """Return the sides of a kernel with the taps in between; None: it would be too large."""
    rows, columns = (
        (count - 1) * apart + 1 for count, apart in zip(kernel, dilations, strict=True)
    )
    if max(rows, columns) > chip.limits.kernel_size:
        return None
    return None if is_depthwise and rows * columns > _MOST_TAPS else (rows, columns)


def with_known_taps(conv: Convolution) -> Convolution:
    """Return ``conv`` with zeros between taps, where dilations such as its are not known."""
    chip, (kh, kw) = conv.chip, conv.kernel
    apart = tuple(d if k > 1 else 1 for d, k in zip(conv.dilations, (kh, kw), strict=True))
    if apart == (1, 1) or chip.evidence is None:
        return conv
    if chip.evidence.knows_dilations(conv.kind, conv.dilations, conv.element):
        return conv
    size = close_size(chip, (kh, kw), conv.dilations, is_depthwise=conv.is_depthwise)
    if size is None:
        may_be_dense = conv.is_depthwise and conv.element is Element.INT8
        return with_known_taps(_as_dense(conv)) if may_be_dense else conv
    first = 0 if conv.is_depthwise else 1
    shape = (*conv.weights.shape[:first], *size, *conv.weights.shape[first + 2 :])
    weights = np.full(shape, conv.weight_zero_point, conv.weights.dtype)
    taps = tuple(slice(None, None, step) for step in conv.dilations)
    weights[(slice(None),) * first + taps] = conv.weights
    return replace(conv, weights=weights, dilations=(1, 1))


def _as_dense(conv: Convolution) -> Convolution:
    """Return a depthwise convolution as a dense one: zeros for all channels but a result's own."""
    weights = widen_multiplier(conv.weights, conv.weights.shape[2], conv.weight_zero_point)
    return replace(conv, weights=weights, is_depthwise=False)


REWRITTEN: Final = frozenset({Primitive.REGISTER_NUMBERS, Primitive.SURFACE_GAPS})
"""The primitives that ``legal_layer`` does without."""


def legal_layer(chip: Chip, layer: Layer, constants: ConstantPool) -> Layer:
    """Return ``layer`` with tasks of the DPU alone that ``chip`` has: their numbers in records
    among ``constants``, and a task per surface where there are gaps between surfaces.
    """
    tasks: tuple[Task, ...] = layer.tasks
    if Primitive.REGISTER_NUMBERS in chip.lacks:
        tasks = tuple(_with_record(task, constants) for task in tasks)
    if Primitive.SURFACE_GAPS in chip.lacks:
        tasks = tuple(part for task in tasks for part in _without_gaps(task))
    return layer if tasks == layer.tasks else replace(layer, tasks=tasks)


def _with_record(task: Task, constants: ConstantPool) -> Task:
    if not isinstance(task, ElementwiseTask):
        return task
    known = _with_place_in_bs(task)
    return replace(known, bs=replace(known.bs, scalars=constants.add(_record(known))))


def _with_place_in_bs(task: ElementwiseTask) -> ElementwiseTask:
    """Return the place in tables as summand and factor, in that order: (x + a) * b for x * b + a *
    b.
    """
    if task.table is None or task.bn.alu_operand is None:
        return task
    factor = task.bn.mul_operand
    summand, rest = divmod(task.bn.alu_operand, factor)
    assert not rest
    bs = BsStage(Source.REGISTER, summand, Source.REGISTER, factor)
    return replace(task, bs=bs, bn=BnStage())


def _record(task: ElementwiseTask) -> bytes:
    bs = task.bs
    summand = bs.alu_operand if bs.alu is Source.REGISTER else 0
    multiplier = bs.mul_operand if bs.mul is Source.REGISTER else 1
    return pack_scalars(summand, multiplier if task.scales_main else None, bs.shift)


def _without_gaps(task: Task) -> Iterator[Task]:
    if not isinstance(task, ElementwiseTask) or not has_surface_gaps(task):
        yield task
        return
    output, ew = task.output, task.ew
    rows = output.height * output.width * ATOM_BYTES
    for number in range(output.surfaces):
        left = output.channels_real - number * CHANNELS_PER_SURFACE
        yield replace(
            task,
            tile=f"{task.tile} surface {number}",
            source=task.source.moved(number * task.source_surface_stride_bytes),
            source_surface_stride_bytes=rows,
            output=replace(
                output,
                target=output.target.moved(number * output.surface_stride_bytes),
                channels=CHANNELS_PER_SURFACE,
                channels_real=min(max(left, 0), CHANNELS_PER_SURFACE),
                surface_stride_bytes=rows,
            ),
            ew=None if ew is None else _of_surface(ew, number, rows),
        )


def _of_surface(ew: EwStage, number: int, rows: int) -> EwStage:
    if ew.operand is None:
        return ew
    if ew.per_channel:
        return replace(ew, operand=ew.operand.moved(number * ATOM_BYTES * ew.operand_bytes))
    operand = ew.operand.moved(number * ew.surface_stride_bytes)
    return replace(ew, operand=operand, surface_stride_bytes=rows)


_SOME: Final = 1
_PLACE: Final = Ref(BufferId.CONSTANTS, 0)

SUMMAND: Final = Stages(BsStage(alu=Source.MEMORY, ow=Source.REGISTER, operands=_PLACE))
"""Convolutions: BS adds a summand per channel, OUT_CVT scales; as Mesa's driver has them."""
RECORD: Final = Stages(
    BsStage(alu=Source.MEMORY, mul=Source.MEMORY, ow=Source.MEMORY, operands=_PLACE)
)
"""Convolutions: BS takes summand, multiplier and sum of inputs per channel from a record, as the
vendor's programs have them."""
REGISTER: Final = SUMMAND._replace(bs=replace(SUMMAND.bs, mul=Source.REGISTER))
"""Convolutions: BS multiplies all channels by a register."""
_TWO_REGISTERS: Final = REGISTER._replace(bn=BnStage(mul=Source.REGISTER))
_TWO_PER_CHANNEL: Final = RECORD._replace(
    bn=BnStage(mul=Source.MEMORY, operands=_PLACE),
    ew=EwStage(operand=_PLACE, per_channel=True, operation=EwOperation.MULTIPLY),
)
_ALONE: Final = BsStage(alu=Source.REGISTER, mul=Source.REGISTER)
_INDEX: Final = BnStage(alu_operand=_SOME, mul=Source.REGISTER)
_LOOK_UP: Final = TableUse((bytes(1),), 0)


def is_known(
    chip: Chip,
    kind: TaskKind,
    stages: Stages,
    element: Element = Element.INT8,
    least: Standing = Standing.WHOLE,
) -> bool:
    """Return whether these very stages have been run, or are known as well as ``least``. A chip
    without evidence is one whose forms do not matter: all that it does not lack.
    """
    if chip.evidence is None:
        return chip.lacks.isdisjoint(used_by_stages(stages.bs, stages.ew))
    return chip.evidence.standing(kind, stages, element) >= least


def allows_steps(chip: Chip) -> bool:
    """Return whether many results may be a step off where no stages are equal."""
    return chip.evidence is None or not chip.evidence.is_exact


def computes_weights(chip: Chip) -> bool:
    """Return whether a task may read weights that tasks before it compute."""
    return _relies_on(chip, COMPUTED_WEIGHTS)


def sums_over_tasks(chip: Chip, element: Element) -> bool:
    """Return whether a task may add int32 sums that tasks before it compute."""
    return element is Element.INT8 and _relies_on(chip, COMPUTED_SUMMANDS)


def _relies_on(chip: Chip, relation: str) -> bool:
    if Primitive.SUMS in chip.lacks:
        return False
    return chip.evidence is None or chip.evidence.knows_relation(relation)


def keeps_weights(chip: Chip, kind: TaskKind, stages: Stages, element: Element) -> bool:
    """Return whether a task with ``stages`` may find its weights in CBUF."""
    if chip.evidence is None:
        return True
    standing = chip.evidence.standing(kind, stages, element, keeps_weights=True)
    return standing is Standing.WHOLE


def rounds_twice(chip: Chip, kind: TaskKind, *, per_channel: bool) -> bool:
    """Return whether BS and BN may both multiply, and EW bring units together, behind a
    convolution.
    """
    return is_known(chip, kind, _TWO_PER_CHANNEL if per_channel else _TWO_REGISTERS)


def ties_away(chip: Chip, kind: TaskKind, stages: Stages) -> bool:
    """Return whether OUT_CVT may round ties away from zero behind ``stages``."""
    return is_known(chip, kind, stages._replace(out_convert=OutConvert(shift=1, ties_away=True)))


def pair(operation: EwOperation, *, relu: bool = False, per_channel: bool = False) -> Stages:
    """Return the stages of the DPU alone, of two maps, or of one and a value ``per_channel``."""
    is_product = operation is EwOperation.MULTIPLY
    bs = replace(_ALONE, mul=Source.OFF) if is_product else _ALONE
    ew = EwStage(operand=_PLACE, operation=operation, relu=relu, per_channel=per_channel)
    return Stages(bs, ew=ew)


def exact_product() -> Stages:
    """Return the stages of a product of two maps that is rounded twice, by BN and by EW."""
    ew = EwStage(operand=_PLACE, operation=EwOperation.MULTIPLY, truncate=_SOME)
    return Stages(_ALONE, BnStage(mul=Source.REGISTER), ew)


def table_behind(multiplies: bool) -> Stages:
    """Return the stages of a table behind a convolution. ``multiplies``: BS does, per channel."""
    return (RECORD if multiplies else SUMMAND)._replace(bn=_INDEX, table=_LOOK_UP)


def may_add_behind(chip: Chip, kind: TaskKind, bn: BnStage) -> bool:
    """Return whether EW may add a map behind a convolution whose BN is as given: somebody has run
    each setting of these stages in such a task.
    """
    stages = RECORD._replace(bn=bn, ew=EwStage(operand=_PLACE))
    return is_known(chip, kind, stages, least=Standing.IN_PARTS)


_INT32_BYTES: Final = 4
_EXTREMA: Final = (EwOperation.MAX, EwOperation.MIN)


def used_by(task: Task) -> Iterator[Primitive]:
    """Yield what ``task`` asks for, some of it more than once."""
    if isinstance(task, PoolTask):
        yield Primitive.POOLING
        return
    yield from used_by_stages(task.bs, task.ew)
    if task.output.row_gap_bytes:
        yield Primitive.ROW_GAPS
    if isinstance(task, ElementwiseTask):
        if task.source_line_stride_bytes is not None:
            yield Primitive.ROW_GAPS
        if task.ew is not None and task.ew.line_stride_bytes is not None:
            yield Primitive.ROW_GAPS
        if task.output.surfaces > 1 and has_surface_gaps(task):
            yield Primitive.SURFACE_GAPS
        return
    feature, weights = task.feature, task.weights
    sides = (weights.kh, weights.kw), task.strides, task.dilations
    if any(rows != columns for rows, columns in sides):
        yield Primitive.UNEQUAL_SIDES
    if feature.line_stride_bytes != feature.width * ATOM_BYTES:
        yield Primitive.ROW_PARTS
    if task.weight_reuse:
        yield Primitive.KEPT_WEIGHTS
    if task.output.element_bytes == _INT32_BYTES:
        yield Primitive.SUMS


def bn_stage(bn: MultiplyStage, operands: Ref | None = None) -> BnStage:
    """Return BN with multipliers per channel at ``operands``, else with numbers for all channels;
    it does not multiply by 1.
    """
    assert isinstance(bn.add, int)
    mul, multiply = Source.MEMORY, 0
    if isinstance(bn.multiply, int):
        mul, multiply = (Source.OFF, 0) if bn.is_plain else (Source.REGISTER, bn.multiply)
    return BnStage(
        alu_operand=bn.add or None,
        mul=mul,
        mul_operand=multiply,
        shift=bn.shift,
        shift_negative=bn.shift,
        relu=bn.relu,
        relux_max=bn.relux,
        operands=operands,
    )


def used_by_stages(bs: BsStage, ew: EwStage | None) -> Iterator[Primitive]:
    """Yield what the stages of the DPU ask for."""
    if bs.scalars is None:
        yield Primitive.REGISTER_NUMBERS
    if ew is None or ew.operand is None:
        return
    if ew.per_channel:
        yield Primitive.CHANNEL_OPERANDS
    if ew.operation in _EXTREMA:
        yield Primitive.EXTREMA


def has_surface_gaps(task: ElementwiseTask) -> bool:
    """Return whether a map that ``task`` reads or writes has surfaces further apart than its rows
    take.
    """
    output, ew = task.output, task.ew
    strides = [output.surface_stride_bytes, task.source_surface_stride_bytes]
    if ew is not None and ew.operand is not None and not ew.per_channel:
        strides.append(ew.surface_stride_bytes)
    whole = output.height * output.width * ATOM_BYTES
    return any(stride != whole for stride in strides)
