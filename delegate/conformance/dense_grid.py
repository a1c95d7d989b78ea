"""FULLY_CONNECTED beyond Teflon's grid: ranks, rows, odd sizes, activations, no bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Value
from delegate.conformance.own_grid import TYPES, numbers_of, one_layer
from delegate.conformance.random_layers import fully_connected
from delegate.conformance.tolerance import LOWER_CLAMP
from delegate.model.graph import Activation

# Leading dimensions by rank and number of rows; "1": none, of rank 1.
_LEADING = {
    "1": (), "1x1": (1,), "6": (6,), "1x1x1": (1, 1), "2x3": (2, 3), "1x5x1": (1, 5, 1),
    "2x1x7": (2, 1, 7),
}  # fmt: skip


_BIAS = {"drawn": None, "absent": False, "zero": 0}


def _grid(label: str, axes: Axes) -> Grid:
    """37 outputs of 101 inputs, but for what ``axes`` say. ``rows``: how many, or the input's
    leading dimensions.
    """

    def make(
        name: str, *, rows: int | str, type: str, inputs: int = 101, outputs: int = 37,
        activation: str = "NONE", bias: str = "drawn", keep_num_dims: int = 0,
    ) -> Case:  # fmt: skip
        numbers = replace(numbers_of(type), activation=Activation[activation], bias=_BIAS[bias])

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return fully_connected(
                builder, rng, x, outputs, numbers, keep_num_dims=bool(keep_num_dims)
            )

        lead = (rows,) if isinstance(rows, int) else _LEADING[rows]
        case = one_layer(name, label, (*lead, inputs), type, layer)
        turns_ties = numbers.activation is Activation.RELU_N1_TO_1
        return replace(case, differing=LOWER_CLAMP) if turns_ties else case

    def is_in(*, rows: int | str, keep_num_dims: int = 0, **_: Value) -> bool:
        return rows != "1" or not keep_num_dims

    return Grid(f"{label}.Op/", axes, make, is_in)


def _flattened() -> Grid:
    """A feature map of rank 4 whose pixels and channels together are the inputs of one row."""

    def make(name: str, *, h: int, w: int, c: int, outputs: int, type: str) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            numbers = numbers_of(type)
            return fully_connected(builder, rng, x, outputs, numbers, inputs=h * w * c)

        return one_layer(name, "DenseFlattened", (1, h, w, c), type, layer)

    axes: Axes = {"h": (1, 3), "w": (2, 7), "c": (1, 5, 16, 40), "outputs": (2, 33), "type": TYPES}
    return Grid("DenseFlattened.Op/", axes, make)


_SHAPES: Axes = {
    "rows": tuple(_LEADING),
    "inputs": (1, 33, 257),
    "outputs": (1, 17, 130),
    "keep_num_dims": (0, 1),
    "type": TYPES,
}

_NUMBERS: Axes = {
    "activation": ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    "bias": tuple(_BIAS),
    "rows": (1, 19),
    "type": TYPES,
}

_MANY_INPUTS: Axes = {
    "inputs": (11279, 25089, 30011, 62723),
    "outputs": (1, 31, 67),
    "rows": (1, 2),
    "activation": ("NONE", "RELU6"),
    "type": TYPES,
}
"""More weights per output than CBUF holds for a group of kernels."""


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _grid("DenseShapes", _SHAPES),
        _flattened(),
        _grid("DenseNumbers", _NUMBERS),
        _grid("DenseManyInputs", _MANY_INPUTS),
    )
