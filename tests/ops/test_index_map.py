"""Index maps against NumPy: what operators, chains of them, windows, inverses and layouts move."""

import contextlib
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from delegate.model.index_map import FAR, MOST_PIECES, IndexMap, MapError, coordinates, identity
from delegate.ops.concatenation import joined
from delegate.ops.shared import maps
from tests.index_maps import NOWHERE, Values, numbers

SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 21, 32, 33)
MOST = 20000

Made = tuple[IndexMap, Values]


def sizes_of(rng: random.Random, most: int = 3000) -> list[int]:
    while True:
        shape = [rng.choice(SIZES) for _ in range(4)]
        if math.prod(shape) <= most:
            return shape


def transpose(rng: random.Random, values: Values) -> Made:
    axes = rng.sample(range(values.ndim), values.ndim)
    return maps.transposed(values.shape, axes), values.transpose(axes)


def reshape(rng: random.Random, values: Values) -> Made:
    size, shape = values.size, []
    for _ in range(3):
        shape.append(rng.choice([n for n in range(1, size + 1) if size % n == 0]))
        size //= shape[-1]
    shape.append(size)
    rng.shuffle(shape)
    return identity(values.shape), values.reshape(shape)


def window(rng: random.Random, values: Values) -> Made:
    begin, sizes, steps = [], [], []
    for size in values.shape:
        step = rng.choice((1, 1, 1, 2, 3, -1, -2))
        first = rng.randrange(size)
        room = (size - 1 - first) // step if step > 0 else first // -step
        begin.append(first), sizes.append(rng.randint(1, room + 1)), steps.append(step)
    index = [[b + k * s for k in range(n)] for b, n, s in zip(begin, sizes, steps, strict=True)]
    return maps.window(values.shape, begin, sizes, steps), values[np.ix_(*index)]


def repeat(rng: random.Random, values: Values) -> Made:
    factors = [rng.choice((1, 1, 2, 3)) for _ in values.shape]
    made = values
    for axis, factor in enumerate(factors):
        made = made.repeat(factor, axis)
    return maps.repeated(values.shape, factors), made


def border(rng: random.Random, values: Values) -> Made:
    sides = [(rng.choice((0, 0, 1, 2, 5)), rng.choice((0, 0, 1, 3))) for _ in values.shape]
    return maps.bordered(values.shape, sides, -7), np.pad(values, sides, constant_values=-7)


def mirror(rng: random.Random, values: Values) -> Made:
    edge = rng.randrange(2)
    most = [size - edge for size in values.shape]
    sides = [(rng.randint(0, min(m, 2)), rng.randint(0, min(m, 3))) for m in most]
    mode = "reflect" if edge else "symmetric"
    return maps.mirrored(values.shape, sides, edge), np.pad(values, sides, mode=mode)


def exchange(rng: random.Random, values: Values) -> Made:
    """Both halves of a dimension, joined the other way round."""
    axis = rng.randrange(values.ndim)
    cut = rng.randint(0, values.shape[axis] - 1)
    begins, shapes = [[0] * 4, [0] * 4], [[*values.shape], [*values.shape]]
    begins[0][axis], shapes[0][axis], shapes[1][axis] = cut, values.shape[axis] - cut, cut
    used = range(2 if cut else 1)
    parts = [maps.window(values.shape, begins[k], shapes[k]) for k in used]
    whole = joined([shapes[k] for k in used], axis)
    return whole.compose(*parts), np.roll(values, -cut, axis)


