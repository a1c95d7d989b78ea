"""Command words as text and back.

One line per word: ``BLOCK.REGISTER = 0xVALUE  # decoded fields``. Words that address no register of
the table are ``word 0x...``, all-zero words ``empty``. Everything after ``#`` is a comment;
``assemble`` reads the rest, so text and words convert into each other without loss.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from delegate.chip.chips import registers_of
from delegate.chip.register_model import Field, RegisterMap
from delegate.chip.rk3588.registers import REGISTERS
from delegate.errors import UsageError
from delegate.lower.task import BufferId
from delegate.npu.program_reader import parse
from delegate.npu.program_types import FILE_IDENTIFIER, WORD_BYTES, Program, Reloc
from delegate.npu.regcmd import VALUE_MASK, Command, pack_word, unpack_word

_EMPTY = "empty"
_WORD = re.compile(r"word\s+(0x[0-9a-fA-F]{1,16})")
_REGISTER = re.compile(r"([A-Z0-9_]+\.[A-Z0-9_]+)\s*=\s*(0x[0-9a-fA-F]{1,8})")


def disassemble(source: Program | Iterable[int], registers: RegisterMap = REGISTERS) -> str:
    """Return the text of a Program, with layers, tiles and relocations as comments, or of bare
    words of the chip that has ``registers``.
    """
    if isinstance(source, Program):
        lines = _program_lines(source)
    else:
        lines = _word_lines(source, registers)
    return "\n".join(lines) + "\n"


def disassemble_bytes(data: bytes) -> str:
    """Return the same as ``disassemble``, for a serialised Program or a file of little-endian
    command words.

    Raises ProgramError for a corrupt Program, UsageError for bytes that are not whole words.
    """
    if data[4:8] == FILE_IDENTIFIER:
        return disassemble(parse(data))
    if len(data) % WORD_BYTES:
        raise UsageError(f"{len(data)} bytes are neither a program nor whole 64-bit command words")
    return disassemble(int(word) for word in np.frombuffer(data, dtype="<u8"))


def assemble(text: str, registers: RegisterMap = REGISTERS) -> tuple[int, ...]:
    """Return the words of ``text``. Raises UsageError naming the line that is not understood."""
    words = []
    for number, line in enumerate(text.splitlines(), start=1):
        code = line.split("#", 1)[0].strip()
        if code:
            words.append(_assemble_line(code, number, registers))
    return tuple(words)


def describe(command: Command) -> str:
    """Return the fields of a command that are not zero in the register: ``WIDTH=20 CHANNEL=32``."""
    if command.register is None:
        return ""
    shown = [
        f"{field.name}={_field_value(field, command.value)}"
        for field in command.register.fields
        if command.value & field.mask
    ]
    reserved = command.value & ~command.register.valid_mask
    if reserved:
        shown.append(f"RESERVED=0x{reserved:x}")
    return " ".join(shown)


def _assemble_line(code: str, number: int, registers: RegisterMap) -> int:
    if code == _EMPTY:
        return 0
    match = _WORD.fullmatch(code)
    if match:
        return int(match.group(1), 16)
    match = _REGISTER.fullmatch(code)
    if not match:
        raise UsageError(f"line {number}: {code!r} is not 'BLOCK.REGISTER = 0xVALUE'")
    register = registers.by_name.get(match.group(1))
    if register is None:
        raise UsageError(f"line {number}: there is no register {match.group(1)}")
    return pack_word(register.target, register.offset, int(match.group(2), 16))


def _word_lines(words: Iterable[int], registers: RegisterMap) -> Iterator[str]:
    for word in words:
        yield _line(int(word), None, registers)


def _line(word: int, reloc: Reloc | None, registers: RegisterMap) -> str:
    command = unpack_word(word, registers)
    if word == 0:
        return _EMPTY
    if command.register is None:
        return f"word 0x{word:016x}"
    code = f"{command.register.full_name} = 0x{command.value & VALUE_MASK:08x}"
    comment = describe(command)
    if reloc is not None:
        comment = f"{reloc.buffer.name} + 0x{reloc.addend:x}"
    return f"{code:<48}# {comment}" if comment else code


def _field_value(field: Field, word: int) -> str:
    value = field.decode(word)
    if field.enum is None:
        return str(value)
    try:
        member: enum.IntEnum | enum.IntFlag = field.enum(value)
    except ValueError:
        return str(value)
    if isinstance(member, enum.IntFlag):
        names = [flag.name for flag in type(member) if flag.name and flag & member]
        return "|".join(names) or str(value)
    return member.name


def _program_lines(program: Program) -> Iterator[str]:
    relocs: Mapping[int, Reloc] = {reloc.word: reloc for reloc in program.relocs}
    words, registers = program.words(), registers_of(program.chip)
    yield f"# program {_comment(program.name)} ({_comment(program.compiler)})"
    for buffer, item in zip(BufferId, program.buffers, strict=True):
        yield f"# buffer {buffer.name}: {item.size_bytes} bytes"
    position, layer = 0, -1
    for index, task in enumerate(program.tasks):
        first = task.regcmd_offset // WORD_BYTES
        yield from _word_lines((int(word) for word in words[position:first]), registers)
        if task.layer != layer:
            layer = task.layer
            made = program.layers[layer]
            nodes = ", ".join(str(node) for node in made.nodes)
            yield ""
            yield f"# layer {layer}: {_comment(made.name)} ({_comment(made.op)}), nodes {nodes}"
        yield (
            f"# task {index}, job {task.job}, tile {_comment(task.tile) or 'whole'}: "
            f"{task.regcmd_count} words at byte {task.regcmd_offset}, "
            f"enable 0x{task.enable_mask:x}, about {task.estimate.cycles} cycles"
        )
        position = first + task.regcmd_count
        for word in range(first, position):
            yield _line(int(words[word]), relocs.get(word), registers)
    yield from _word_lines((int(word) for word in words[position:]), registers)


def _comment(text: str) -> str:
    """Text of a program on one line, whatever it contains."""
    return " ".join(text.split())
