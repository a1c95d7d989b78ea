"""Lines: tensors of rank 3, as sequences of one image have them. Borders and reductions.

All move or select values, or count them in integers, so all of them have to be equal.
"""

from __future__ import annotations

import numpy as np

from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import pad
from rk3588_conformance.builder.pooling import reduced
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import EIGHT_BITS, layer_grid, pair, rescaled
from rk3588_conformance.tolerance import NONE

_BORDERS = {"pad": (None, None), "value": (5, None), "reflect": (None, 0), "symmetric": (None, 1)}
"""Value and mode."""
_AMOUNTS = {"one": (1, 1), "causal": (3, 0), "far": (0, 19)}


def _shape(*, length: int, channels: int, **_: Value) -> tuple[int, ...]:
    return 1, length, channels


@layer_grid(
    "LineBorders.Op/",
    differing=NONE,
    input_shape=_shape,
    border=tuple(_BORDERS),
    amount=tuple(_AMOUNTS),
    length=(20, 33, 256),
    channels=(3, 16, 33, 64),
    type=EIGHT_BITS,
)
def _borders(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, border: str, amount: str, **__: Value
) -> int:
    value, mode = _BORDERS[border]
    return pad(builder, x, ((0, 0), _AMOUNTS[amount], (0, 0)), value=value, mode=mode)


_REDUCTIONS = {"mean": "MEAN", "sum": "SUM", "max": "REDUCE_MAX"}


def _is_uint8_or_no_sum(*, reduction: str, type: str, **_: Value) -> bool:
    return reduction != "sum" or type == "uint8"


@layer_grid(
    "LineReductions.Op/",
    differing=NONE,
    input_shape=_shape,
    is_in=_is_uint8_or_no_sum,
    reduction=tuple(_REDUCTIONS),
    length=(1, 31, 64, 256, 899, 4000),
    channels=(1, 16, 33, 64),
    keep_dims=(0, 1),
    type=EIGHT_BITS,
)
def _reductions(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, reduction: str, length: int,
    keep_dims: int, **_: Value,
) -> int:  # fmt: skip
    ratio = {"mean": 0.3, "sum": float(length)}.get(reduction)
    result = None if ratio is None else rescaled(builder, rng, x, ratio)
    return reduced(builder, _REDUCTIONS[reduction], x, result, keep_dims=keep_dims == 1, axes=(1,))


def _ranked(*, rank: int, size: str, channels: int, **_: Value) -> tuple[int, ...]:
    height, width = pair(size)
    shapes = (height * width, channels), (2, height * width, channels), (3, height, width, channels)
    return shapes[rank - 2]


@layer_grid(
    "ChannelReductions.Op/",
    differing=NONE,
    input_shape=_ranked,
    is_in=_is_uint8_or_no_sum,
    reduction=("mean", "sum"),
    rank=(2, 3, 4),
    size=("1x1", "7x5", "37x4"),
    channels=(1, 3, 16, 37, 64, 192, 768),
    ratio=("0_02", "0_3", "1", "9"),
    type=EIGHT_BITS,
)
def _channels(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, reduction: str, ratio: str,
    channels: int, **_: Value,
) -> int:  # fmt: skip
    """Means and sums of the last axis, as layer normalisation has them."""
    held = float(ratio.replace("_", ".")) * (channels if reduction == "sum" else 1)
    result = rescaled(builder, rng, x, held)
    return reduced(builder, _REDUCTIONS[reduction], x, result, keep_dims=True, axes=(-1,))


FAMILIES: tuple[Family, ...] = (_borders, _reductions, _channels)
