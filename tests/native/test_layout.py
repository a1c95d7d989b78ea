"""Layout conversion against NumPy: any channel count, both signs, strides with gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from delegate import _native

UNTOUCHED = 0xAA


def surfaces_by_numpy(host: np.ndarray, stride: int, is_uint8: bool, fill: int) -> np.ndarray:
    pixels, channels = host.shape
    count = -(-channels // 16)
    lanes = np.full((pixels, count * 16), fill, np.int8)
    lanes[:, :channels] = (host.astype(np.int16) - (128 if is_uint8 else 0)).astype(np.int8)
    device = np.full((count, stride), UNTOUCHED, np.uint8)
    planes = lanes.reshape(pixels, count, 16).transpose(1, 0, 2).reshape(count, pixels * 16)
    device[:, : pixels * 16] = planes.view(np.uint8)
    return device.reshape(-1)


@settings(max_examples=150, deadline=None)
@given(
    height=st.integers(1, 13), width=st.integers(1, 17), channels=st.integers(1, 70),
    gap=st.integers(0, 3), is_uint8=st.booleans(), fill=st.integers(-128, 127),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_both_directions_equal_numpy(height, width, channels, gap, is_uint8, fill, seed):
    pixels, stride = height * width, (height * width + gap) * 16
    host = np.random.default_rng(seed).integers(0, 256, (pixels, channels), np.uint8)
    values = host if is_uint8 else host.view(np.int8)
    expected = surfaces_by_numpy(values, stride, is_uint8, fill)
    device = _native.to_nc1hwc2(host, stride, is_uint8, fill)
    np.testing.assert_array_equal(device, expected)
    np.testing.assert_array_equal(
        _native.from_nc1hwc2(device, pixels, channels, stride, is_uint8), host
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 1001])
@pytest.mark.parametrize("pixels", [1, 2, 31, 32, 33, 67])
def test_block_and_atom_edges(pixels, channels):
    host = np.random.default_rng(channels).integers(0, 256, (pixels, channels), np.uint8)
    device = _native.to_nc1hwc2(host, pixels * 16, True, -7)
    np.testing.assert_array_equal(device, surfaces_by_numpy(host, pixels * 16, True, -7))
    back = _native.from_nc1hwc2(device, pixels, channels, pixels * 16, True)
    np.testing.assert_array_equal(back, host)


def test_uint8_extremes_map_to_int8_extremes():
    host = np.array([[0, 127, 128, 255]], np.uint8)
    device = _native.to_nc1hwc2(host, 16, True, 9)
    assert device.view(np.int8).tolist() == [-128, -1, 0, 127] + [9] * 12


@settings(max_examples=200, deadline=None)
@given(
    size=st.tuples(st.integers(1, 13), st.integers(1, 41), st.integers(1, 7)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    step=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    lead=st.tuples(st.integers(0, 3), st.integers(0, 5)),
    device=st.tuples(st.integers(1, 9), st.integers(1, 45)),
    is_uint8=st.booleans(), fill=st.integers(-128, 127), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_folding_equals_numpy(size, window, step, lead, device, is_uint8, fill, seed):
    h, w, c = size
    lanes = window[0] * window[1] * c
    assume(lanes <= 64)
    host = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    signed = (host.astype(np.int16) - 128).astype(np.int8) if is_uint8 else host.view(np.int8)
    expected = np.full((*device, -(-lanes // 16) * 16), fill, np.int8)
    for y, x in np.ndindex(*device):
        for dy, dx in np.ndindex(*window):
            hy, hx = y * step[0] + dy - lead[0], x * step[1] + dx - lead[1]
            if 0 <= hy < h and 0 <= hx < w:
                lane = (dy * window[1] + dx) * c
                expected[y, x, lane : lane + c] = signed[hy, hx]
    pixels = device[0] * device[1]
    planes = expected.reshape(pixels, -1, 16).transpose(1, 0, 2)
    folded = _native.to_folded_nc1hwc2(host, (*window, *step, *lead), *device, is_uint8, fill)
    np.testing.assert_array_equal(folded, planes.reshape(-1).view(np.uint8))
