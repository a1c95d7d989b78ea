"""SOFTMAX: shares of rows whose values are anything, near one another, the same, or but one.

Every result is within a step; how many are equal depends on how many tasks are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import EIGHT_BITS, dtype_of, layer_grid
from rk3588_conformance.tolerance import SHARES

_ROWS = (5, 6)
_LEVELS = 255


def _shape(*, rank: int, classes: int, **_: Value) -> tuple[int, ...]:
    height, width = _ROWS
    shapes = (height * width,), _ROWS, (2, height, width)
    return *shapes[rank - 2], classes


def _rows(*, rank: int, classes: int, type: str, **_: Value) -> Sequence[npt.NDArray[np.generic]]:
    """Return rows of all kinds in turn, by how far their values are below the largest."""
    shape, dtype = _shape(rank=rank, classes=classes), dtype_of(type)
    rng = np.random.default_rng([rank, classes])
    count = int(np.prod(shape[:-1]))
    distances = rng.integers(0, _LEVELS + 1, (count, classes))
    near = np.minimum(rng.geometric(0.03, (count, classes)), _LEVELS)
    distances[1::5] = near[1::5]
    distances[2::5] = rng.integers(0, _LEVELS + 1, (count, 1))[2::5]
    distances[3::5] = _LEVELS
    distances[3::5, -1] = 0
    # One class, and others that nearly vanish: where errors of the sum count.
    distances[4::5] = rng.integers(0, _LEVELS + 1, (count, 1))[4::5]
    distances[4::5, classes // 2] = 0
    values = LIMITS[dtype][1] - distances
    return [values.astype(dtype.element.dtype).reshape(shape)]


def _of_range(rng: np.random.Generator, dtype: DType, *, nats: str, beta: str, **_: Value) -> (
    Quantization
):  # fmt: skip
    scale = float(nats.replace("_", ".")) / (_LEVELS * float(beta.replace("_", ".")))
    low, high = LIMITS[dtype]
    return one_scale(scale, int(rng.integers(low, high + 1)))


@layer_grid(
    "Softmax.Op/",
    differing=SHARES,
    input_shape=_shape,
    input_values=_rows,
    input_quantization=_of_range,
    classes=(1, 2, 3, 16, 17, 37, 64, 100, 197, 400, 511),
    nats=("0_2", "1", "3_4", "9", "40", "300"),
    beta=("1", "0_125"),
    rank=(2, 3, 4),
    type=EIGHT_BITS,
)
def _softmax(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, beta: str, type: str, **__: Value
) -> int:
    """``nats``: between the exponents of the least value and the largest."""
    result = Quantization((1 / 256,), (LIMITS[dtype_of(type)][0],))
    return function(
        builder, "SOFTMAX", (x,), result, options.softmax(float(beta.replace("_", ".")))
    )


FAMILIES: tuple[Family, ...] = (_softmax,)
