"""Tensors in memory that others share: the runtime's SetBufferHandle, with the descriptor of a
sealed memfd, which the simulator takes as a driver takes a dma-buf.
"""

import mmap
import os
from typing import Any

import numpy as np
import pytest

import delegate
import rk3588_conformance.builder.layers as layers
from delegate.errors import DelegateError, UsageError
from delegate.model.graph import DType
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.ranges import random_quantization
from rk3588_conformance.builder.single_op import conv_model, fully_connected_model
from tests.shared_tensors import Host, Shared, take_turns, taken_in_place


def conv(ic: int, oc: int, kernel: int = 3, **more: Any) -> bytes:
    return conv_model(np.random.default_rng(ic * 100 + oc), 7, 5, ic, oc, kernel, kernel, **more)


# How many of both tensors the device has in the host's layout: pixels of an atom of signed bytes,
# or one pixel whose atoms follow each other; an operand's atoms have to be whole.
CASES = {
    "both": (lambda: conv(16, 16), 2),
    "output": (lambda: conv(5, 16), 1),
    "input": (lambda: conv(16, 37, 1), 1),
    "two surfaces": (lambda: conv(32, 32), 0),
    "part of an atom": (lambda: conv(8, 8), 0),
    "unsigned": (lambda: conv(16, 16, dtype=DType.UINT8), 0),
    "images": (lambda: conv(16, 16, batch=3), 0),
    "vectors": (lambda: fully_connected_model(np.random.default_rng(1), (1, 48), 64), 2),
    "part of a vector": (lambda: fully_connected_model(np.random.default_rng(2), (1, 37), 37), 1),
}


@pytest.fixture
def load(runtime):
    def load(model: bytes, **options: str) -> Host:
        try:
            return Host(runtime, model, numerics="exact", **options)
        except DelegateError as error:
            pytest.skip(str(error))

    return load


@pytest.mark.parametrize("name", CASES)
def test_values_come_from_and_go_to_shared_memory(load, name):
    make, in_place = CASES[name]
    assert take_turns(load(make()), 7) == 7 * in_place


def test_a_handle_that_is_taken_away_leaves_the_tensors_own_memory(load):
    host = load(conv(16, 16))
    source, target = Shared(mmap.PAGESIZE), Shared(mmap.PAGESIZE)
    host.give(host.input, source)
    host.give(host.output, target)
    host.made.invoke()
    host.give(host.input, None)
    host.give(host.output, None)
    held = target.tensor(host.output).copy()
    values = host.draw(1)
    host.made.set_tensor(host.input["index"], values)
    host.made.invoke()
    np.testing.assert_array_equal(host.result(), host.expected(values))
    np.testing.assert_array_equal(target.tensor(host.output), held)


@pytest.mark.parametrize("verify", ["sim", "sample"])
def test_results_that_are_compared_are_converted(load, verify):
    host = load(conv(16, 16), verify=verify)
    source, target = Shared(mmap.PAGESIZE), Shared(mmap.PAGESIZE)
    host.give(host.input, source)
    host.give(host.output, target)
    before = taken_in_place()
    values = host.draw(4)
    source.tensor(host.input)[:] = values
    host.made.invoke()
    np.testing.assert_array_equal(target.tensor(host.output), host.expected(values))
    assert taken_in_place() == before


def test_one_memory_for_both_sides_is_no_output_in_place(load):
    """A convolution that wrote over what it still reads would be wrong."""
    host = load(conv(16, 16))
    both = Shared(mmap.PAGESIZE)
    values = host.draw(5)
    both.tensor(host.input)[:] = values
    host.give(host.input, both)
    host.give(host.output, both)
    host.made.invoke()
    np.testing.assert_array_equal(both.tensor(host.output), host.expected(values))


def read_only(shared: Shared) -> int:
    return os.open(f"/proc/self/fd/{shared.fd}", os.O_RDONLY)


