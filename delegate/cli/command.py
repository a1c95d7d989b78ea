"""Define what all commands share: their description, the types of arguments, those for delegate
options, JSON output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from delegate.errors import OptionError
from delegate.log import configure
from delegate.options import NONE, OPTIONS, OPTIONS_BY_KEY, ORIGIN_DEFAULT, Options

PROGRAM = "rk3588-delegate"

EXIT_MISMATCH = 1


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand. ``run`` takes the parsed arguments and returns the exit code.
    ``takes_options``: those of the delegate, too (see ``options_from``).

    ``text``: "name: summary", the rows of its arguments, examples, with an empty line between these
    parts. ``odd``: what no row can say of an argument, by its first name, as ``add_argument`` of
    argparse takes it.
    """

    run: Callable[[argparse.Namespace], int]
    text: str
    odd: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    takes_options: bool = False

    def _part(self, number: int) -> str:
        return self.text.strip().split("\n\n")[number]

    @property
    def name(self) -> str:
        return self._part(0).partition(": ")[0]

    @property
    def summary(self) -> str:
        return self._part(0).partition(": ")[2]

    @property
    def examples(self) -> list[str]:
        return self._part(2).splitlines()

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Adds all its arguments to ``parser``."""
        _add_rows(parser, self._part(1), self.odd)
        if self.takes_options:
            _add_option_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def examples_text(self, program: str) -> str:
        """The examples as they stand at the end of ``--help``."""
        return "\n".join(["examples:", *(f"  {program} {example}" for example in self.examples)])


Number = TypeVar("Number", int, float)
_Check = tuple[Callable[[Any], bool], str]


def _number(kind: Callable[[str], Number], what: str, *checks: _Check) -> Callable[[str], Number]:
    """Return the type of a number that fulfils ``checks``, with what is said where it does not."""

    def parse(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
        for is_right, problem in checks:
            if not is_right(value):
                raise argparse.ArgumentTypeError(problem.format(text))
        return value

    return parse


_POSITIVE: Final = (lambda value: value > 0, "{} is not a positive number")
_NATURAL: Final = (lambda value: value >= 0, "{} is negative")
_FINITE: Final = (math.isfinite, "{} is not a finite number")
_NONZERO: Final = (lambda value: value != 0, "must not be 0")
_SHARE: Final = (lambda value: 0.0 <= value <= 1.0, "{} is not from 0 to 1")

positive_integer = _number(int, "a whole number", _POSITIVE)
natural_number = _number(int, "a whole number", _NATURAL)
finite_float = _number(float, "a number", _FINITE)
positive_float = _number(float, "a number", _FINITE, _POSITIVE)
nonzero_float = _number(float, "a number", _FINITE, _NONZERO)
share_of_one = _number(float, "a number", _SHARE)

TYPES: Mapping[str, Callable[[str], Any]] = {
    "path": Path,
    "whole": int,
    "natural": natural_number,
    "positive": positive_integer,
    "finite": finite_float,
    "nonzero": nonzero_float,
    "share": share_of_one,
}
"""By the words that rows of arguments have for them."""


_VALUE = re.compile(r"([^:?*+!=]+)(?::(\w+))?([?*+!]?)(?:=(.*))?")


def _add_rows(
    parser: argparse.ArgumentParser, rows: str, odd: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the arguments of ``rows``: names, values and, after two spaces, the help; a row goes on
    in those below it that are indented. Of a name without a value it counts that it is there.

    A value is a metavar or choices (``a|b``), then perhaps a type of ``TYPES`` (``:path``), how
    often it comes (``?``, ``*``, ``+`` as in argparse, ``!``: must be given) and what it is if it
    is not (``=50``). A row that ends in a colon begins a group, a colon alone ends it; of rows that
    begin with ``|`` one at most may be given.
    """
    place: argparse._ActionsContainer = parser
    chosen = place
    for row in re.sub("\n +", " ", rows).splitlines():
        if row.endswith(":"):
            place = parser.add_argument_group(row[:-1]) if row != ":" else parser
            continue
        if not row.startswith("| "):
            chosen = place
        elif chosen is place:
            chosen = place.add_mutually_exclusive_group()
        words, _, text = row.removeprefix("| ").partition("  ")
        names = [word for word in words.split() if word.startswith("-")] or words.split()[:1]
        kind = _kind_of_value(words.split()[len(names) :])
        chosen.add_argument(*names, **{**kind, "help": text, **odd.get(names[0], {})})


