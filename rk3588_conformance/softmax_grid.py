"""SOFTMAX: shares of rows whose values are anything, near one another, the same, or but one.

Every result is within a step; how many are equal depends on how many tasks are worth it.
"""

from __future__ import annotations

import numpy as np

from delegate.model.graph import Quantization
from rk3588_conformance.builder import options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.grid import Arrays, Values, layer_grid, number
from rk3588_conformance.net import Net
from rk3588_conformance.tolerance import SHARES

_ROWS = (5, 6)
_LEVELS = 255


def _shape(v: Values) -> tuple[int, ...]:
    height, width = _ROWS
    shapes = (height * width,), _ROWS, (2, height, width)
    return *shapes[v.rank - 2], v.classes


def _rows(v: Values) -> Arrays:
    """Return rows of all kinds in turn, by how far their values are below the largest."""
    shape, classes = _shape(v), v.classes
    rng = np.random.default_rng([v.rank, classes])
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
    values = LIMITS[v.dtype][1] - distances
    return [values.astype(v.dtype.element.dtype).reshape(shape)]


def _scaled(rng: np.random.Generator, v: Values) -> Quantization:
    low, high = LIMITS[v.dtype]
    scale = number(v.nats) / (_LEVELS * number(v.beta))
    return one_scale(scale, int(rng.integers(low, high + 1)))


@layer_grid(
    "Softmax.Op/",
    differing=SHARES,
    input_shape=_shape,
    input_values=_rows,
    input_quantization=_scaled,
    classes=(1, 2, 3, 16, 17, 37, 64, 100, 197, 400, 511),
    nats=("0_2", "1", "3_4", "9", "40", "300"),
    beta=("1", "0_125"),
    rank=(2, 3, 4),
)
def _softmax(net: Net, v: Values) -> int:
    """``nats``: between the exponents of the least value and the largest."""
    result = Quantization((1 / 256,), (LIMITS[v.dtype][0],))
    return function(net, "SOFTMAX", (net.x,), result, options.softmax(number(v.beta)))
