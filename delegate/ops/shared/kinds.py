"""Name what the records of operators speak of: roles of inputs, edges of partitions, movements of
aliases, and nodes that are computed with others.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delegate.lower.lowered import Affine
from delegate.model.graph import Node


class Role(enum.Enum):
    """The role of an input for its operator."""

    FEATURE = "feature map"
    OPERAND = "feature map or constant"
    WEIGHTS = "weights"
    MATRIX = "computed weights"
    BIAS = "bias"
    NUMBERS = "axis, positions, sizes or amounts"


class Side(enum.Enum):
    """An edge of a partition, where the host converts."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class HostValues:
    """The host's conversion of values, see ``TensorBinding``. Neither: they stay as they are."""

    affine: Affine | None = None
    table: bytes = b""


class Movement(enum.Enum):
    """The way in which an alias moves its tensors."""

    JOIN = "parts make one tensor"
    CUT = "parts are cut out of a tensor"
    KEEP = "a tensor gets another shape"


RESULT: Final = -1


class Turn(NamedTuple):
    """A node exchanges rows and columns of matrices, which ``product`` can do itself. ``place``: of
    the product's operand that the node makes; ``RESULT``: the node reads the product's result.
    ``axes``: the order of dimensions that the node still makes.
    """

    product: Node
    place: int
    axes: tuple[int, ...]


class OnImage(NamedTuple):
    """``node`` may read an image, under what ``weights`` makes of its own: those in its order."""

    node: Node
    weights: Callable[[], npt.NDArray[np.generic]]


class Whole(NamedTuple):
    """``nodes`` that are computed as one, which reads ``inputs`` and writes ``outputs``; nobody
    else reads what they hand to one another.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
