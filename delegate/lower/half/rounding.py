"""Weights of float32 as fp16: those of a kernel are rounded together, so that their errors cancel.

A sum of products is off by ``sum(e * x)``, with e what each weight is off by and x the number that
it meets. If those have mean m, deviation s, and any two of them correlation r, its mean square is

    (m^2 + r s^2) * sum(e)^2 + (1 - r) s^2 * sum(e^2)

Rounding each weight to the nearest fp16 makes the second part as small as it can be, and leaves
the first one, which is the same in every pixel, to chance. Here every weight becomes one of the two
fp16 beside it, those near the middle perhaps the further one, so that both parts together are
small.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.lower.weights import HalfArray

Real = npt.NDArray[np.float64]

_COMMON: Final = 16.0
"""The weight of the first part against the second: (m^2 + r s^2) / ((1 - r) s^2). Behind RELU m is
about s, and r of neighbouring pixels 0.8 to 0.95, which gives 9 to 39.
"""

_SEARCHED: Final = 9
"""Weights of a kernel of which all choices are looked at: a depthwise 3 x 3, where few choices are
all that there are.
"""

_FEW: Final = 64
"""Weights of a kernel up to which that is worth it: among more the first few choices leave little.
"""

_LARGEST: Final = float(np.finfo(np.float16).max)
"""Behind which there is none to choose."""

_BLOCK: Final = 1 << 17
"""Numbers in work at a time: weights, or choices."""


def shares(count: int) -> HalfArray:
    """Return weights of a mean of ``count`` numbers: the two fp16 around one over their number, as
    many of each as make 1 together, so that what all numbers have in common comes out as it is.
    """
    exact = 1 / count
    low = np.float16(exact)
    if low > exact:
        low = np.nextafter(low, np.float16(0))
    step = float(np.spacing(low))
    larger = round((1 - count * float(low)) / step)
    return (low + step * (np.arange(count) < larger)).astype(np.float16)


def rounded_weights(
    weights: npt.NDArray[Any], *, is_depthwise: bool = False, spread: tuple[int, int] = (1, 1)
) -> HalfArray:
    """Round ``weights``, float32 or float16, OHWI or HWC. ``spread``: rows and columns that a pixel
    of the source takes, so that every so many taps meet pixels together.
    """
    result = weights.astype(np.float16)
    if weights.dtype == np.float16:
        return result
    for rows, columns in product(range(spread[0]), range(spread[1])):
        taps = (slice(rows, None, spread[0]), slice(columns, None, spread[1]))
        place = taps if is_depthwise else (slice(None), *taps)
        some = weights[place]
        if some.size == 0:
            continue
        last_first = np.moveaxis(some, -1, 0) if is_depthwise else some
        kernels = last_first.reshape(len(last_first), -1)
        found = np.concatenate([_rounded(block) for block in _blocks(kernels)])
        found = found.reshape(last_first.shape)
        result[place] = np.moveaxis(found, 0, -1) if is_depthwise else found
    return result


def _blocks(kernels: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    size = max(1, _BLOCK // max(kernels.shape[1], 1 << _SEARCHED))
    for first in range(0, len(kernels), size):
        yield kernels[first : first + size]


def _rounded(kernels: npt.NDArray[Any]) -> HalfArray:
    """Round the weights of kernels: [kernels, weights]."""
    exact = kernels.astype(np.float64)
    chosen = kernels.astype(np.float16)
    if (chosen == exact).all():
        return chosen
    nearest = chosen.astype(np.float64)
    beyond = np.sign(exact - nearest)  # where it is 0, there is no other one
    towards = np.where(beyond == 0, chosen, np.copysign(_LARGEST, beyond)).astype(np.float16)
    other = np.nextafter(chosen, towards)
    for choose in (_swept, _searched) if exact.shape[1] <= _FEW else (_swept,):
        error, step = chosen - exact, other.astype(np.float64) - chosen
        flipped = choose(error, step, step * (step + 2 * error))
        chosen, other = np.where(flipped, other, chosen), np.where(flipped, chosen, other)
    return chosen


def _totals(values: Real) -> Real:
    """Return the total of each row, summed in the same order on every machine."""
    return values.cumsum(axis=1)[:, -1:]


def _in_order(error: Real, step: Real, usable: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Order weights by what a step adds to the sum of squares per unit of its size."""
    price = np.where(usable, np.abs(step) - 2 * np.abs(error), np.inf)
    return np.argsort(price, axis=1, kind="stable")


def _swept(error: Real, step: Real, cost: Real) -> npt.NDArray[np.bool_]:
    """Return which weights take ``step``, at ``cost`` of the sum of squares: the first so many in
    order of those that bring the sum nearer to 0.
    """
    total = _totals(error)
    usable = step * total < 0
    order = _in_order(error, step, usable)
    steps, costs = (np.take_along_axis(np.where(usable, x, 0.0), order, 1) for x in (step, cost))
    nothing = np.zeros_like(total)
    left = total + np.concatenate([nothing, steps.cumsum(axis=1)], axis=1)
    paid = np.concatenate([nothing, costs.cumsum(axis=1)], axis=1)
    count = (_COMMON * left**2 + paid).argmin(axis=1)
    found = np.zeros_like(usable)
    np.put_along_axis(found, order, np.arange(error.shape[1]) < count[:, np.newaxis], 1)
    return np.asarray(found & usable)


def _searched(error: Real, step: Real, cost: Real) -> npt.NDArray[np.bool_]:
    """Return which weights take ``step``: the best of all choices among the first few."""
    order = _in_order(error, step, step != 0)[:, :_SEARCHED]
    left, paid = _totals(error), np.zeros((len(error), 1))
    for place in order.T[:, :, np.newaxis]:
        left, paid = (
            np.concatenate([sums, sums + np.take_along_axis(more, place, 1)], axis=1)
            for sums, more in ((left, step), (paid, cost))
        )
    choice = (_COMMON * left**2 + paid).argmin(axis=1)
    found = np.zeros(error.shape, np.bool_)
    picked = choice[:, np.newaxis] >> np.arange(order.shape[1]) & 1
    np.put_along_axis(found, order, picked == 1, 1)
    return np.asarray(found & (step != 0))
