"""FULLY_CONNECTED beyond Teflon's grid: ranks, rows, odd sizes, activations, no bias."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from delegate.model.graph import Activation
from rk3588_conformance.builder.layers import fully_connected
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Grid, Value
from rk3588_conformance.own_grid import TYPES, layer_grid, numbers_of

# Leading dimensions by rank and number of rows; "1": none, of rank 1.
_LEADING = {
    "1": (), "1x1": (1,), "6": (6,), "1x1x1": (1, 1), "2x3": (2, 3), "1x5x1": (1, 5, 1),
    "2x1x7": (2, 1, 7),
}  # fmt: skip


_BIAS = {"drawn": None, "absent": False, "zero": 0}


def _input_shape(*, rows: int | str, inputs: int, **_: Value) -> tuple[int, ...]:
    return (*((rows,) if isinstance(rows, int) else _LEADING[rows]), inputs)


def _layer(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, type: str, outputs: int,
    activation: str = "NONE", bias: str = "drawn", keep_num_dims: int = 0, **_: Value,
) -> int:  # fmt: skip
    numbers = replace(numbers_of(type), activation=Activation[activation], bias=_BIAS[bias])
    return fully_connected(builder, rng, x, outputs, numbers, keep_num_dims=bool(keep_num_dims))


def _grid(label: str, **axes: Any) -> Grid:
    """``rows``: how many, or the input's leading dimensions."""
    return layer_grid(
        f"{label}.Op/",
        input_shape=_input_shape,
        is_in=lambda rows, keep_num_dims=0, **_: rows != "1" or not keep_num_dims,
        **axes,
    )(_layer)


@layer_grid(
    "DenseFlattened.Op/",
    input_shape=lambda h, w, c, **_: (1, h, w, c),
    h=(1, 3),
    w=(2, 7),
    c=(1, 5, 16, 40),
    outputs=(2, 33),
    type=TYPES,
)
def _flattened(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, outputs: int, type: str,
    **sides: int,
) -> int:  # fmt: skip
    """A feature map of rank 4 whose pixels and channels together are the inputs of one row."""
    inputs = sides["h"] * sides["w"] * sides["c"]
    return fully_connected(builder, rng, x, outputs, numbers_of(type), inputs=inputs)


FAMILIES: tuple[Family, ...] = (
    _grid(
        "DenseShapes",
        rows=tuple(_LEADING),
        inputs=(1, 33, 257),
        outputs=(1, 17, 130),
        keep_num_dims=(0, 1),
        type=TYPES,
    ),
    _flattened,
    _grid(
        "DenseNumbers",
        inputs=101,
        outputs=37,
        activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
        bias=tuple(_BIAS),
        rows=(1, 19),
        type=TYPES,
    ),
    # More weights per output than CBUF holds for a group of kernels.
    _grid(
        "DenseManyInputs",
        inputs=(11279, 25089, 30011, 62723),
        outputs=(1, 31, 67),
        rows=(1, 2),
        activation=("NONE", "RELU6"),
        type=TYPES,
    ),
)
