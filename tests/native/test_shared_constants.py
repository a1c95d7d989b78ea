"""Executables of one process share their constants, whatever devices they run on."""

import gc
import re
from pathlib import Path

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.npu.program import parse
from delegate.options import Options
from rk3588_conformance.builder import conv_model

MIB = 1 << 20


def anonymous_bytes() -> int:
    text = Path("/proc/self/smaps_rollup").read_text()
    found = re.search(r"^Anonymous:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found.group(1)) * 1024


def program_of(seed: int, channels: int = 704) -> tuple[bytes, tuple[int, ...]]:
    model = conv_model(np.random.default_rng(seed), h=1, w=3, ic=channels, oc=channels, kh=3, kw=3)
    (compiled,) = compile_model(model, Options(numerics="exact")).partitions
    return compiled.program, (1, 1, 3, channels)


@pytest.mark.parametrize("device", ["null", "simulator"])
def test_further_executables_of_a_program_take_no_memory_for_constants(device: str) -> None:
    program, _ = program_of(1)
    size = parse(program).buffers[1].size_bytes
    assert size > 4 * MIB
    first = Executable(program, device)
    gc.collect()
    before = anonymous_bytes()
    others = [Executable(program, device) for _ in range(4)]
    assert anonymous_bytes() - before < 2 * MIB
    del first, others
    gc.collect()
    assert anonymous_bytes() - before < 2 * MIB - size  # nothing keeps them alive


def test_the_results_of_different_weights_are_their_own() -> None:
    """Same shapes, other weights; and a user that outlives the one that filled the memory."""
    (one, shape), (two, _) = program_of(1, 64), program_of(2, 64)
    values = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
    first, second = Executable(one, "simulator"), Executable(two, "simulator")
    expected = first.run([values])[0], second.run([values])[0]
    assert not np.array_equal(*expected)
    again = Executable(one, "simulator")
    del first
    gc.collect()
    np.testing.assert_array_equal(again.run([values])[0], expected[0])
    np.testing.assert_array_equal(Executable(two, "simulator").run([values])[0], expected[1])
