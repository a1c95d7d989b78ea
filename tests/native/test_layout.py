"""Layouts against NumPy: any channels, both signs, gaps, and no byte beside the tensor."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from delegate import _native
from delegate.chip.element import Element
from tests.guarded_memory import between_guards
from tests.loops import for_each

UNTOUCHED = 0xAA
MOVED = tuple(element for element in Element if element is not Element.FP32)
"""The elements that the device has as they are: it has numbers of float32 in fp16."""


def convert(
    hook: Callable[[np.ndarray, np.ndarray], None], source: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """Return what ``hook`` writes into bytes of ``shape``, wherever they and ``source`` lie."""
    made = []
    for at_end in (False, True):
        target = between_guards(np.full(shape, UNTOUCHED, np.uint8), at_end)
        hook(between_guards(source, at_end), target)
        made.append(target.copy())
    np.testing.assert_array_equal(*made)
    return made[0]


def signed(values: np.ndarray) -> np.ndarray:
    """The device's int8 of uint8; other types are the device's."""
    return (values ^ 0x80).view(np.int8) if values.dtype == np.uint8 else values


def surfaces_by_numpy(values: np.ndarray, stride: int, fill: int) -> np.ndarray:
    """[pixels, channels] of any type to surfaces of 16 bytes per pixel."""
    values = signed(values)
    pixels, channels = values.shape
    per_atom = 16 // values.itemsize
    count = -(-channels // per_atom)
    lanes = np.full((pixels, count * per_atom), fill, values.dtype)
    lanes[:, :channels] = values
    device = np.full((count, stride), UNTOUCHED, np.uint8)
    planes = np.ascontiguousarray(lanes.reshape(pixels, count, per_atom).transpose(1, 0, 2))
    device[:, : pixels * 16] = planes.view(np.uint8).reshape(count, pixels * 16)
    return device.reshape(-1)


def as_element(values: np.ndarray, element: Element) -> np.ndarray:
    """Bytes as the element's bits: what is moved must stay as it is, NaN included."""
    return values.view({1: element.dtype, 2: np.uint16, 4: np.uint32}[element.bytes])


def check_dense(host: np.ndarray, stride: int, element: Element, fill: int) -> None:
    values = as_element(host, element)
    expected = surfaces_by_numpy(values, stride, fill)
    box = _native.EdgeBox(element.name.lower(), values.size, (1, *values.shape), stride, fill)
    device = convert(box.to_device, host, expected.shape)
    np.testing.assert_array_equal(device, expected)
    back = convert(box.from_device, device, host.shape)
    np.testing.assert_array_equal(back, host)


@settings(max_examples=200, deadline=None)
@given(
    height=st.integers(1, 13), width=st.integers(1, 17), channels=st.integers(1, 70),
    gap=st.integers(0, 3), element=st.sampled_from(MOVED), fill=st.integers(-128, 127),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_both_directions_equal_numpy(height, width, channels, gap, element, fill, seed):
    pixels, stride = height * width, (height * width + gap) * 16
    shape = (pixels, channels * element.bytes)
    host = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    check_dense(host, stride, element, fill if element.bytes == 1 else 0)


@for_each("channels", [1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 1001])
@for_each("pixels", [1, 2, 31, 32, 33, 67])
def test_block_and_atom_edges(pixels, channels):
    host = np.random.default_rng(channels).integers(0, 256, (pixels, channels), np.uint8)
    check_dense(host, pixels * 16, Element.UINT8, -7)


def check_fold(
    host: np.ndarray,
    how: tuple[int, int, int, int, int, int],
    device: tuple[int, int],
    element: Element,
    fill: int,
) -> None:
    """Windows of a canvas of the fill, on which the image lies."""
    window_h, window_w, step_h, step_w, top, left = how
    values = signed(as_element(host, element))
    h, w, c = values.shape
    size = (top + h + device[0] * step_h + window_h, left + w + device[1] * step_w + window_w, c)
    canvas = np.full(size, fill, values.dtype)
    canvas[top : top + h, left : left + w] = values
    rows, columns = (np.arange(n) * step for n, step in zip(device, (step_h, step_w), strict=True))
    pixels = [canvas[rows[:, None] + dy, columns + dx] for dy, dx in np.ndindex(window_h, window_w)]
    folded = np.concatenate(pixels, -1).reshape(device[0] * device[1], -1)
    stride = device[0] * device[1] * 16
    expected = surfaces_by_numpy(folded, stride, fill)
    shape = *device, folded.shape[1]
    name = element.name.lower()
    box = _native.EdgeBox(name, values.size, shape, stride, fill, fold=(h, w, c, *how))
    found = convert(box.to_device, host, expected.shape)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=300, deadline=None)
