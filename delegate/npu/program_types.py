"""The types of a Program: buffers with content, relocations, layers, tasks and the tensors at its
edges.

A Program has everything a device needs and nothing of graphs or of what registers mean. It is
immutable and, once serialised, the same bytes for the same tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.errors import ProgramError
from delegate.lower.lowered import TensorBinding
from delegate.lower.task import BufferId
from delegate.npu.perf import Estimate, total

WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class ProgramBuffer:
    """``content`` may be shorter than ``size_bytes``: the rest is zero. Size 0: absent."""

    size_bytes: int
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Reloc:
    """The value of command word ``word`` becomes (address of ``buffer`` + ``addend``) mod 2^32."""

    word: int
    buffer: BufferId
    addend: int


@dataclass(frozen=True, slots=True)
class ProgramLayer:
    """One NPU operation: ``nodes`` are the TFLite nodes it computes."""

    name: str
    op: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProgramTask:
    """One launch. ``regcmd_offset`` in bytes; ``regcmd_count`` in words, tail of four included.

    Tasks of a job run in order; so do the jobs. ``form``: the names of its form and of what it
    relies on (``delegate.npu.task_form``), separated by spaces.
    """

    regcmd_offset: int
    regcmd_count: int
    enable_mask: int
    int_mask: int
    layer: int
    job: int
    tile: str
    npu_cycles: int
    ddr_cycles: int
    bytes: int
    form: str = ""

    @property
    def estimate(self) -> Estimate:
        cycles = max(self.npu_cycles, self.ddr_cycles)
        return Estimate(self.npu_cycles, self.ddr_cycles, cycles, self.bytes)


@dataclass(frozen=True, slots=True)
class Program:
    """``chip`` names what it is for; ``buffers`` has one entry per BufferId; ``tasks`` in execution
    order, ``relocs`` by word.
    """

    chip: str
    compiler: str
    name: str
    buffers: tuple[ProgramBuffer, ...]
    relocs: tuple[Reloc, ...]
    layers: tuple[ProgramLayer, ...]
    tasks: tuple[ProgramTask, ...]
    inputs: tuple[TensorBinding, ...]
    outputs: tuple[TensorBinding, ...]

    @property
    def estimate(self) -> Estimate:
        """The sum over all tasks; an estimate, not a measurement."""
        return total(task.estimate for task in self.tasks)

    @property
    def buffers_bytes(self) -> int:
        """Device memory that the program needs."""
        return sum(item.size_bytes for item in self.buffers)

    def words(self) -> npt.NDArray[np.uint64]:
        """The REGCMD buffer as command words, addresses not yet relocated (read-only)."""
        content = self.buffers[BufferId.REGCMD].content
        return np.frombuffer(content, dtype="<u8")

    def relocated(self, addresses: Mapping[BufferId, int]) -> npt.NDArray[np.uint64]:
        """The command words with every address filled in, a copy.

        ``addresses``: the device address of every buffer that exists. Raises ProgramError when an
        address does not fit the 32 bits of a register.
        """
        words = self.words().copy()
        for reloc in self.relocs:
            address = addresses[reloc.buffer] + reloc.addend
            if address >> 32:
                place = f"{reloc.buffer.name} + {reloc.addend} at {address:#x}"
                raise ProgramError(f"program {self.name}: {place} is beyond the NPU's 4 GiB")
            kept = int(words[reloc.word]) & ~(0xFFFF_FFFF << 16)
            words[reloc.word] = kept | address << 16
        return words
