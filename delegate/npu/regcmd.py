"""Register commands: 64-bit words of target (63:48), value (47:16) and register offset (15:0).

In: field values by name. Out: the words of one segment and the places where addresses belong.
Refuses, with an EncodingError naming layer, tile, BLOCK.REGISTER.FIELD, value and limit, whatever
does not fit.

Values of registers as tables: what both chips' encoders give registers of the same name.

A table maps registers (``"CNA.CONV_CON3"``) to the true values of their fields, or to the place
whose address they hold. Registers and fields that no table names are 0.

Tasks of integers in, segments out, by the encoder of a chip (``encode_task``); and the tasks of a
program in their order, all of one job, with the loads of tables that they need. Every segment
carries the full register set: nothing is inherited from earlier tasks, so that the same bytes serve
a device that starts each task on its own and one that runs the whole chain. What the chip lacks or
no known program does is refused; no register value is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.chips import part_of
from delegate.chip.register_model import Access, BurstLength, CvtOrder, Register, RegisterMap
from delegate.chip.rk3588.registers import REGISTERS
from delegate.errors import EncodingError, UnknownFormError
from delegate.lower.legalize import used_by
from delegate.lower.numerics.pipeline import Int64Array
from delegate.lower.task import ConvTask, DpuTask, Ref, TableLoad, Task

TAIL_WORDS = 4
"""Link, length of the next segment, barrier, start word: the end of every segment (observed)."""

SEGMENT_ALIGN_WORDS = 8
"""Segments start at multiples of 64 bytes and take whole multiples of 8 words (observed)."""

ADDRESS_ALIGN_BYTES = 16
"""Feature maps, weights and operands are addressed in whole 16-byte atoms."""

VALUE_MASK = 0xFFFF_FFFF


def pack_word(target: int, offset: int, value: int) -> int:
    """Return the command word; ``value`` is the whole 32-bit register."""
    return target << 48 | (value & VALUE_MASK) << 16 | offset


@dataclass(frozen=True, slots=True)
class Command:
    """A decoded command word. ``register`` is None for words that address nothing in the table."""

    target: int
    offset: int
    value: int
    register: Register | None


def unpack_word(word: int, registers: RegisterMap = REGISTERS) -> Command:
    """Return the parts of a command word and the register that it addresses on a chip."""
    target, value, offset = word >> 48, word >> 16 & VALUE_MASK, word & 0xFFFF
    return Command(target, offset, value, registers.by_address.get((target, offset)))


@dataclass(frozen=True, slots=True)
class AddressSlot:
    """The value of body word ``word`` becomes the address of ``target``."""

    word: int
    target: Ref


@dataclass(frozen=True, slots=True)
class Segment:
    """The body of one task, without its tail, and what the tail needs to know."""

    words: tuple[int, ...]
    addresses: tuple[AddressSlot, ...]
    enable_mask: int
    int_mask: int


def segment_stride_words(body_words: int) -> int:
    """Words from one segment's start to the next: body and tail, rounded up to 64 bytes."""
    return -(-(body_words + TAIL_WORDS) // SEGMENT_ALIGN_WORDS) * SEGMENT_ALIGN_WORDS


def fetch_amount(body_words: int) -> int:
    """PC.REGISTER_AMOUNTS for a following segment of ``body_words``.

    The PC fetches pairs of words and counts from zero: ceil((body + tail) / 2) - 1 (observed on
    every program; 126 words give 0x40, 69 give 0x24).
    """
    return (body_words + TAIL_WORDS + 1) // 2 - 1


def tail_words(next_body_words: int | None, enable_mask: int) -> tuple[int, int, int, int]:
    """Return the tail of a segment; the link's address is patched later.

    ``next_body_words`` None: the chain ends here, the link is an empty word and the amount is 0.
    """
    tail = "PC.BASE_ADDRESS", "PC.REGISTER_AMOUNTS", "SYNC.BARRIER", "ENABLE.OPERATION_ENABLE"
    base, amounts, barrier, enable = (REGISTERS.by_name[name] for name in tail)
    amount = 0 if next_body_words is None else fetch_amount(next_body_words)
    return (
        0 if next_body_words is None else pack_word(base.target, base.offset, 0),
        pack_word(amounts.target, amounts.offset, amount),
        pack_word(barrier.target, barrier.offset, 0),
        pack_word(enable.target, enable.offset, enable_mask),
    )


@dataclass(slots=True, eq=False)
class RegCmdWriter:
    """Collects the body of one segment.

    ``layer`` and ``tile`` only appear in messages. ``write`` refuses a register that was written
    before; ``rewrite`` says that the repetition is meant.
    """

    _layer: str
    _tile: str
    _registers: RegisterMap = REGISTERS
    _words: list[int] = field(default_factory=list, init=False)
    _addresses: list[AddressSlot] = field(default_factory=list, init=False)
    _written: set[str] = field(default_factory=set, init=False)

    def fail(self, place: str, problem: str) -> EncodingError:
        """Return the error to raise about ``place`` (BLOCK.REGISTER.FIELD)."""
        tile = f", tile {self._tile}" if self._tile else ""
        return EncodingError(f"layer {self._layer}{tile}: {place} {problem}")

    def refuse(self, problems: Iterable[tuple[str, str]]) -> None:
        """Raise UnknownFormError about the first of them, if there is any: place and problem."""
        for place, problem in problems:
            raise UnknownFormError(str(self.fail(place, problem)))

    def write(self, name: str, /, **fields: int) -> None:
        """One register from its fields' true values; fields not given are 0 in the register.

        Raises EncodingError on a value outside its field, and KeyError on a name outside the table.
        """
        self._write(name, fields, again=False)

    def rewrite(self, name: str, /, **fields: int) -> None:
        """Write as ``write`` does, for a register that correct programs write more than once."""
        self._write(name, fields, again=True)

    def write_table(
        self, first: Iterable[str], blocks: Iterable[str], table: Mapping[str, Value]
    ) -> None:
        """Write the registers ``first``, then every one of ``blocks`` that streams write, but for
        the pointers to register groups, in the order of their offsets, with what ``table`` gives
        them. Raises KeyError for a name that is none of theirs.
        """
        streamed = [name for block in blocks for name in self._registers.streamed[block]]
        names = [*first, *streamed]
        unknown = table.keys() - names
        if unknown:
            raise KeyError(f"no registers {sorted(unknown)} in {blocks}")
        for name in names:
            value = table.get(name)
            if isinstance(value, Ref):
                self.write_address(name, value)
            else:
                self._write(name, value or {}, again=True)

    def rewrite_values(self, name: str, values: Int64Array) -> None:
        """Write a register once for each of ``values``, whole values of 32 bits without a sign."""
        target = self._claim(name, again=True)
        if not 0 <= values.min() <= values.max() <= VALUE_MASK:
            raise self.fail(name, f"takes values of 0..{VALUE_MASK}")
        empty = pack_word(target.target, target.offset, 0)
        one = pack_word(target.target, target.offset, 1) - empty
        words = values.astype(np.uint64) * np.uint64(one) + np.uint64(empty)
        self._words += words.tolist()

    def _write(self, name: str, fields: Mapping[str, int], *, again: bool) -> None:
        self._claim(name, again)
        try:
            word = _word(self._registers, name, tuple(fields.items()))
        except _FieldError as error:
            raise self.fail(error.place, error.problem) from None
        self._words.append(word)

    def write_address(self, name: str, place: Ref) -> None:
        """Write an address register: a relocation to ``place``, whose offset is the value until
        then.
        """
        target = self._claim(name, again=False)
        if not target.is_address:
            raise self.fail(name, "does not hold an address")
        if place.offset % ADDRESS_ALIGN_BYTES:
            problem = f"= {place.buffer.name} + {place.offset} is not a multiple of 16 bytes"
            raise self.fail(name, problem)
        if not 0 <= place.offset <= VALUE_MASK:
            problem = f"= {place.buffer.name} + {place.offset} exceeds the limit 0..{VALUE_MASK}"
            raise self.fail(name, problem)
        self._addresses.append(AddressSlot(len(self._words), place))
        self._words.append(pack_word(target.target, target.offset, place.offset))

    def finish(self, enable_mask: int, int_mask: int) -> Segment:
        """Return the segment. The writer is not used afterwards."""
        return Segment(tuple(self._words), tuple(self._addresses), enable_mask, int_mask)

    def _claim(self, name: str, again: bool) -> Register:
        target = self._registers.by_name[name]
        if target.access is not Access.STREAM:
            raise self.fail(name, "must not be written by a command stream")
        if name in self._written and not again:
            raise self.fail(name, "is written twice")
        self._written.add(name)
        return target


class _FieldError(ValueError):
    """A field, BLOCK.REGISTER.FIELD, does not hold a value."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place} {problem}")
        self.place, self.problem = place, problem


@lru_cache(maxsize=1 << 14)  # most registers are alike in most tasks
def _word(registers: RegisterMap, name: str, fields: tuple[tuple[str, int], ...]) -> int:
    """Return the command word that gives ``fields`` their values. Raises _FieldError."""
    target = registers.by_name[name]
    value = 0
    for field_name, true_value in fields:
        place = target.field(field_name)
        low, high = place.limits
        number, rest = divmod(int(true_value), place.unit)
        problem = f"= {int(true_value)} is not a multiple of {place.unit}" if rest else ""
        if not low <= true_value <= high:
            problem = f"= {int(true_value)} exceeds the limit {low}..{high}"
        if problem:
            raise _FieldError(f"{name}.{field_name}", problem)
        value |= ((number - place.minus_one) << place.lo) & place.mask
    return pack_word(target.target, target.offset, value)


Value = Mapping[str, int] | Ref | None
Table = dict[str, Value]

REARMED: Final = {"POINTER_PP_MODE": 1, "EXECUTER_PP_EN": 1, "POINTER_PP_EN": 1}
"""A block's S_POINTER so that its two register groups alternate."""


def joined(*tables: Mapping[str, Value]) -> Table:
    """Return one table of all; fields of a register may come from several."""
    found: Table = {}
    for table in tables:
        for name, value in table.items():
            there = found.get(name)
            if isinstance(there, Mapping) and isinstance(value, Mapping):
                found[name] = {**there, **value}
            else:
                found[name] = value
    return found


def pointers(*, is_cleared: bool = False) -> Table:
    """Return what re-arms both register groups to alternate; without it a chain repeats the first
    task. ``is_cleared``: of a task that uses tables; both pointers go back instead (observed).
    """
    cleared = {"EXECUTER_PP_CLEAR": 1, "POINTER_PP_CLEAR": 1}
    fields = cleared if is_cleared else REARMED
    return {"DPU.S_POINTER": fields, "DPU_RDMA.RDMA_S_POINTER": fields}


def convolution(task: ConvTask) -> Table:
    """Return the shapes and places that CNA and CORE need. Features are not converted, weights not
    compressed: of the decompressor only the address is used.
    """
    feature, output, weights = task.feature, task.output, task.weights
    return {
        "CNA.CONV_CON3": {
            "ATROUS_Y_DILATION": task.dilations[0],
            "ATROUS_X_DILATION": task.dilations[1],
            "CONV_Y_STRIDE": task.strides[0],
            "CONV_X_STRIDE": task.strides[1],
        },
        "CNA.DATA_SIZE0": {"DATAIN_WIDTH": feature.width, "DATAIN_HEIGHT": feature.height},
        "CNA.DATA_SIZE1": {"DATAIN_CHANNEL": feature.channels},
        "CNA.DATA_SIZE2": {"DATAOUT_WIDTH": output.width},
        "CNA.DATA_SIZE3": {"DATAOUT_ATOMICS": output.height * output.width},
        "CNA.WEIGHT_SIZE0": {"WEIGHT_BYTES": weights.total_bytes},
        "CNA.CVT_CON0": {"DATA_SIGN": 1, "CVT_TYPE": CvtOrder.ADD_FIRST, "CVT_BYPASS": 1},
        "CNA.FC_DATA_SIZE0": {"DMA_WIDTH": feature.width, "DMA_HEIGHT": feature.height},
        "CNA.FC_DATA_SIZE1": {"DMA_CHANNEL": feature.channels},
        "CNA.PAD_CON0": {"PAD_LEFT": feature.pad_left, "PAD_TOP": feature.pad_top},
        "CNA.PAD_CON1": {"PAD_VALUE": feature.pad_value},
        "CNA.FEATURE_DATA_ADDR": feature.source,
        "CNA.DMA_CON0": {
            "WEIGHT_BURST_LEN": BurstLength.BURST_16,
            "DATA_BURST_LEN": BurstLength.BURST_16,
        },
        "CNA.DCOMP_ADDR0": weights.source,
        "CORE.DATAOUT_SIZE_0": {"DATAOUT_HEIGHT": output.height, "DATAOUT_WIDTH": output.width},
    }


def cube(task: DpuTask, channels: int) -> Table:
    """Return the cube of ``task`` as DPU and DPU_RDMA have it, and the last stage. ``channels``: of
    the result, as programmed.
    """
    output, out = task.output, task.out_convert
    return {
        "DPU.DST_BASE_ADDR": output.target,
        "DPU.DST_SURF_STRIDE": {"DST_SURF_STRIDE": output.surface_stride_bytes},
        "DPU.DATA_CUBE_WIDTH": {"WIDTH": output.width},
        "DPU.DATA_CUBE_HEIGHT": {"HEIGHT": output.height},
        "DPU.DATA_CUBE_CHANNEL": {"CHANNEL": channels},
        "DPU.WDMA_SIZE_0": {"CHANNEL_WDMA": channels},
        "DPU.WDMA_SIZE_1": {"HEIGHT_WDMA": output.height, "WIDTH_WDMA": output.width},
        "DPU.OUT_CVT_OFFSET": {"OUT_CVT_OFFSET": out.offset},
        "DPU.OUT_CVT_SCALE": {"OUT_CVT_SCALE": out.scale},
        "DPU.OUT_CVT_SHIFT": {"OUT_CVT_SHIFT": out.shift},
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": {"WIDTH": output.width},
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": {"HEIGHT": output.height},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"CHANNEL": channels},
        "DPU_RDMA.RDMA_BS_BASE_ADDR": task.bs.operands,
    }


def encode_task(chip: Chip, layer: str, task: Task | TableLoad) -> Segment:
    """Return the segment of one task. ``layer`` names it in errors. Raises EncodingError."""
    for primitive in () if isinstance(task, TableLoad) else used_by(task):
        if primitive in chip.lacks:
            tile = f", tile {task.tile}" if task.tile else ""
            problem = f"chip {chip.name} has no known {primitive.value}"
            raise UnknownFormError(f"layer {layer}{tile}: {problem}")
    found: Segment = part_of("delegate.npu", chip.target, "encoder").encode_task(chip, layer, task)
    return found


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """A task of a program. ``layer``: index of the layer it belongs to."""

    layer: int
    task: Task | TableLoad


def with_table_loads(
    tasks: Iterable[ScheduledTask],
    atoms: tuple[Ref, Ref],
    *,
    are_kept: bool = True,
    load_themselves: bool = False,
) -> Iterator[ScheduledTask]:
    """Yield ``tasks``, and before those that find other tables than theirs a load, which copies
    ``atoms`` [0] to [1]; or they ``load_themselves``. The first finds none: somebody else may have
    used the core before it; nor does any task where tables are not kept.
    """
    loaded = None
    for item in tasks:
        task = item.task
        use = task.table if isinstance(task, DpuTask) else None
        if use is not None and (use.functions != loaded or not are_kept):
            loaded = use.functions
            if load_themselves and isinstance(task, DpuTask):
                yield replace(item, task=replace(task, table=replace(use, is_loaded_here=True)))
                continue
            load = TableLoad(f"table load, functions {len(loaded)}", loaded, *atoms)
            yield ScheduledTask(item.layer, load)
        yield item
