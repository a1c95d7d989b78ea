"""Types for argparse: an ArgumentTypeError becomes a usage error of one line, with its words."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def positive_integer(text: str) -> int:
    """1, 2, 3, ..."""
    value = _integer(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def natural_number(text: str) -> int:
    """0, 1, 2, ..."""
    value = _integer(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def finite_float(text: str) -> float:
    """Any number but infinities and NaN."""
    value = _float(text)
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number")
    return value


def positive_float(text: str) -> float:
    """A finite number above 0."""
    value = finite_float(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def nonzero_float(text: str) -> float:
    """A finite number other than 0."""
    value = finite_float(text)
    if value == 0.0:
        raise argparse.ArgumentTypeError("must not be 0")
    return value


def share_of_one(text: str) -> float:
    """A number from 0 to 1."""
    value = _float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return value


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
