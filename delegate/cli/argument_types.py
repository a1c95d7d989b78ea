"""Types for argparse; ValueError and ArgumentTypeError become one-line usage errors."""

from __future__ import annotations

import argparse


def positive_integer(text: str) -> int:
    """1, 2, 3, ..."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def natural_number(text: str) -> int:
    """0, 1, 2, ..."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def finite_float(text: str) -> float:
    """Any number but infinities and NaN."""
    value = float(text)
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number")
    return value


def nonzero_float(text: str) -> float:
    """A finite number other than 0."""
    value = finite_float(text)
    if value == 0.0:
        raise argparse.ArgumentTypeError("must not be 0")
    return value


def share_of_one(text: str) -> float:
    """A number from 0 to 1."""
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return value
