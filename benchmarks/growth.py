"""Measures how the time to compile grows with a model: chains of equal layers, by number."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Graph
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.ranges import random_quantization

CHANNELS = 256
KERNEL = 3


def chain(count: int) -> Graph:
    """``count`` convolutions of 3 x 3 x 256 x 256: 0.6 million weights each."""
    rng = np.random.default_rng(1)
    builder = Net("growth", rng)
    quantization = random_quantization(rng, DType.INT8, 0.02, 3)
    x = builder.input("x", (1, 14, 13, CHANNELS), DType.INT8, quantization)
    for layer in range(count):
        x = builder.conv(x, CHANNELS, Window(KERNEL, KERNEL), name=f"layer_{layer}")
    return read_graph(builder.build(x))


def growth_rows(counts: tuple[int, ...] = (1, 2, 4, 8, 16), repeats: int = 3) -> list[Any]:
    """CPU time in all and per million weights."""
    rows = []
    for count in counts:
        graph = chain(count)
        times = []
        for _ in range(repeats):
            start = time.process_time()
            compile_model(graph, Options(deny_ops=()))
            times.append(time.process_time() - start)
        weights = count * KERNEL * KERNEL * CHANNELS * CHANNELS / 1e6
        best = min(times) * 1e3
        rows.append(
            {
                "layers": count,
                "million_weights": weights,
                "cpu_ms": best,
                "ms_per_million": best / weights,
            }
        )
    return rows
