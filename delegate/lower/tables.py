"""Functions of one int8 value as tasks of the DPU alone, exact for each of the 256 values.

Two tables of int16 lie side by side in the DPU, an entry every 32 units: 1,024 steps, the place of
four functions of 256 values. BS makes the place in units, ``(x + 128 + 256 slot - 512) * 32``, so
that a lookup hits an entry, never what lies between two. An entry is ``256 f(x) - 64`` and OUT_CVT
divides by 256: boards were seen to read entries that are off by up to 128, and any error from -63
to +128 gives the same result. All settings but the numbers are those of the vendor's programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.task import (
    BsStage,
    ElementwiseTask,
    Layer,
    OutConvert,
    Source,
    TableUse,
    Task,
)
from delegate.lower.tiling.element_wise import map_parts

INDEX_STEP = 32
"""Units between entries."""
TABLE_STEPS = 1024
FUNCTION_STEPS = 256
FUNCTIONS_PER_LOAD = TABLE_STEPS // FUNCTION_STEPS
ENTRY_SCALE = 256
ENTRY_OFFSET = -64
"""An entry is ``f * scale + offset``, or the least int16."""

_OUT = OutConvert(scale=1, shift=ENTRY_SCALE.bit_length() - 1, offset=0)


def table_tasks(
    chip: Chip, source: DeviceTensor, target: DeviceTensor, function: bytes
) -> tuple[ElementwiseTask, ...]:
    """Tasks for every image: ``target`` becomes ``function`` (its results for -128 to 127, as
    int8) of ``source``, whose shape is the same. They may lie in one place.
    """
    return tuple(
        ElementwiseTask(
            tile=part.name(target.view),
            source=part.place(source),
            source_surface_stride_bytes=source.surface_stride_bytes,
            output=part.cube(target),
            bs=_index(0),
            out_convert=_OUT,
            table=TableUse((function,), 0),
        )
        for part in map_parts(chip, target.view)
    )


def _index(slot: int) -> BsStage:
    """From an int8 value to the place of its entry."""
    first = FUNCTION_STEPS * slot - TABLE_STEPS // 2
    return BsStage(
        alu=Source.REGISTER,
        alu_operand=first + FUNCTION_STEPS // 2,
        mul=Source.REGISTER,
        mul_operand=INDEX_STEP,
    )


def share_loads(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Layers that follow one another use the same load, as far as their functions fit into one."""
    shared: list[Layer] = []
    for functions, group in _groups(layers):
        for layer in group:
            tasks = tuple(_within(task, functions) for task in layer.tasks)
            shared.append(replace(layer, tasks=tasks))
    return tuple(shared)


def uses_tables(layers: Sequence[Layer]) -> bool:
    """Whether any task needs a load before it."""
    return any(_functions(layer) for layer in layers)


def _groups(layers: Sequence[Layer]) -> Iterator[tuple[tuple[bytes, ...], list[Layer]]]:
    """Runs of layers with all functions of each."""
    functions: list[bytes] = []
    group: list[Layer] = []
    for layer in layers:
        new = [f for f in _functions(layer) if f not in functions]
        if len(functions) + len(new) > FUNCTIONS_PER_LOAD:
            yield tuple(functions), group
            functions, group = [], []
            new = _functions(layer)
        functions += new
        group.append(layer)
    yield tuple(functions), group


def _functions(layer: Layer) -> list[bytes]:
    found: dict[bytes, None] = {}
    for task in layer.tasks:
        if isinstance(task, ElementwiseTask) and task.table is not None:
            found[task.table.functions[task.table.slot]] = None
    return list(found)


def _within(task: Task, functions: tuple[bytes, ...]) -> Task:
    if not isinstance(task, ElementwiseTask) or task.table is None:
        return task
    slot = functions.index(task.table.functions[task.table.slot])
    return replace(task, bs=_index(slot), table=TableUse(functions, slot))