def blocks(rng: random.Random, values: Values) -> Made:
    """SPACE_TO_DEPTH of the least whole part."""
    n, h, w, c = values.shape
    y, x = (rng.choice([k for k in (1, 2, 3, 4) if size % k == 0]) for size in (h, w))
    shape = (n, h // y, y, w // x, x, c)
    made = values.reshape(shape).transpose(0, 1, 3, 2, 4, 5)
    return maps.transposed(shape, (0, 1, 3, 2, 4, 5)), made.reshape(n, h // y, w // x, -1)


STEPS: tuple[Callable[[random.Random, Values], Made], ...] = (
    *(transpose, reshape, window, repeat, border, mirror, exchange, blocks),
)


def random_steps(rng: random.Random, count: int) -> tuple[list[int], list[Made]]:
    """Return a shape and what each of some operators makes of the one before it."""
    shape = sizes_of(rng)
    values = np.arange(math.prod(shape)).reshape(shape)
    made: list[Made] = []
    while len(made) < count:
        found, after = rng.choice(STEPS)(rng, values)
        if after.size <= MOST:
            made.append((found, after))
            values = after
    return shape, made


def chain(rng: random.Random, count: int) -> tuple[list[int], IndexMap, Values]:
    """Return a shape, and what operators make of it; few chains' maps are refused."""
    for _ in range(3):
        shape, steps = random_steps(rng, count)
        found = identity(shape)
        with contextlib.suppress(MapError):
            for step, _ in steps:
                found = step.compose(found)
            return shape, found, steps[-1][1]
    raise AssertionError("three chains in a row are refused")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_chains_are_what_numpy_makes(seed: int, count: int) -> None:
    rng = random.Random(seed * 10 + count)
    for _ in range(10):
        _, found, values = chain(rng, count)
        np.testing.assert_array_equal(numbers(found), values.ravel())
        assert found.is_whole


@pytest.mark.parametrize("seed", range(5))
def test_inverses_exist_where_no_element_goes_to_two_places(seed: int) -> None:
    rng = random.Random(seed)
    inverted = 0
    for _ in range(30):
        shape, found, values = chain(rng, rng.randint(1, 3))
        size, given = math.prod(shape), values.ravel()
        at = np.flatnonzero(given >= 0)
        back = found.invert(0, size)
        if back is None:
            assert len(np.unique(given[at])) < len(at)
            continue
        inverted += 1
        expected = np.full(size, NOWHERE)
        expected[given[at]] = at
        np.testing.assert_array_equal(numbers(back), expected)
        if back.is_whole:
            assert back.compose(found).shift() == 0
    assert inverted > 5


def test_coordinates_of_distances_have_signs() -> None:
    assert coordinates(-3 * FAR + 5, 3) == (0, -3, 5)
    assert coordinates(FAR**2 - 7, 3) == (1, 0, -7)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_bytes_of_wide_elements(size: int) -> None:
    rng = random.Random(size)
    for _ in range(30):
        values = np.arange(math.prod(shape := sizes_of(rng))).reshape(shape)
        found, made = transpose(rng, values)
        expected = np.add.outer(made.ravel() * size, np.arange(size)).ravel()
        np.testing.assert_array_equal(numbers(found.in_bytes(size)), expected)


@pytest.mark.parametrize(
    ("begin", "sizes", "steps"),
    [((0, 3), (1, 3), None), ((-1, 0), (1, 1), None), ((0, 0), (1, 3), (1, 3)), ((0,), (1,), None)],
)
def test_a_window_outside_is_refused(
    begin: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...] | None
) -> None:
    with pytest.raises(MapError):
        maps.window((2, 5), begin, sizes, steps)


def test_parts_at_different_distances_have_no_shift() -> None:
    both = joined([(1, 4), (1, 4)], 1)
    assert (both.shift(0), both.shift(1)) == (0, -4)
    assert maps.transposed((2, 3), (1, 0)).shift() is None
    back = joined([(4,), (4,)], 0).compose(
        maps.window((8,), (4,), (4,)), maps.window((8,), (0,), (4,))
    )
    assert back.shift() is None


def test_too_many_pieces_are_an_error() -> None:
    crumbs = joined([(1,)] * (MOST_PIECES + 1), 0)
    with pytest.raises(MapError, match="pieces"):
        identity((crumbs.size,)).compose(crumbs)


def test_a_window_of_channels_stays_one_piece() -> None:
    """The window is one piece whatever is around it: readers of memory look at single pieces."""
    shape = (1, 3, 6, 36)
    inner = maps.window(shape, (0, 0, 0, 16), (1, 3, 6, 4)).invert(0, math.prod(shape))
    assert inner is not None
    (piece,) = inner.by_dimensions(shape).pieces
    assert [digit.size for digit in piece.digits] == [3, 6, 4]
    assert coordinates(piece.first_result, 4) == (0, 0, 0, 16)
