"""Mutated and truncated models: read, or one ModelError; nothing else, in bounded time and memory.

Seeded, so that a failure repeats; the time per source is boxed so that the suite stays quick. Set
FUZZ_SECONDS for a longer run.
"""

import os
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from delegate.errors import ModelError
from delegate.model.tflite_reader import Model, read_model
from delegate.partition.partitioner import select_nodes
from delegate.partition.partitions import partition_graph
from models.networks import mobilenet_v1
from rk3588_conformance.builder import Arithmetic, depthwise_model, fully_connected_model
from rk3588_conformance.generated.model_mutations import everything, mutate
from tests.models.blocks import conv_conv_add_model
from tests.shared_folder import DIGITS

SECONDS = float(os.environ.get("FUZZ_SECONDS", "2"))
LEAST_MUTATIONS = 300

# Python objects per byte of the file: a Tensor of an empty table (8 bytes with its offset) takes
# about 300 bytes.
MEMORY_FACTOR = 60
MEMORY_FLOOR_BYTES = 2 << 20

PADDING_BYTES = 16
"""A NUL and zeros may stand behind the last thing that is read: the writer ends at multiples."""


SOURCES: dict[str, Callable[[], bytes]] = {
    "everything": everything,
    "residual": lambda: conv_conv_add_model(np.random.default_rng(1), 3, 2, 2, 3, 2, 2),
    "depthwise": lambda: depthwise_model(
        np.random.default_rng(2), 3, 4, 5, 2, 3, arithmetic=Arithmetic(per_channel=True)
    ),
    "fully_connected": lambda: fully_connected_model(np.random.default_rng(3), (2, 5), 3),
    "trained": DIGITS.read_bytes,
    "whole": lambda: mobilenet_v1(np.random.default_rng(4), 64, 96, width=0.25, classes=7),
}


def walk(model: Model) -> None:
    """Touches all that was read, and lets the partitioner see it."""
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.constant is not None:
                assert not tensor.constant.flags.writeable
                tensor.constant.sum() if tensor.constant.dtype.kind in "iuf" else None
        supported, rejections = select_nodes(graph)
        assert len(supported) + len(rejections) == len(graph.nodes)
        partition_graph(graph, supported)


def read_or_refuse(content: bytes) -> bool:
    """Options are read when their operator's rules ask for them: in ``walk``."""
    try:
        walk(read_model(content))
    except ModelError as error:
        assert str(error).startswith("<memory>: ")
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize("name", SOURCES)
def test_mutants_are_read_or_refused(name: str) -> None:
    content = SOURCES[name]()
    assert read_or_refuse(content)
    rng = np.random.default_rng(20240607)
    end = time.perf_counter() + SECONDS
    results = []
    slowest = 0.0
    while time.perf_counter() < end or len(results) < LEAST_MUTATIONS:
        mutant = mutate(content, rng)
        started = time.perf_counter()
        with np.errstate(all="ignore"):
            results.append(read_or_refuse(mutant))
        slowest = max(slowest, time.perf_counter() - started)
    # Both outcomes must occur, or the mutations test nothing.
    assert 0.02 < np.mean(results) < 0.98
    assert slowest < 2


@pytest.mark.parametrize("name", [n for n in SOURCES if n != "whole"])
def test_every_truncation_is_read_or_refused(name: str) -> None:
    content = SOURCES[name]()
    step = max(len(content) // 2000, 1)
    for length in range(0, len(content) - PADDING_BYTES, step):
        assert not read_or_refuse(content[:length]), f"read with {length} bytes"


def test_every_single_byte_of_a_small_model() -> None:
    content = SOURCES["everything"]()
    for place in range(len(content)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            mutant = bytearray(content)
            mutant[place] = value
            with np.errstate(all="ignore"):
                read_or_refuse(bytes(mutant))


def test_mutants_do_not_allocate_wildly() -> None:
    content = SOURCES["residual"]()
    rng = np.random.default_rng(5)
    tracemalloc.start()
    try:
        for _ in range(150):
            mutant = mutate(content, rng)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with np.errstate(all="ignore"):
                read_or_refuse(mutant)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < MEMORY_FACTOR * len(mutant) + MEMORY_FLOOR_BYTES
    finally:
        tracemalloc.stop()
