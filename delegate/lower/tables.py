"""Functions of one int8 value as tasks of the DPU alone, exact for each of the 256 values.

Two tables of int16 lie side by side in the DPU, an entry every 32 units: 1,024 steps, the place of
four functions of 256 values. BN makes the place in units, ``x * 32 + (128 + start - 512) * 32``, so
that a lookup hits an entry, never what lies between two. An entry is ``256 f(x) - 64`` and OUT_CVT
divides by 256: boards were seen to read entries that are off by up to 128, and any error from -63
to +128 gives the same result. All settings are those of the vendor's programs. A function that is a
line needs no table (``numerics/lines.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from delegate.chip.chip import Chip, TaskKind
from delegate.lower.legalize import is_known
from delegate.lower.lowered import Layer
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.lines import lines_of
from delegate.lower.numerics.pipeline import (
    ENTRY_SCALE,
    FUNCTION_STEPS,
    INDEX_STEP,
    INT8_MAX,
    INT8_MIN,
    OutConvert,
)
from delegate.lower.numerics.tflite import INT8_VALUES
from delegate.lower.operation import Plan, Planning, with_tasks_behind
from delegate.lower.task import (
    BnStage,
    BsStage,
    DpuTask,
    ElementwiseTask,
    Source,
    Stages,
    TableUse,
    Task,
    is_curve,
)
from delegate.lower.tiling.element_wise import map_parts, surfaces_touched

TABLE_STEPS = 1024

_OUT = OutConvert(shift=ENTRY_SCALE.bit_length() - 1)


def function_tasks(
    chip: Chip, source: DeviceTensor, target: DeviceTensor, function: bytes
) -> tuple[ElementwiseTask, ...]:
    """Tasks for every image: ``target`` becomes ``function`` (its results for -128 to 127, as
    int8) of ``source``, whose shape is the same. They may lie in one place.
    """
    stages = _line_stages(chip, function) or _table_stages(function)
    return tuple(part.task(source, target, stages) for part in map_parts(chip, target.view))


def clamped_behind(planning: Planning, plan: Plan, ends: tuple[int, int]) -> Plan:
    """Return ``plan`` with tasks that keep its result between ``ends``."""
    if ends == (INT8_MIN, INT8_MAX):
        return plan
    function = INT8_VALUES.clip(*ends).astype(np.int8).tobytes()
    chip, result = planning.chip, planning.tensor(plan.operation.result)
    return with_tasks_behind(
        *(planning, plan, surfaces_touched(chip, result.view.channels)),
        lambda source, target: function_tasks(chip, source, target, function),
    )


def _line_stages(chip: Chip, function: bytes) -> Stages | None:
    """Return the known stages that give ``function`` without a table, if there are any."""
    for pipeline in lines_of(function):
        bs, add = pipeline.bs, pipeline.bs.add
        assert isinstance(add, int)
        stages = Stages(
            BsStage(alu=Source.REGISTER, alu_operand=add, relu=bs.relu, relux_max=bs.relux),
            out_convert=pipeline.out,
        )
        if is_known(chip, TaskKind.ALONE, stages):
            return stages
    return None


def _table_stages(function: bytes) -> Stages:
    use = TableUse((function,), 0)
    return Stages(bn=_index(use), out_convert=_OUT, table=use)


def copy_tasks(
    chip: Chip, source: DeviceTensor, target: DeviceTensor
) -> tuple[ElementwiseTask, ...]:
    """Tasks for every image: ``target`` becomes ``source``, whose shape is the same."""
    return tuple(part.task(source, target) for part in map_parts(chip, target.view))


def _index(use: TableUse) -> BnStage:
    """Return the BN stage that turns an int8 value into the place of its entry."""
    first = use.start - TABLE_STEPS // 2 + FUNCTION_STEPS // 2
    return BnStage(first * INDEX_STEP, Source.REGISTER, INDEX_STEP)


def share_loads(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Tasks that follow one another use the same load, as far as their functions fit into one."""
    loads = _loads([task for layer in layers for task in layer.tasks])
    return tuple(
        replace(layer, tasks=tuple(_within(task, next(loads)) for task in layer.tasks))
        for layer in layers
    )


def _loads(tasks: Sequence[Task]) -> Iterator[tuple[bytes, ...]]:
    """Yield for every task all functions of the load that it may use."""
    functions: list[bytes] = []
    count = 0
    for task in tasks:
        use = task.table if isinstance(task, DpuTask) else None
        function = b"" if use is None else use.functions[use.slot]
        if use is not None and function not in functions:
            is_full = sum(map(len, functions)) + len(function) > TABLE_STEPS
            if functions and (is_full or is_curve(function) or is_curve(functions[0])):
                yield from repeat(tuple(functions), count)
                functions, count = [], 0
            functions.append(function)
        count += 1
    yield from repeat(tuple(functions), count)


def _within(task: Task, functions: tuple[bytes, ...]) -> Task:
    if not isinstance(task, DpuTask) or task.table is None or task.table.is_curve:
        return task
    slot = functions.index(task.table.functions[task.table.slot])
    table = replace(task.table, functions=functions, slot=slot)
    return replace(task, bn=_index(table), table=table)
