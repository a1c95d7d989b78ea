"""Runs proofs on the simulator, also as a worse chip."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate import _native
from delegate.chip.chips import chip_named
from delegate.chip.header import native_chip
from delegate.errors import DeviceError
from delegate.evidence.bench import Proof
from delegate.lower.task import BufferId
from delegate.npu.program_types import WORD_BYTES

_FIRST_ADDRESS = 1 << 20


def outcome(proof: Proof, deviations: str = "", words: npt.NDArray[np.uint64] | None = None) -> str:
    """ "proved", "failed" or the fault. Every task is a kick. ``words``: instead of the program's,
    addresses not yet relocated.
    """
    program = proof.program
    memory = {}
    regions = []
    address = _FIRST_ADDRESS
    addresses = {}
    for buffer, item in zip(BufferId, program.buffers, strict=True):
        if item.size_bytes:
            addresses[buffer] = address
            memory[buffer] = np.zeros(item.size_bytes, np.uint8)
            memory[buffer][: len(item.content)] = np.frombuffer(item.content, np.uint8)
            regions.append((buffer.name.lower(), address, memory[buffer]))
            address += -(-item.size_bytes // 4096 + 1) // 1 * 4096 + (1 << 16)
    relocated = program.relocated(addresses)
    if words is not None:
        pointed = {reloc.word for reloc in program.relocs}
        rest = [i for i in range(len(words)) if i not in pointed]
        relocated[rest] = words[rest]
    memory[BufferId.REGCMD][:] = relocated.view(np.uint8)
    jobs: list[list[tuple[int, int, str]]] = []
    for index, task in enumerate(program.tasks):
        if index == 0 or task.job != program.tasks[index - 1].job:
            jobs.append([])
        place = addresses[BufferId.REGCMD] + task.regcmd_offset
        jobs[-1].append((place, -(-task.regcmd_count // 2) * 2, str(index)))
    chip = native_chip(chip_named(program.chip))
    try:
        _native.simulate(regions, jobs, kernel="rocket", deviations=deviations, chip=chip)
    except DeviceError as error:
        return str(error)
    same = memory[BufferId.OUTPUT].tobytes() == proof.expected
    return "proved" if same else "failed"


def first_word(index: int, proof: Proof) -> int:
    """Of a task, in the program's words."""
    return proof.program.tasks[index].regcmd_offset // WORD_BYTES