def test_memory_to_read_is_enough_for_an_input(load):
    host = load(conv(16, 16))
    source = Shared(mmap.PAGESIZE)
    values = host.draw(6)
    source.tensor(host.input)[:] = values
    source.fd = read_only(source)
    host.give(host.input, source)
    host.made.invoke()
    np.testing.assert_array_equal(host.result(), host.expected(values))


def not_sealed(size: int) -> int:
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, size)
    return descriptor


def bad_memory(kind: str) -> tuple[Shared, str]:
    shared = Shared(mmap.PAGESIZE)
    if kind == "closed":
        os.close(shared.fd)
        return shared, "is no open file"
    if kind == "pipe":
        shared.fd, _ = os.pipe()
        return shared, "neither a dma-buf nor a memfd"
    if kind == "file":
        shared.fd = os.open(__file__, os.O_RDONLY)
        return shared, "neither a dma-buf nor a memfd"
    if kind == "not sealed":
        return Shared(mmap.PAGESIZE, not_sealed), "F_SEAL_SHRINK"
    return Shared(100), "has 100 bytes, its tensor 560"


@pytest.mark.parametrize("kind", ["closed", "pipe", "file", "not sealed", "small"])
@pytest.mark.parametrize("side", ["input", "output"])
def test_memory_that_cannot_be_used_is_an_error_and_the_next_run_is_right(load, kind, side):
    host = load(conv(16, 16))
    shared, words = bad_memory(kind)
    host.give(getattr(host, side), shared)
    with pytest.raises(RuntimeError, match=words):
        host.made.invoke()
    host.give(getattr(host, side), None)
    values = host.draw(7)
    host.made.set_tensor(host.input["index"], values)
    host.made.invoke()
    np.testing.assert_array_equal(host.result(), host.expected(values))


def test_an_output_that_cannot_be_written_is_an_error(load):
    host = load(conv(16, 16))
    target = Shared(mmap.PAGESIZE)
    target.fd = read_only(target)
    host.give(host.output, target)
    with pytest.raises(RuntimeError, match="was opened to read alone"):
        host.made.invoke()


def test_a_number_that_becomes_another_file_is_looked_at_again(load):
    host = load(conv(16, 16))
    first, second = Shared(mmap.PAGESIZE), Shared(mmap.PAGESIZE)
    host.give(host.input, first)
    host.made.invoke()
    os.dup2(second.fd, first.fd)
    values = host.draw(8)
    second.tensor(host.input)[:] = values
    host.made.invoke()
    np.testing.assert_array_equal(host.result(), host.expected(values))


def test_nodes_on_the_cpu_see_no_old_values(load):
    """ADD reads the input beside the convolution: it would read the tensor's own memory."""
    rng = np.random.default_rng(9)
    builder = Net("shared input", rng)
    x = builder.input("input", (1, 7, 5, 16), DType.INT8, random_quantization(rng, DType.INT8))
    first = builder.conv(x, 16, layers.Window(3, 3))
    host = load(builder.build(builder.add(x, first)), deny_ops="ADD")
    source = Shared(mmap.PAGESIZE)
    host.give(host.input, source)
    with pytest.raises(RuntimeError, match="a node on the CPU uses it"):
        host.made.invoke()


def test_shapes_that_do_not_compile_use_the_buffers_too(load):
    """The largest side does not fit the registers: the nodes run on the CPU."""
    host = load(conv(16, 16))
    rows = 9000
    for interpreter in (host.made, host.reference):
        interpreter.resize_tensor_input(host.input["index"], (1, rows, 2, 16))
        interpreter.allocate_tensors()
    host.look()
    source, target = Shared(rows * 32), Shared(rows * 32)
    values = host.draw(10)
    source.tensor(host.input)[:] = values
    host.give(host.input, source)
    host.give(host.output, target)
    host.made.invoke()
    np.testing.assert_array_equal(target.tensor(host.output), host.expected(values))


def test_only_inputs_and_outputs_are_shared(load):
    host = load(conv(16, 16))
    with pytest.raises(UsageError, match="tensor 1 is no input or output"):
        delegate.share_tensor(host.made, host.delegate, 1, None)
