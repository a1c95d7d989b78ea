"""Tests what the judge of random graphs calls a difference, and how much a node may have."""

import numpy as np
import pytest

from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.generated.judge import largest_difference, tolerance

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, NAN, INF, -INF], [1.0, NAN, INF, -INF], 0),
        ([1.0, -0.0], [1.0, 0.0], 0),
        ([1.0, 2.5], [1.0, 2.25], 0.25),
        ([NAN], [0.0], INF),
        ([0.0], [NAN], INF),
        ([INF], [3.4028235e38], INF),
        ([INF], [-INF], INF),
        ([], [], 0),
    ],
)
def test_floats(ours: list[float], theirs: list[float], expected: float) -> None:
    pair = (np.array(side, np.float32) for side in (ours, theirs))
    assert largest_difference(*pair) == expected


def test_integers_shapes_and_types() -> None:
    x = np.array([-128, 127], np.int8)
    assert largest_difference(x, x[::-1]) == 255
    assert largest_difference(x, x[:, np.newaxis]) == INF
    assert largest_difference(x, x.astype(np.int16)) == INF


@pytest.mark.parametrize(
    ("dtype", "quantization", "expected"),
    [(DType.INT8, Quantization((0.1,), (3,)), 1), (DType.FLOAT32, None, 0)],
)
def test_floats_have_no_steps(
    dtype: DType, quantization: Quantization | None, expected: int
) -> None:
    builder = ModelBuilder("sum")
    pair = [builder.input(name, (1, 4), dtype, quantization) for name in "xy"]
    total = builder.tensor("total", (1, 4), dtype, quantization)
    builder.operator("ADD", tuple(pair), (total,), AddOptions())
    assert tolerance(read_graph(builder.build(total)), 0) == expected