@given(
    size=st.tuples(st.integers(1, 13), st.integers(1, 41), st.integers(1, 7)),
    window=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    step=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    lead=st.tuples(st.integers(0, 3), st.integers(0, 5)),
    device=st.tuples(st.integers(1, 9), st.integers(1, 45)),
    element=st.sampled_from(MOVED), fill=st.integers(-128, 127),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_folding_equals_numpy(size, window, step, lead, device, element, fill, seed):
    h, w, c = size
    assume(window[0] * window[1] * c * element.bytes <= 64)
    shape = (h, w, c * element.bytes)
    host = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    check_fold(host, (*window, *step, *lead), device, element, fill if element.bytes == 1 else 0)


@pytest.mark.parametrize("element", [Element.UINT8, Element.INT8, Element.FP16])
@pytest.mark.parametrize(
    ("size", "how", "device"),
    [
        pytest.param((224, 224, 3), (2, 2, 2, 2, 0, 0), (113, 113), id="MobileNet"),
        pytest.param((640, 640, 3), (2, 4, 2, 4, 2, 2), (322, 161), id="YOLOv5n"),
        pytest.param((224, 224, 3), (1, 5, 1, 4, 0, 1), (224, 56), id="YOLOv8n"),
    ],
)
def test_whole_images_are_folded(size, how, device, element):
    shape = (size[0], size[1], size[2] * element.bytes)
    host = np.random.default_rng(size[0]).integers(0, 256, shape, np.uint8)
    check_fold(host, how, device, element, -128 if element.bytes == 1 else 0)


def check_spread(
    size: tuple[int, int, int],
    strides: tuple[int, int, int],
    element: Element,
    may_share: bool,
    seed: int,
) -> None:
    """There and, unless elements share bytes, back: bytes that are no elements stay."""
    reach = 1 + sum((n - 1) * stride for n, stride in zip(size, strides, strict=True))
    host = np.random.default_rng(seed).integers(0, 256, reach, np.uint8)
    image = np.lib.stride_tricks.as_strided(host, size, strides)
    name, pixels = element.name.lower(), size[0] * size[1]
    values = image.reshape(pixels, size[2]).view(element.dtype)
    expected = surfaces_by_numpy(values, pixels * 16, 11)
    box = _native.EdgeBox(name, reach, size, pixels * 16, 11, spread=(0, 0, *strides))
    device = convert(box.to_device, host, expected.shape)
    np.testing.assert_array_equal(device, expected)
    if may_share:
        return
    kept = np.full(reach, UNTOUCHED, np.uint8)
    np.lib.stride_tricks.as_strided(kept, size, strides)[...] = image
    back = convert(box.from_device, device, host.shape)
    np.testing.assert_array_equal(back, kept)


@settings(max_examples=300, deadline=None)
@given(
    size=st.tuples(st.integers(1, 7), st.integers(1, 37), st.integers(1, 70)),
    order=st.permutations(range(3)),
    gaps=st.tuples(*[st.sampled_from((0, 0, 0, 1, 2, 7, 16))] * 3),
    element=st.sampled_from((Element.INT8, Element.UINT8)),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_spreading_equals_numpy(size, order, gaps, element, seed):
    """Rows, pixels and channels nested in any order on the host, with gaps."""
    strides, step = [0, 0, 0], 1
    for axis, gap in zip(order, gaps, strict=True):
        strides[axis] = step + gap
        step = strides[axis] * size[axis]
    check_spread(size, tuple(strides), element, False, seed)


@settings(max_examples=100, deadline=None)
@given(
    size=st.tuples(st.integers(1, 5), st.integers(1, 37), st.integers(1, 40)),
    strides=st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 20)),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_elements_that_share_bytes_are_read(size, strides, seed):
    check_spread(size, strides, Element.UINT8, True, seed)


@pytest.mark.parametrize(
    ("size", "strides"),
    [
        pytest.param((6400, 3, 81), (255, 85, 1), id="YOLOv5n"),
        pytest.param((28, 28, 80), (28, 1, 1029), id="YOLOv8n"),
        pytest.param((7, 7, 37), (7, 1, 1029), id="YOLOv8n, few pixels"),
        pytest.param((40, 40, 1), (3400, 85, 0), id="YOLOX, one channel"),
        pytest.param((1, 1, 24), (0, 0, 1), id="SSD, one pixel"),
    ],
)
def test_whole_outputs_are_spread(size, strides):
    check_spread(size, strides, Element.UINT8, False, 3)
