"""The types of a Program: buffers with content, relocations, layers, tasks and the tensors at its
edges.

A Program has everything a device needs and nothing of graphs or of what registers mean. It is
immutable and, once serialised, the same bytes for the same tasks.

The tables of a serialised Program, by which it is both written and read: those of program.fbs.

Fields have the names that they have in Python, and lie in the order of their ids; behind a dot
those of a part of a binding, which are 0 where it has no such part.

The version of the serialised form of programs, apart from what writes and reads them.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from delegate.errors import ProgramError
from delegate.lower.lowered import Fold, Spread, TensorBinding
from delegate.lower.task import BufferId

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
    relies on (``delegate.npu.evidence``), separated by spaces.
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
        """Return the sum over all tasks; an estimate, not a measurement."""
        return total(task.estimate for task in self.tasks)

    @property
    def buffers_bytes(self) -> int:
        """Device memory that the program needs."""
        return sum(item.size_bytes for item in self.buffers)

    def words(self) -> npt.NDArray[np.uint64]:
        """Return the REGCMD buffer as command words, addresses not yet relocated (read-only)."""
        content = self.buffers[BufferId.REGCMD].content
        return np.frombuffer(content, dtype="<u8")

    def relocated(self, addresses: Mapping[BufferId, int]) -> npt.NDArray[np.uint64]:
        """Return the command words with every address filled in, a copy.

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


class Kind(enum.Enum):
    """Types of fields: numbers as ``struct`` names them, and what a field refers to."""

    UINT8 = "<B"
    INT8 = "<b"
    UINT32 = "<I"
    INT32 = "<i"
    UINT64 = "<Q"
    FLOAT32 = "<f"
    TEXT = "string"
    BYTES = "[ubyte]"
    BYTES_IF_ANY = "[ubyte], left out if empty"
    INT32S = "[int32]"


Fields = Mapping[str, Kind]

FILE_IDENTIFIER = b"RKNP"

CHECKSUM_BYTES = 8


class Slot(enum.IntEnum):
    """Ids of the fields of Program."""

    VERSION = 0
    COMPILER = 1
    NAME = 2
    BUFFERS = 3
    RELOCS = 4
    LAYERS = 5
    TASKS = 6
    INPUTS = 7
    OUTPUTS = 8
    CHECKSUM = 9
    CHIP = 10


def _all(kind: Kind, *names: str) -> Fields:
    return dict.fromkeys(names, kind)


def _part(kind: Kind, name: str, of: type[Fold] | type[Spread]) -> Fields:
    return _all(kind, *(f"{name}.{field.name}" for field in fields(of)))


RELOC = struct.Struct("<IIQ")
"""Word, buffer and addend: a structure, which has no ids."""

BUFFER: Fields = {"size_bytes": Kind.UINT64, "content": Kind.BYTES}
LAYER: Fields = {"name": Kind.TEXT, "op": Kind.TEXT, "nodes": Kind.INT32S}
TASK: Fields = {
    **_all(Kind.UINT32, "regcmd_offset", "regcmd_count", "enable_mask", "int_mask", "layer", "job"),
    "tile": Kind.TEXT,
    **_all(Kind.UINT64, "npu_cycles", "ddr_cycles", "bytes"),
    "form": Kind.TEXT,
}
BINDING: Fields = {
    "tensor": Kind.INT32,
    "name": Kind.TEXT,
    "shape": Kind.INT32S,
    "element": Kind.UINT8,
    **_all(Kind.UINT32, "images", "height", "width", "channels", "surfaces"),
    **_all(Kind.UINT64, "surface_stride_bytes", "image_stride_bytes"),
    "location.buffer": Kind.UINT32,
    "location.offset": Kind.UINT64,
    "fill": Kind.INT8,
    **_part(Kind.UINT32, "fold", Fold),
    "affine.scale": Kind.FLOAT32,
    "affine.zero_point": Kind.INT32,
    "affine.element": Kind.UINT8,
    "table": Kind.BYTES_IF_ANY,
    "is_spread": Kind.UINT8,
    **_part(Kind.UINT64, "spread", Spread),
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """``cycles`` counts max(npu, ddr) per task: both overlap within a task, tasks do not."""

    npu_cycles: int
    ddr_cycles: int
    cycles: int
    bytes: int

    @property
    def limit(self) -> str:
        """Return what the work waits for: "npu" or "ddr"."""
        return "npu" if self.npu_cycles >= self.ddr_cycles else "ddr"


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Return the sum over tasks that run one after the other."""
    items = list(estimates)
    return Estimate(
        sum(item.npu_cycles for item in items),
        sum(item.ddr_cycles for item in items),
        sum(item.cycles for item in items),
        sum(item.bytes for item in items),
    )
