"""float32 to and from fp16 on the host: to nearest even, the same bytes whatever does it."""

import numpy as np
import pytest

from tests.loops import for_each

_native = pytest.importorskip("delegate._native", reason="the native module is not built")

MOST = np.float32(65504)


def to_half(values: np.ndarray, portable: bool) -> np.ndarray:
    return _native.to_half(values.astype("<f4").view(np.uint8), portable).view(np.uint16)


def expected(values: np.ndarray) -> np.ndarray:
    """NumPy's rounding, but for finite numbers beyond the range."""
    limited = np.where(np.isfinite(values), np.clip(values, -MOST, MOST), values)
    return limited.astype(np.float16)


def odd_values() -> np.ndarray:
    """Every half, what lies between it and the next one, and their neighbours."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float32))
    middles = (finite[:-1] + finite[1:]) / 2  # exact: one more bit
    beside = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    ends = np.array([np.inf, -np.inf, 65519, 65520, 7e4, -3.4e38, 1e-45, -1e-45, 1e-38, 2**-25])
    return np.concatenate([finite, middles, *beside, ends.astype(np.float32)])


@pytest.mark.parametrize("portable", [False, True])
def test_rounds_to_nearest_even_and_saturates(portable):
    values = odd_values()
    found = to_half(values, portable)
    np.testing.assert_array_equal(found, expected(values).view(np.uint16))


@pytest.mark.parametrize("portable", [False, True])
def test_nan_stays_nan(portable):
    bits = np.arange(0x7F800001, 0x80000000, 4099, dtype=np.uint32)
    values = np.concatenate([bits, bits | 0x80000000]).view(np.float32)
    found = to_half(values, portable).view(np.float16)
    assert np.isnan(found).all()
    np.testing.assert_array_equal(np.signbit(found), np.signbit(values))


@pytest.mark.parametrize("portable", [False, True])
def test_every_half_comes_back(portable):
    halves = np.arange(1 << 16, dtype=np.uint16)
    found = _native.from_half(halves.view(np.uint8), portable).view(np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, halves.view(np.float16).astype(np.float32))
    numbers = ~np.isnan(found)
    np.testing.assert_array_equal(to_half(found, portable)[numbers], halves[numbers])


@for_each("count", [0, 1, 7, 8, 9, 31, 64, 71, 129])
def test_both_ways_of_it_give_the_same_bytes(count):
    rng = np.random.default_rng(count)
    for most in (0x47000000, 1 << 32) * 100:  # all below 32768; any bits
        values = rng.integers(0, most, count, dtype=np.uint32).view(np.float32)
        fast, slow = to_half(values, False), to_half(values, True)
        np.testing.assert_array_equal(fast, slow)
        back = [_native.from_half(fast.view(np.uint8), portable) for portable in (False, True)]
        np.testing.assert_array_equal(*back)