def _kind_of_value(values: Sequence[str]) -> dict[str, Any]:
    """Return what ``add_argument`` is told of the values of a row."""
    if not values:
        return {"action": "store_true"}
    found = [match.groups() for match in map(_VALUE.fullmatch, values) if match is not None]
    name, kind, often, default = found[0]
    given: dict[str, Any] = {"type": TYPES[kind] if kind else None, "default": default}
    if len(values) > 1:
        return {**given, "metavar": tuple(name for name, *_ in found), "nargs": len(found)}
    if often:
        given |= {"required": True} if often == "!" else {"nargs": often}
    return given | ({"choices": name.split("|")} if "|" in name else {"metavar": name})


def _add_option_arguments(parser: argparse.ArgumentParser) -> None:
    """``--device`` and ``-O KEY=VALUE`` for every option of the delegate."""
    keys = ", ".join(option.key for option in OPTIONS)
    devices = OPTIONS_BY_KEY["device"]
    parser.add_argument("--device", metavar="NAME", help=f"{devices.kind.values}: {devices.help}")
    parser.add_argument(
        "-O", "--option", metavar="KEY=VALUE", action="append", default=[],
        help=f"an option of the delegate, repeatable; keys: {keys}",
    )  # fmt: skip


ORDER_ROWS = """\
| --chained  one kick per job, the program counter follows the links
| --kicked  one kick per task"""
"""The order in which a capture's tasks follow each other."""
ODD_ORDERS: Mapping[str, Mapping[str, Any]] = {
    "--chained": {"default": None},
    "--kicked": {"dest": "chained", "action": "store_false", "default": None},
}


def options_from(arguments: argparse.Namespace, *, wants_all: bool = False) -> Options:
    """Effective options of a command that ``takes_options``, with logging set up as they say.
    ``wants_all``: what the CPU runs as fast goes to the NPU, too, unless the user says otherwise.

    Raises OptionError for a pair without "=", a repeated, unknown or malformed one.
    """
    pairs: dict[str, object] = {}
    if arguments.device is not None:
        pairs["device"] = arguments.device
    for text in arguments.option:
        key, separator, value = text.partition("=")
        if not separator:
            raise OptionError(f"option {text!r} is not KEY=VALUE")
        if key in pairs:
            raise OptionError(f"option {key!r} is given twice")
        pairs[key] = value
    options = Options.from_mapping(pairs)
    if wants_all and options.origins["deny_ops"] == ORIGIN_DEFAULT:
        options = Options.from_mapping({**pairs, "deny_ops": NONE})
    configure(options.log_level)
    return options


def print_json(document: Mapping[str, Any]) -> None:
    """Prints one JSON document, in UTF-8 whatever the locale, NaN refused."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def answer(
    arguments: argparse.Namespace, document: Mapping[str, Any], text: str | Callable[[], None]
) -> None:
    """Prints the document if ``--json`` asks for it, else the text, or what is printed instead."""
    if arguments.json:
        print_json(document)
    elif isinstance(text, str):
        print(text)
    else:
        text()


def warn(text: str) -> None:
    """One line on stderr that is no error."""
    _print_line("note", text)


def warn_if_on_cpu(model: Path, delegated_nodes: int) -> None:
    """Says so if nothing of a model that ran was for the NPU."""
    if delegated_nodes == 0:
        warn(f"{model}: nothing of it was for the NPU, it ran on the CPU (compile says why)")


def print_error(text: str) -> None:
    """The one line that goes with a non-zero exit code."""
    _print_line("error", text)


def describe_os_error(error: OSError) -> str:
    """The reason, behind the file that it is about."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename is not None else reason


_COLOURS = {"error": "31", "note": "33"}  # red, yellow


def _in_colour(kind: str) -> str:
    """``kind`` in its colour where stderr is a terminal and the user did not say NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty():
        return kind
    return f"\x1b[{_COLOURS[kind]}m{kind}\x1b[0m"


def _print_line(kind: str, text: str) -> None:
    if sys.stderr is None:  # a parent may have closed it
        return
    with contextlib.suppress(OSError):  # if nobody listens, the exit code still tells
        print(f"{PROGRAM}: {_in_colour(kind)}: {' '.join(text.split())}", file=sys.stderr)
