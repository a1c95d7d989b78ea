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

# Leading dimensions by rank and number of rows.
_LEADING = {
    "1": (), "1x1": (1,), "6": (6,), "1x1x1": (1, 1), "2x3": (2, 3), "1x5x1": (1, 5, 1),
    "2x1x7": (2, 1, 7),
}  # fmt: skip


def _shapes() -> Grid:
    """``rows``: the input's leading dimensions, "1" for none (rank 1)."""

    def make(
        name: str, *, rows: str, inputs: int, outputs: int, keep_num_dims: int, type: str
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return fully_connected(
                builder, rng, x, outputs, numbers_of(type), keep_num_dims=bool(keep_num_dims)
            )

        shape = (*_LEADING[rows], inputs)
        return one_layer(name, "DenseShapes", shape, type, layer)

    def is_in(*, rows: str, keep_num_dims: int, **_: Value) -> bool:
        return bool(_LEADING[rows]) or not keep_num_dims

    return Grid(
        "DenseShapes.Op/",
        {
            "rows": tuple(_LEADING),
            "inputs": (1, 33, 257),
            "outputs": (1, 17, 130),
            "keep_num_dims": (0, 1),
            "type": TYPES,
        },
        make,
        is_in,
    )


def _flattened() -> Grid:
    """A feature map of rank 4 whose pixels and channels together are the inputs of one row."""

    def make(name: str, *, h: int, w: int, c: int, outputs: int, type: str) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            numbers = numbers_of(type)
            return fully_connected(builder, rng, x, outputs, numbers, inputs=h * w * c)

        return one_layer(name, "DenseFlattened", (1, h, w, c), type, layer)

    axes: Axes = {"h": (1, 3), "w": (2, 7), "c": (1, 5, 16, 40), "outputs": (2, 33), "type": TYPES}
    return Grid("DenseFlattened.Op/", axes, make)


def _numbers() -> Grid:
    def make(name: str, *, activation: str, bias: str, rows: int, type: str) -> Case:
        numbers = replace(
            numbers_of(type),
            activation=Activation[activation],
            bias={"drawn": None, "absent": False, "zero": 0}[bias],
        )

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return fully_connected(builder, rng, x, 37, numbers)

        case = one_layer(name, "DenseNumbers", (rows, 101), type, layer)
        turns_ties = numbers.activation is Activation.RELU_N1_TO_1
        return replace(case, differing=LOWER_CLAMP) if turns_ties else case

    return Grid(
        "DenseNumbers.Op/",
        {
            "activation": ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
            "bias": ("drawn", "absent", "zero"),
            "rows": (1, 19),
            "type": TYPES,
        },
        make,
    )


def _many_inputs() -> Grid:
    """More weights per output than CBUF holds for a group of kernels."""

    def make(
        name: str, *, inputs: int, outputs: int, rows: int, activation: str, type: str
    ) -> Case:
        numbers = replace(numbers_of(type), activation=Activation[activation])

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return fully_connected(builder, rng, x, outputs, numbers)

        return one_layer(name, "DenseManyInputs", (rows, inputs), type, layer)

    return Grid(
        "DenseManyInputs.Op/",
        {
            "inputs": (11279, 25089, 30011, 62723),
            "outputs": (1, 31, 67),
            "rows": (1, 2),
            "activation": ("NONE", "RELU6"),
            "type": TYPES,
        },
        make,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_shapes(), _flattened(), _numbers(), _many_inputs())
