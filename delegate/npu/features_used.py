"""Which features of the hardware a Program uses, found from the commands of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.chip.chips import registers_of
from delegate.chip.features import Feature
from delegate.npu.program_types import WORD_BYTES, Program
from delegate.npu.regcmd import read_commands

_LOOKS_UP = ("DPU.EW_CFG.EW_BYPASS", "DPU.EW_CFG.EW_LUT_BYPASS")
_LOADS = "DPU.LUT_ACCESS_CFG.LUT_ACCESS_TYPE"


@dataclass(frozen=True, slots=True)
class FeatureUse:
    """A feature, and how many tasks use it (more than none)."""

    feature: Feature
    tasks: int


def features_of(chip: Chip, programs: Iterable[Program]) -> tuple[FeatureUse, ...]:
    """The features of several programs for ``chip`` together, in the order of the chip's table."""
    counts: Counter[str] = Counter()
    for program in programs:
        for values in task_values(program):
            counts.update(item.name for item in chip.features if item.is_used(values))
    return tuple(FeatureUse(f, counts[f.name]) for f in chip.features if counts[f.name])


def task_values(program: Program) -> Iterator[Mapping[str, int]]:
    """Of every task, in order: what its commands leave in the fields of registers, raw; the buffers
    that its addresses point into; and the facts of the task as a whole (``chip.features.FACTS``).
    """
    words, registers = program.words(), registers_of(program.chip)
    buffers = {reloc.word: int(reloc.buffer) for reloc in program.relocs}
    loaded: tuple[int, int] | None = None  # job of the last load, and the task behind it
    for number, task in enumerate(program.tasks):
        first = task.regcmd_offset // WORD_BYTES
        values: dict[str, int] = {"task.core": task.core}
        commands = read_commands(words[first : first + task.regcmd_count], registers)
        for word, command in enumerate(commands, start=first):
            target = command.register
            if target is None:
                continue
            if word in buffers:
                values[target.full_name] = buffers[word]
                continue
            for field in target.fields:
                values[f"{target.full_name}.{field.name}"] = (
                    command.value & field.mask
                ) >> field.lo
        if values.get(_LOADS):
            loaded = (task.job, number + 1)
        looks_up = all(values.get(name) == 0 for name in _LOOKS_UP)
        values["task.keeps_table"] = int(looks_up and loaded != (task.job, number))
        yield values
