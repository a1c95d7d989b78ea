"""Segments of a chain reduced to what they change.

Blocks have two groups of registers, used in turn by the tasks that start the block; a register that
a task does not write keeps what the task two before it on this block left (observed). So the first
two tasks of a block stay complete and later ones write what differs, and what vendor streams repeat
although it does not: why they do is not known. Addresses are always written, because they only
become numbers when the program is loaded.

Only for devices that run a job in one kick: that registers outlive a kick is not known, and another
program may use the core in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from delegate.npu.program_types import Program
from delegate.npu.regcmd import TAIL_WORDS, VALUE_MASK, AddressSlot, Segment, unpack_word
from delegate.npu.registers import BY_NAME, register

MAX_CHAIN_TASKS = 4095
"""Of one kick: PC.TASK_CON counts them in 12 bits. Longer jobs are cut by the drivers, and the
parts must not need each other's registers.
"""

_REPEATED_BY_VENDOR = (
    "CNA.CBUF_CON0",
    "CNA.DCOMP_REGNUM",
    "CNA.DCOMP_CTRL",
    "CNA.CONV_CON1",
    "CNA.FC_DATA_SIZE0",
    "CNA.FC_DATA_SIZE1",
    "DPU.WDMA_SIZE_0",
    "DPU.WDMA_SIZE_1",
)

_PORTS = (
    "DPU.S_POINTER",
    "DPU.LUT_ACCESS_CFG",
    "DPU.LUT_ACCESS_DATA",
    "DPU_RDMA.RDMA_S_POINTER",
    "PPU.S_POINTER",
    "PPU_RDMA.RDMA_S_POINTER",
)
"""Writing them does more than hold a value."""

_REPEATED = frozenset(
    (item.target, item.offset)
    for name, item in BY_NAME.items()
    if item.is_address or name in _REPEATED_BY_VENDOR or name in _PORTS
)

_PLACE_MASK = ~(VALUE_MASK << 16)
"""Target and offset of a command word."""

_ENABLE_BITS = {
    name: register("ENABLE.OPERATION_ENABLE").field(name).mask
    for name in ("CNA", "CORE", "DPU", "DPU_RDMA", "PPU", "PPU_RDMA")
}


def shorten(segments: Sequence[Segment], jobs: Iterable[int]) -> list[Segment]:
    """The segments without what their register groups hold already. ``jobs``: of each segment, in
    order; every job starts with nothing.

    Jobs of more than MAX_CHAIN_TASKS tasks are left as they are.
    """
    result: list[Segment] = []
    for _, members in groupby(zip(segments, jobs, strict=True), key=lambda item: item[1]):
        chain = [segment for segment, _ in members]
        if len(chain) > MAX_CHAIN_TASKS:
            result += chain
            continue
        groups = _Groups()
        result += [groups.change(segment) for segment in chain]
    return result


def has_deltas(program: Program) -> bool:
    """Whether a task lacks registers that the first one with the same blocks writes."""
    complete: dict[int, frozenset[int]] = {}
    for index, task in enumerate(program.tasks):
        body = program.task_words(index)[:-TAIL_WORDS]
        written = frozenset(word & _PLACE_MASK for word in body)
        if not complete.setdefault(task.enable_mask, written) <= written:
            return True
    return False


class _Groups:
    """What both register groups of every block hold after the tasks so far."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[dict[int, int], dict[int, int]]] = {
            block: ({}, {}) for block in _ENABLE_BITS
        }
        self._next = dict.fromkeys(_ENABLE_BITS, 0)

    def change(self, segment: Segment) -> Segment:
        """Only what changes, in the order of ``segment``; the groups then hold it."""
        slots = {slot.word: slot.target for slot in segment.addresses}
        words: list[int] = []
        addresses: list[AddressSlot] = []
        for index in self._changed(segment):
            if index in slots:
                addresses.append(AddressSlot(len(words), slots[index]))
            words.append(segment.words[index])
        for block, bit in _ENABLE_BITS.items():
            if segment.enable_mask & bit:
                self._next[block] ^= 1
        return Segment(tuple(words), tuple(addresses), segment.enable_mask, segment.int_mask)

    def _changed(self, segment: Segment) -> Iterator[int]:
        for index, word in enumerate(segment.words):
            command = unpack_word(word)
            target = command.register
            if target is None or target.block not in self._values:
                yield index
                continue
            group = self._values[target.block][self._next[target.block]]
            place = (command.target, command.offset)
            if place in _REPEATED or group.get(command.offset) != command.value:
                yield index
            group[command.offset] = command.value
