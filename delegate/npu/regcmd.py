"""Register commands: 64-bit words of target (63:48), value (47:16) and register offset (15:0).

In: field values by name. Out: the words of one segment and the places where addresses belong.
Refuses, with an EncodingError naming layer, tile, BLOCK.REGISTER.FIELD, value and limit, whatever
does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from delegate.chip.register_model import Access, Field, Register, RegisterMap
from delegate.chip.registers import REGISTERS, register
from delegate.errors import EncodingError
from delegate.lower.task import Ref

TAIL_WORDS = 4
"""Link, length of the next segment, barrier, start word: the end of every segment (observed)."""

SEGMENT_ALIGN_WORDS = 8
"""Segments start at multiples of 64 bytes and take whole multiples of 8 words (observed)."""

ADDRESS_ALIGN_BYTES = 16
"""Feature maps, weights and operands are addressed in whole 16-byte atoms."""

VALUE_MASK = 0xFFFF_FFFF


def pack_word(target: int, offset: int, value: int) -> int:
    """The command word; ``value`` is the whole 32-bit register."""
    return target << 48 | (value & VALUE_MASK) << 16 | offset


@dataclass(frozen=True, slots=True)
class Command:
    """A decoded command word. ``register`` is None for words that address nothing in the table."""

    target: int
    offset: int
    value: int
    register: Register | None


def unpack_word(word: int, registers: RegisterMap = REGISTERS) -> Command:
    """The parts of a command word and the register that it addresses on a chip."""
    target, value, offset = word >> 48, word >> 16 & VALUE_MASK, word & 0xFFFF
    return Command(target, offset, value, registers.by_address.get((target, offset)))


def read_commands(words: Iterable[int], registers: RegisterMap = REGISTERS) -> Iterator[Command]:
    """Every word of a stream, decoded, in order."""
    return (unpack_word(int(word), registers) for word in words)


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
    """The tail of a segment; the link's address is patched later.

    ``next_body_words`` None: the chain ends here, the link is an empty word and the amount is 0.
    """
    base = register("PC.BASE_ADDRESS")
    amounts = register("PC.REGISTER_AMOUNTS")
    barrier = register("SYNC.BARRIER")
    enable = register("ENABLE.OPERATION_ENABLE")
    amount = 0 if next_body_words is None else fetch_amount(next_body_words)
    return (
        0 if next_body_words is None else pack_word(base.target, base.offset, 0),
        pack_word(amounts.target, amounts.offset, amount),
        pack_word(barrier.target, barrier.offset, 0),
        pack_word(enable.target, enable.offset, enable_mask),
    )


class RegCmdWriter:
    """Collects the body of one segment.

    ``layer`` and ``tile`` only appear in messages. ``write`` refuses a register that was written
    before; ``rewrite`` says that the repetition is meant.
    """

    def __init__(self, layer: str, tile: str, registers: RegisterMap = REGISTERS) -> None:
        self._registers = registers
        self._layer = layer
        self._tile = tile
        self._words: list[int] = []
        self._addresses: list[AddressSlot] = []
        self._written: set[str] = set()

    def fail(self, place: str, problem: str) -> EncodingError:
        """The error to raise about ``place`` (BLOCK.REGISTER.FIELD)."""
        tile = f", tile {self._tile}" if self._tile else ""
        return EncodingError(f"layer {self._layer}{tile}: {place} {problem}")

    def refuse(self, problems: Iterable[tuple[str, str]]) -> None:
        """Raises the error about the first of them, if there is any: place and problem."""
        for place, problem in problems:
            raise self.fail(place, problem)

    def write(self, name: str, /, **fields: int) -> None:
        """One register from its fields' true values; fields not given are 0 in the register.

        Raises EncodingError on a value outside its field, and KeyError on a name outside the table.
        """
        self._claim(name, again=False)
        self._append(name, fields)

    def rewrite(self, name: str, /, **fields: int) -> None:
        """As ``write``, for a register that correct programs write more than once."""
        self._claim(name, again=True)
        self._append(name, fields)

    def _append(self, name: str, fields: Mapping[str, int]) -> None:
        try:
            word = _word(self._registers, name, tuple(fields.items()))
        except _FieldError as error:
            raise self.fail(error.place, error.problem) from None
        self._words.append(word)

    def write_address(self, name: str, place: Ref | None) -> None:
        """An address register: a relocation to ``place``, whose offset is the value until then;
        None: 0.
        """
        if place is None:
            self.write(name)
            return
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
        """The segment. The writer is not used afterwards."""
        return Segment(tuple(self._words), tuple(self._addresses), enable_mask, int_mask)

    def _claim(self, name: str, again: bool) -> Register:
        target = self._registers.register(name)
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
    """The command word that gives ``fields`` of a register their values. Raises _FieldError."""
    target = registers.register(name)
    value = 0
    for field_name, field_value in fields:
        value |= _encoded(target, target.field(field_name), int(field_value))
    return pack_word(target.target, target.offset, value)


def _encoded(target: Register, field: Field, value: int) -> int:
    place = f"{target.full_name}.{field.name}"
    low, high = field.limits
    if not low <= value <= high:
        raise _FieldError(place, f"= {value} exceeds the limit {low}..{high}")
    number, rest = divmod(value, field.unit)
    if rest:
        raise _FieldError(place, f"= {value} is not a multiple of {field.unit}")
    if field.minus_one:
        number -= 1
    return (number << field.lo) & field.mask
