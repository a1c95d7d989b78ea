"""The types of the register table: fields, registers, blocks and the enumerations of their values.

The table itself is data in ``register_tables`` (one file per hardware block); ``registers`` looks
things up. Facts only: widths, encodings, units, meaning and how certain they are; nothing here
chooses a value.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


class Certainty(enum.Enum):
    """The origin of a fact."""

    DOCUMENTED = "documented"  # the chip's reference manual describes it
    OBSERVED = "observed"  # programs that run on silicon contain it, or silicon was measured
    ASSUMED = "assumed"  # follows from the names or from related hardware only


class Access(enum.Enum):
    """The parties that may write a register."""

    STREAM = "stream"  # command streams
    HOST = "host"  # the kernel driver only; in a stream it hangs the core or does nothing
    STATUS = "status"  # read only


class ConvMode(enum.IntEnum):
    DENSE = 0
    DEPTHWISE = 3


class Precision(enum.IntEnum):
    """Element types of CNA and CORE."""

    INT8 = 0
    INT16 = 1
    FP16 = 2
    BF16 = 3
    INT4 = 6
    TF32 = 7


class DpuPrecision(enum.IntEnum):
    """Element types of DPU and DPU_RDMA."""

    INT8 = 0
    INT16 = 1
    FP16 = 2
    BF16 = 3
    INT32 = 4
    FP32 = 5
    INT4 = 6


class ElementSize(enum.IntEnum):
    BITS_4 = 0
    BITS_8 = 1
    BITS_16 = 2
    BITS_32 = 3


class PixelInput(enum.IntEnum):
    """Packed NHWC pixels of 1..4 channels (CNA.CONV_CON1.ARGB_IN); OFF reads NC1HWC2."""

    OFF = 0
    CHANNELS_1 = 8
    CHANNELS_2 = 9
    CHANNELS_3 = 10
    CHANNELS_4 = 11


class CoreSplit(enum.IntEnum):
    """The ways in which several cores share one layer (CNA.CONV_CON2.CORE_SPLIT)."""

    ONE_CORE = 0
    ROWS_2 = 1
    ROWS_3 = 2
    KERNELS_2 = 4
    KERNELS_3 = 5


class BurstLength(enum.IntEnum):
    BURST_4 = 3
    BURST_8 = 7
    BURST_16 = 15


class AluAlgorithm(enum.IntEnum):
    """Operations of the BS, BN and EW ALUs (BS and BN: ADD and MINUS only)."""

    MAX = 0
    MIN = 1
    ADD = 2
    DIV = 3
    MINUS = 4
    ABS = 5
    NEG = 6
    FLOOR = 7
    CEIL = 8


class OperandSource(enum.IntEnum):
    REGISTER = 0
    MEMORY = 1


class OperandType(enum.IntEnum):
    ALU = 0
    MUL = 1


class OutputMode(enum.IntFlag):
    """The unit or memory that takes the DPU's result."""

    PPU = 1
    MEMORY = 2


class OperandData(enum.IntFlag):
    """The data that BRDMA reads for BS. 1 = dense int32; 7 = 64-byte blocks of 8 channels."""

    ALU = 1
    OW = 2
    MUL = 4


class CombinedRead(enum.IntFlag):
    """DPU_RDMA COMB_USE: MRDMA and ERDMA share the reading of one cube."""

    ENABLE = 1
    TO_MRDMA = 2
    TO_ERDMA = 4


class EwDataMode(enum.IntEnum):
    PER_CHANNEL = 0
    PER_PIXEL = 1
    PER_CHANNEL_BY_PIXEL = 2


class CvtOrder(enum.IntEnum):
    MULTIPLY_FIRST = 0
    ADD_FIRST = 1


class CvtRounding(enum.IntEnum):
    HALF_EVEN = 0
    HALF_AWAY = 1


class PoolMethod(enum.IntEnum):
    AVERAGE = 0
    MAX = 1
    MIN = 2


