"""Layout conversion against NumPy: any channel count, both signs, strides with gaps."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from delegate import _native
from delegate.chip.element import Element
from tests.loops import for_each

UNTOUCHED = 0xAA


def surfaces_by_numpy(values: np.ndarray, stride: int, fill: int) -> np.ndarray:
    """[pixels, channels] of any type to surfaces of 16 bytes per pixel."""
    if values.dtype == np.uint8:
        values = (values.astype(np.int16) - 128).astype(np.int8)
    pixels, channels = values.shape
    per_atom = 16 // values.itemsize
    count = -(-channels // per_atom)
    lanes = np.full((pixels, count * per_atom), fill, values.dtype)
    lanes[:, :channels] = values
    device = np.full((count, stride), UNTOUCHED, np.uint8)
    planes = np.ascontiguousarray(lanes.reshape(pixels, count, per_atom).transpose(1, 0, 2))
    device[:, : pixels * 16] = planes.view(np.uint8).reshape(count, pixels * 16)
    return device.reshape(-1)


@settings(max_examples=200, deadline=None)
@given(
    height=st.integers(1, 13), width=st.integers(1, 17), channels=st.integers(1, 70),
    gap=st.integers(0, 3), element=st.sampled_from(Element), fill=st.integers(-128, 127),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_both_directions_equal_numpy(height, width, channels, gap, element, fill, seed):
    pixels, stride = height * width, (height * width + gap) * 16
    fill = fill if element.bytes == 1 else 0
    # Any bits: what is moved must stay as it is, NaN included.
    shape = (pixels, channels * element.bytes)
    host = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    as_bits = {1: element.dtype, 2: np.uint16, 4: np.uint32}[element.bytes]
    expected = surfaces_by_numpy(host.view(as_bits), stride, fill)
    name = element.name.lower()
    device = _native.to_nc1hwc2(host, stride, name, fill)
    np.testing.assert_array_equal(device, expected)
    back = _native.from_nc1hwc2(device, pixels, channels, stride, name)
    np.testing.assert_array_equal(back, host)


@for_each("channels", [1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 1001])
@for_each("pixels", [1, 2, 31, 32, 33, 67])
def test_block_and_atom_edges(pixels, channels):
    host = np.random.default_rng(channels).integers(0, 256, (pixels, channels), np.uint8)
    device = _native.to_nc1hwc2(host, pixels * 16, "uint8", -7)
    np.testing.assert_array_equal(device, surfaces_by_numpy(host, pixels * 16, -7))
    back = _native.from_nc1hwc2(device, pixels, channels, pixels * 16, "uint8")
    np.testing.assert_array_equal(back, host)


def test_uint8_extremes_map_to_int8_extremes():
    host = np.array([[0, 127, 128, 255]], np.uint8)
    device = _native.to_nc1hwc2(host, 16, "uint8", 9)
    assert device.view(np.int8).tolist() == [-128, -1, 0, 127] + [9] * 12


@settings(max_examples=200, deadline=None)
@given(
    size=st.tuples(st.integers(1, 13), st.integers(1, 41), st.integers(1, 7)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    step=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    lead=st.tuples(st.integers(0, 3), st.integers(0, 5)),
    device=st.tuples(st.integers(1, 9), st.integers(1, 45)),
    element=st.sampled_from(Element), fill=st.integers(-128, 127),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_folding_equals_numpy(size, window, step, lead, device, element, fill, seed):
    h, w, c = size
    lanes = window[0] * window[1] * c
    assume(lanes * element.bytes <= 64)
    fill = fill if element.bytes == 1 else 0
    shape = (h, w, c * element.bytes)
    host = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    signed = host.view({1: np.int8, 2: np.uint16, 4: np.uint32}[element.bytes])
    if element is Element.UINT8:
        signed = (host.astype(np.int16) - 128).astype(np.int8)
    expected = np.full((*device, -(-lanes // element.lanes) * element.lanes), fill, signed.dtype)
    for y, x in np.ndindex(*device):
        for dy, dx in np.ndindex(*window):
            hy, hx = y * step[0] + dy - lead[0], x * step[1] + dx - lead[1]
            if 0 <= hy < h and 0 <= hx < w:
                lane = (dy * window[1] + dx) * c
                expected[y, x, lane : lane + c] = signed[hy, hx]
    pixels = device[0] * device[1]
    planes = expected.reshape(pixels, -1, element.lanes).transpose(1, 0, 2)
    how = (*window, *step, *lead)
    folded = _native.to_folded_nc1hwc2(host, how, *device, element.name.lower(), fill)
    np.testing.assert_array_equal(folded, planes.reshape(-1).view(np.uint8))
