"""Dumps: memory, relocations, layouts and checks as any reader of the format finds them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.chip.element import Element
from delegate.errors import ProgramError, UsageError
from delegate.insight.capture import load_capture, save_capture
from delegate.insight.program_capture import capture_of_program
from delegate.lower.lowered import TensorBinding
from delegate.lower.task import BufferId, Ref
from delegate.npu.program import build_program
from delegate.npu.regcmd import unpack_word
from delegate.npu.tensor_layout import device_values, load, store
from tests.npu.sample_programs import chain_partition

SHAPE = (1, 8, 6, 16)


@pytest.fixture(scope="module")
def program():
    return build_program(chain_partition(), "rk3588-delegate 0.1.0")


@pytest.fixture(scope="module")
def tensors():
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, SHAPE).astype(np.int8)
    y = rng.integers(0, 256, SHAPE).astype(np.uint8)
    return x, y


@pytest.fixture(scope="module")
def capture(program, tensors):
    return capture_of_program(program, [tensors[0]], [tensors[1]], "partition_0")


def test_buffers_are_page_aligned_and_apart(capture, program):
    assert [buffer.name for buffer in capture.buffers] == [
        "regcmd",
        "constants",
        "scratch",
        "input",
        "output",
    ]
    assert capture.buffers[0].dma_address == 0x1000_0000
    end = 0
    for buffer, item in zip(capture.buffers, program.buffers, strict=True):
        assert buffer.dma_address % 4096 == 0
        assert buffer.dma_address > end
        assert buffer.size == item.size_bytes
        end = buffer.dma_address + buffer.size


def test_every_address_in_the_streams_lies_inside_a_buffer(capture):
    spans = [(b.dma_address, b.dma_address + b.size) for b in capture.buffers]
    words = capture.contents["regcmd"].view("<u8")
    addresses = 0
    for word in words:
        command = unpack_word(int(word))
        if command.register is None or not command.register.is_address or command.value == 0:
            continue
        assert any(start <= command.value < end for start, end in spans)
        addresses += 1
    # Two convolutions of 4, one addition of 3, two links.
    assert addresses == 13


def test_tasks_carry_their_layer_and_complete_streams(capture):
    (job,) = capture.jobs
    base = capture.buffers[0].dma_address
    assert [(t.regcmd - base, t.regcmd_count) for t in job.tasks] == [
        (0, 130),
        (0x440, 130),
        (0x880, 73),
    ]
    assert [t.layer for t in job.tasks] == ["0 CONV_2D", "0 CONV_2D", "1 ADD"]
    assert [t.op for t in job.tasks] == ["CONV_2D", "CONV_2D", "ADD"]
    assert [t.tile for t in job.tasks] == ["rows 0..4", "rows 5..7", ""]
    assert [t.enable_mask for t in job.tasks] == [0x1D, 0x1D, 0x18]
    assert capture.chained is False


def test_tensors_are_in_the_layout_of_the_format(capture, tensors):
    x, y = tensors
    (check,) = capture.checks
    assert (check.shape_nchw, check.surface_pixels, check.c2) == ((1, 16, 8, 6), 48, 16)
    assert (check.max_abs_diff, check.min_equal) == (0, 1.0)
    expected = capture.expected[check.expected]
    assert expected.dtype == np.int8
    assert expected[0, 3, 5, 2] == int(y[0, 5, 2, 3]) - 128
    stored = capture.contents["input"].view(np.int8)
    assert stored[(5 * 6 + 2) * 16 + 3] == x[0, 5, 2, 3]
    (item,) = capture.inputs
    assert item["tensor"] == 0
    assert item["shape"] == list(SHAPE)
    assert (item["dtype"], item["layout"], item["buffer"]) == ("int8", "NC1HWC2", "input")
    assert (item["offset"], item["c2"], item["surface_pixels"]) == (0, 16, 48)


def test_a_saved_dump_loads_again(capture, tmp_path):
    path = tmp_path / "partition_0.npz"
    save_capture(capture, path)
    loaded = load_capture(path)
    assert loaded.manifest() == capture.manifest()
    for name, content in capture.contents.items():
        assert np.array_equal(loaded.contents[name], content)


def test_wrong_tensors_are_refused(program, tensors):
    x, y = tensors
    with pytest.raises(UsageError, match="1 inputs and 1 outputs; 2 and 1"):
        capture_of_program(program, [x, x], [y], "n")
    with pytest.raises(UsageError, match="uint8 of shape"):
        capture_of_program(program, [x], [x], "n")
    with pytest.raises(UsageError, match="int8 of shape"):
        capture_of_program(program, [x[:, :4]], [y], "n")


def test_addresses_beyond_4_gib_are_refused(program):
    addresses = dict.fromkeys(BufferId, 0xFFFF_FFF0)
    with pytest.raises(ProgramError, match="beyond the NPU's 4 GiB"):
        program.relocated(addresses)


@given(
    images=st.integers(1, 3),
    h=st.integers(1, 5),
    w=st.integers(1, 7),
    c=st.integers(1, 40),
    extra=st.integers(0, 2),
    gap=st.integers(0, 3),
    element=st.sampled_from([Element.UINT8, Element.INT8]),
    seed=st.integers(0, 1000),
)
def test_store_and_load_are_inverse_and_follow_the_formula(
    images, h, w, c, extra, gap, element, seed
):
    surfaces = -(-c // 16) + extra
    stride = (h * w + gap) * 16
    binding = TensorBinding(
        tensor=1,
        name="t",
        shape=(images, h, w, c),
        element=element,
        images=images,
        height=h,
        width=w,
        channels=c,
        surfaces=surfaces,
        surface_stride_bytes=stride,
        image_stride_bytes=surfaces * stride + 32,
        location=Ref(BufferId.INPUT, 48),
        fill=-9,
    )
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, binding.shape).astype(np.uint8)
    if element is Element.INT8:
        values = values.view(np.int8)
    memory = np.full(48 + images * binding.image_stride_bytes + 16, 0x5A, np.uint8)
    converted = device_values(binding, values)
    store(binding, converted, memory)
    assert np.array_equal(load(binding, memory), converted)
    n, y, x, k = (int(rng.integers(size)) for size in (images, h, w, surfaces * 16))
    place = 48 + n * binding.image_stride_bytes + (k // 16) * stride + (y * w + x) * 16 + k % 16
    expected = int(values[n, y, x, k]) - element.offset if k < c else -9
    assert memory.view(np.int8)[place] == expected
    untouched = 48 + images * binding.image_stride_bytes
    assert np.all(memory[:48] == 0x5A)
    assert np.all(memory[untouched:] == 0x5A)