@dataclass(frozen=True, slots=True)
class Field:
    """Bits ``hi..lo`` of a register.

    ``signed``: two's complement. ``minus_one``: the register holds the true value minus one.
    ``unit``: the true value is the register's number times ``unit`` (bytes per step for strides).
    """

    name: str
    hi: int
    lo: int
    meaning: str = ""
    enum: type[enum.IntEnum] | type[enum.IntFlag] | None = None
    signed: bool = False
    minus_one: bool = False
    unit: int = 1
    certainty: Certainty = Certainty.DOCUMENTED

    @property
    def mask(self) -> int:
        """Return the field's bits within the register."""
        return (2 << self.hi) - (1 << self.lo)

    @property
    def limits(self) -> tuple[int, int]:
        """Return the smallest and the largest true value that the field holds."""
        count = 2 << (self.hi - self.lo)
        low = int(self.minus_one) - (count // 2 if self.signed else 0)
        return low * self.unit, (low + count - 1) * self.unit

    def decode(self, word: int) -> int:
        """Return the true value of this field in the register value ``word``."""
        raw = (word & self.mask) >> self.lo
        if self.signed and raw >> (self.hi - self.lo):
            raw -= 2 << (self.hi - self.lo)
        return (raw + (1 if self.minus_one else 0)) * self.unit


@dataclass(frozen=True, slots=True)
class Register:
    """One 32-bit register at byte ``offset`` of a core's window; bits of no field are reserved."""

    block: str
    target: int
    offset: int
    name: str
    meaning: str
    fields: tuple[Field, ...]
    access: Access = Access.STREAM
    is_address: bool = False
    certainty: Certainty = Certainty.DOCUMENTED

    @property
    def full_name(self) -> str:
        return f"{self.block}.{self.name}"

    @property
    def valid_mask(self) -> int:
        """Bits that belong to a field; the others must stay zero."""
        mask = 0
        for item in self.fields:
            mask |= item.mask
        return mask

    def field(self, name: str) -> Field:
        """Return the field called ``name``. Raises KeyError naming register and field."""
        for item in self.fields:
            if item.name == name:
                return item
        raise KeyError(f"{self.full_name} has no field {name}")


@dataclass(frozen=True, slots=True)
class Block:
    """A hardware block: ``target`` is bits 63:48 of a command word that writes to it."""

    name: str
    target: int
    meaning: str
    registers: tuple[Register, ...]


class RegisterMap:
    """All registers of a chip that command words can address: ``blocks``; ``by_name``, as
    ``"CNA.CONV_CON1"``; ``by_address``, the target and offset of a command word; ``streamed``, by
    block those that streams write, but for the pointers to register groups, in the order of their
    offsets. ``number``: by which the simulator knows the map. ``facts``: a sentence on where the
    table is from.
    """

    def __init__(self, *blocks: Block, number: int, facts: str) -> None:
        self.blocks = blocks
        self.number = number
        self.facts = facts
        every = [register for item in blocks for register in item.registers]
        self.by_name: Mapping[str, Register] = MappingProxyType({r.full_name: r for r in every})
        self.by_address: Mapping[tuple[int, int], Register] = MappingProxyType(
            {(r.target, r.offset): r for r in every}
        )
        ordered = sorted(every, key=lambda register: register.offset)
        written = [r for r in ordered if not r.name.endswith("S_POINTER")]
        self.streamed: Mapping[str, Sequence[str]] = {
            item.name: [
                r.full_name for r in written if r.block == item.name and r.access is Access.STREAM
            ]
            for item in blocks
        }


_ROW = re.compile(
    r"(0x[0-9a-f]{4}|\d+(?::\d+)?) (\w+)(?: \(([^)]*)\))?: (.*)"  # place, name, marks, meaning
)

_VALUES: Final = (
    ConvMode, Precision, DpuPrecision, ElementSize, PixelInput, CoreSplit, BurstLength,
    AluAlgorithm, OperandSource, OperandType, OutputMode, OperandData, CombinedRead, EwDataMode,
    CvtOrder, CvtRounding, PoolMethod,
)  # fmt: skip

_MARKS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{item.value: {"access": item} for item in Access},
    **{item.value: {"certainty": item} for item in Certainty},
    **{kind.__name__: {"enum": kind} for kind in _VALUES},
    "address": {"is_address": True},
    "switches": {"fields": (Field("MODE", 31, 0, "switches"),)},
    "signed": {"signed": True},
    "m1": {"minus_one": True},
    "x16": {"unit": 16},
}
"""The meaning of marks of a register or a field in a table."""


