"""The outcome of one case."""

import enum
from dataclasses import dataclass


class Status(enum.Enum):
    """googletest's three results."""

    OK = "OK"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class Oracle(enum.Enum):
    """The origin of the expected values."""

    TFLITE = "tflite-reference"
    NUMPY = "numpy"
    NONE = "none"  # the model must be refused, so nothing is computed


@dataclass(frozen=True, slots=True)
class Outcome:
    """``message``: one or more lines, empty for a plain success. ``rules``: of all rejections.

    ``max_abs_diff`` in LSB, ``equal`` of ``elements``; zero where nothing was compared.
    """

    name: str
    label: str
    status: Status
    message: str = ""
    rules: tuple[str, ...] = ()
    oracle: Oracle = Oracle.NONE
    max_abs_diff: int = 0
    equal: int = 0
    elements: int = 0
    delegated_nodes: int = 0
    total_nodes: int = 0
    submits: int = 0
    milliseconds: int = 0
