"""The kinds of values that options take, each from a text.

A kind is written in two languages, here and in ``native/loader/option_kinds.cpp``, and accepts the
same strings in both: a value is UTF-8 without NUL, spaces around it count only in paths, case does
not count except in paths, and only ASCII letters and digits are letters and digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Protocol

OptionValue = str | int | bool | tuple[str, ...]

SPACES = " \t\n\v\f\r"
# Values travel as "key:value;key:value" (benchmark_model) and "key#value" (GStreamer), so none may
# need these. Paths are exempt: they are the user's.
SEPARATORS = ",+" + SPACES
_SEPARATORS = re.compile(f"[{re.escape(SEPARATORS)}]+")


def closest(word: str, candidates: tuple[str, ...]) -> str:
    """Return what is probably meant, as the end of a message."""
    import difflib

    found = difflib.get_close_matches(word, candidates, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _plain(text: str) -> str:
    """Return the text without spaces around it and in small letters; "" if it is not ASCII."""
    return text.strip(SPACES).lower() if text.isascii() else ""


class Kind(Protocol):
    """A kind of values that an option takes. ``parse`` raises ValueError with what is expected."""

    @property
    def values(self) -> str:
        """Return the values in words, for tables and messages."""

    def parse(self, text: str) -> OptionValue: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def values(self) -> str:
        return ", ".join(self.words[:-1]) + " or " + self.words[-1]

    def parse(self, text: str) -> str:
        value = _plain(text)
        if value not in self.words:
            raise ValueError(f"{self.values}{closest(value, self.words)}")
        return value


@dataclass(frozen=True, slots=True)
class Integer:
    """A decimal number from ``lowest`` (0 or more) to ``highest``; a plus sign may precede it."""

    lowest: int
    highest: int
    DIGITS: ClassVar[int] = 12

    @property
    def values(self) -> str:
        return f"an integer from {self.lowest} to {self.highest}"

    def parse(self, text: str) -> int:
        if not re.fullmatch(rf"\+?[0-9]{{1,{self.DIGITS}}}", _plain(text)):
            raise ValueError(self.values)
        value = int(text)
        if not self.lowest <= value <= self.highest:
            raise ValueError(self.values)
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false, in the usual spellings."""

    TRUE: ClassVar[tuple[str, ...]] = ("1", "true", "yes", "on")
    FALSE: ClassVar[tuple[str, ...]] = ("0", "false", "no", "off")
    values = "true or false"

    def parse(self, text: str) -> bool:
        value = _plain(text)
        if value not in self.TRUE + self.FALSE:
            raise ValueError(self.values)
        return value in self.TRUE


@dataclass(frozen=True, slots=True)
class ChoiceOrPath(Choice):
    """One of some words, or an absolute path."""

    @property
    def values(self) -> str:
        return f"{', '.join(self.words)} or a device path such as /dev/accel/accel0"

    def parse(self, text: str) -> str:
        value = text.strip(SPACES)
        return value if value.startswith("/") else Choice.parse(self, text)


@dataclass(frozen=True, slots=True)
class Cores:
    """auto, all, or some of ``count`` (below 10) cores; the value is a sorted list such as 0,2."""

    count: int

    @property
    def values(self) -> str:
        last = self.count - 1
        return f"auto, all, or cores 0 to {last} as a list (0,2), a range (0-2) or a mask (0x5)"

    def parse(self, text: str) -> str:
        value = _plain(text)
        if value in ("auto", "all"):
            return value
        core = f"[0-{self.count - 1}]"
        if re.fullmatch("0x[0-9a-f]{1,3}", value):
            mask = int(value, 16)
            cores = {core for core in range(self.count) if mask >> core & 1}
            if mask >> self.count:
                raise ValueError(self.values)
        elif match := re.fullmatch(f"({core})-({core})", value):
            cores = set(range(int(match[1]), int(match[2]) + 1))
        else:
            words = _SEPARATORS.split(value)
            if not all(re.fullmatch(core, word) for word in words):
                raise ValueError(self.values)
            cores = {int(word) for word in words}
        if not cores:
            raise ValueError(self.values)
        return ",".join(str(core) for core in sorted(cores))


@dataclass(frozen=True, slots=True)
class Nodes:
    """Some of ``names``, those of operators, CUSTOM for all custom ones, SLOW, NONE, and node
    numbers; may be empty. The value is sorted, in capitals, numbers without leading zeros.
    """

    names: tuple[str, ...]
    DIGITS: ClassVar[int] = 9
    values = "operator names of TensorFlow Lite, node numbers, SLOW and NONE, as ADD,12,SLOW"

    def parse(self, text: str) -> tuple[str, ...]:
        if not text.isascii():
            raise ValueError(self.values)
        found = set()
        for word in filter(None, _SEPARATORS.split(text.upper())):
            if re.fullmatch(f"[0-9]{{1,{self.DIGITS}}}", word):
                found.add(str(int(word)))
            elif word in self.names:
                found.add(word)
            else:
                raise ValueError(f"{self.values}; {word} is none{closest(word, self.names)}")
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class PathOrWord:
    """A path as it stands, or one of some words."""

    words: tuple[str, ...]

    @property
    def values(self) -> str:
        return f"a path, {' or '.join(self.words)}"

    def parse(self, text: str) -> str:
        if not text.strip(SPACES):
            raise ValueError(self.values)
        word = _plain(text)
        return word if word in self.words else text
