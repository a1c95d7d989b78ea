"""Types for argparse: an ArgumentTypeError becomes a usage error of one line, with its words."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

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
"""By the words that rows of arguments have for them (``delegate.cli.command``)."""