def block(
    name: str,
    target: int,
    meaning: str,
    table: str,
    certainty: Certainty = Certainty.DOCUMENTED,
) -> Block:
    """Return a block from its table: a line "offset NAME (marks): meaning" per register, and below
    it one "hi:lo NAME (marks): meaning" per field, in the manual's order.

    Marks of a register: its access, if that is not ``stream``; ``address``, if it holds one; its
    certainty, if that is not the block's; ``switches``, if it is known as a whole only. Marks of a
    field: the enumeration of its values; ``signed``, ``m1`` and ``x16`` (``minus_one`` and ``unit``
    of ``Field``); its certainty. Raises IndexError, KeyError,
    TypeError or ValueError for anything else.
    """
    rows: list[dict[str, Any]] = []
    for line in filter(None, map(str.strip, table.splitlines())):
        found = _ROW.fullmatch(" ".join(line.split()))
        if found is None:
            raise ValueError(f"no register and no field: {line!r}")
        place, item, marks, text = found.groups()
        said = {k: v for mark in (marks or "").split(", ") if mark for k, v in _MARKS[mark].items()}
        if place.startswith("0x"):
            own = {"offset": int(place, 16), "name": item, "meaning": text}
            rows.append({**own, "fields": (), "certainty": certainty, **said})
        else:
            hi, _, lo = place.partition(":")
            rows[-1]["fields"] += (Field(item, int(hi), int(lo or hi), text, **said),)
    return Block(name, target, meaning, tuple(Register(name, target, **row) for row in rows))


def repeated(count: int, base: int, rows: str) -> str:
    """``rows`` of a table for ``count`` registers from ``base`` on: ``{n}`` counts them from 0,
    ``{next}`` from 1, ``{offset}`` and ``{hex}`` are where each lies.
    """
    places = range(base, base + 4 * count, 4)
    return "".join(
        rows.format(n=n, next=n + 1, offset=f"{place:#06x}", hex=f"{place:04X}")
        for n, place in enumerate(places)
    )


def control_registers(base: int, prefix: str = "", pointer: str = "stream") -> str:
    """S_STATUS, S_POINTER, whose access is ``pointer``, and OPERATION_ENABLE, which open the table
    of every block with two register groups.
    """
    return f"""
{base:#06x} {prefix}S_STATUS (status, documented): State of the two executers.
  17:16 STATUS_1: executer 1: 0 idle, 1 running, 2 running and the other waits
  1:0 STATUS_0: executer 0: 0 idle, 1 running, 2 running and the other waits
{base + 4:#06x} {prefix}S_POINTER ({pointer}, documented): \
Which of the two register groups is written and which one executes.
  16 EXECUTER: group that executes (read only)
  5 EXECUTER_PP_CLEAR: reset the executing group to 0
  4 POINTER_PP_CLEAR: reset the written group to 0
  3 POINTER_PP_MODE: 0: alternate after execution; 1: alternate after writing
  2 EXECUTER_PP_EN: executing group alternates
  1 POINTER_PP_EN: written group alternates
  0 POINTER: group to write
{base + 8:#06x} {prefix}OPERATION_ENABLE (host, documented): \
Starts this block alone; streams start blocks with the word for target 0x0081.
  0 OP_EN: start
"""
