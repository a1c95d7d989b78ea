"""The load of the DPU's tables: entries of functions of an int8 value, or of a curve."""

from __future__ import annotations

import numpy as np

from delegate.lower.numerics.pipeline import table_entries
from delegate.lower.tables import TABLE_STEPS
from delegate.lower.task import (
    ElementwiseTask,
    OutputCube,
    TableLoad,
    is_curve,
)
from delegate.npu.encode_elementwise import ENABLE_MASK, INT_MASK, write_elementwise
from delegate.npu.regcmd import TAIL_WORDS, RegCmdWriter, Segment

TABLES = 2
ENTRIES = 513
"""LE and LO, of int16 each. LE ends where LO begins."""
_MASK16 = 0xFFFF
_MASK32 = 0xFFFF_FFFF
_ELEMENTWISE_WORDS = 69
LOAD_WORDS = _ELEMENTWISE_WORDS + TABLES * (1 + ENTRIES) + TAIL_WORDS
"""Commands of a load, tail included."""


def encode_load(layer: str, task: TableLoad) -> Segment:
    """The segment of 1,097 registers that fills both tables. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile)
    tables = entries_of_tables(writer, task.functions)
    write_elementwise(writer, copy_of(task))
    for table, entries in enumerate(tables):
        writer.rewrite("DPU.LUT_ACCESS_CFG", LUT_ACCESS_TYPE=1, LUT_TABLE_ID=table)
        for entry in entries:
            number = entry & _MASK32  # extended by its sign, as in the vendor's programs
            writer.rewrite(
                "DPU.LUT_ACCESS_DATA",
                LUT_ACCESS_SIGN=number >> 16,
                LUT_ACCESS_DATA=number & _MASK16,
            )
    return writer.finish(ENABLE_MASK, INT_MASK)


def copy_of(task: TableLoad) -> ElementwiseTask:
    """An atom, all stages off, as in the vendor's loads."""
    atom = OutputCube(task.target, 1, 1, 16, 16, 16, 1)
    return ElementwiseTask(task.tile, task.source, 16, atom)


def entries_of_tables(writer: RegCmdWriter, functions: tuple[bytes, ...]) -> list[list[int]]:
    """The content of LE, then of LO; steps that no function needs repeat the last entry. Raises
    EncodingError.
    """
    is_one = is_curve(functions[0])
    count = 0 if is_one else sum(map(len, functions))
    if count > TABLE_STEPS:
        problem = f"for {count} results; there is room for {TABLE_STEPS}"
        raise writer.fail("DPU.LUT_ACCESS_CFG.LUT_ADDR", problem)
    if is_one:
        steps = np.frombuffer(functions[0], "<i2").astype(np.int64)
    else:
        results = np.frombuffer(b"".join(functions), np.int8).astype(np.int64)
        steps = table_entries(results)
    steps = np.pad(steps, (0, TABLES * (ENTRIES - 1) + 1 - steps.size), mode="edge")
    firsts = (table * (ENTRIES - 1) for table in range(TABLES))
    return [[int(entry) for entry in steps[first : first + ENTRIES]] for first in firsts]
