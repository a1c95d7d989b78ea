"""Ranges of tensors: measured over all pictures, and what int8 demands of them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate.errors import ModelError
from delegate.model.graph import DType
from rk3588_conformance.builder import Net
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.ranges import (
    Range,
    measure_extremes,
    moved_together,
    ranges_of,
    relu_limits,
    weight_bounds,
)
from tests.quantization.float_models import SIDE, chain, two_heads


def read(tmp_path: Path, content: bytes) -> FloatModel:
    path = tmp_path / "float.tflite"
    path.write_bytes(content)
    return FloatModel.read(path)


def measure_ranges(
    model: FloatModel, samples: list[Any], pixels: Range, share: float = 1.0, **more: Any
) -> dict[int, Range]:
    return ranges_of(model.graph, measure_extremes(model, samples, **more), pixels, share)


def flat(value: float, details: dict[str, Any]) -> np.ndarray:
    return np.full(details["shape"], value, np.float32)


def by_name(model: FloatModel, found: dict[int, Any]) -> dict[str, Any]:
    return {model.graph.tensor(tensor).name: value for tensor, value in found.items()}


def test_ranges_are_of_all_samples(tmp_path: Path) -> None:
    builder = Net("double")
    x = builder.input("x", (1, SIDE, SIDE, 3), DType.FLOAT32)
    model = read(tmp_path, builder.build(builder.result("ADD", [x, x], "y")))
    steps: list[int] = []
    found = measure_ranges(
        model,
        [partial(flat, value) for value in (0.5, -0.25, 0.125)],
        (-1.0, 1.0),
        done=lambda: steps.append(1),
    )
    assert by_name(model, found) == {"x": (-1.0, 1.0), "y": (-0.5, 1.0)}
    assert len(steps) == 3


def test_ranges_may_leave_odd_samples_out(tmp_path: Path) -> None:
    builder = Net("double")
    x = builder.input("x", (1, SIDE, SIDE, 3), DType.FLOAT32)
    model = read(tmp_path, builder.build(builder.result("ADD", [x, x], "y")))
    samples = [partial(flat, value) for value in (*[0.5] * 10, 50.0, -30.0)]
    assert by_name(model, measure_ranges(model, samples, (-1.0, 1.0)))["y"] == (-60.0, 100.0)
    assert by_name(model, measure_ranges(model, samples, (-1.0, 1.0), 0.75))["y"] == (1.0, 1.0)


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = read(tmp_path, chain(bias=np.full(4, np.inf, np.float32)))
    with pytest.raises(ModelError, match="'second' has values that are not finite"):
        measure_ranges(model, [partial(flat, 0.5)], (-1.0, 1.0))


def test_a_tensor_that_only_a_relu_reads_has_its_range(tmp_path: Path) -> None:
    model = read(tmp_path, two_heads())
    found = by_name(model, measure_ranges(model, [partial(flat, 0.5)], (-1.0, 1.0)))
    assert found["conv"] == found["relu"]
    assert found["conv"][0] >= 0.0
    limits = by_name(model, relu_limits(model.graph))
    assert limits == {"conv": (0.0, np.inf)}


def test_what_is_only_moved_shares_a_range(tmp_path: Path) -> None:
    model = read(tmp_path, two_heads(largest=8.0))
    found = by_name(model, measure_ranges(model, [partial(flat, 0.5)], (-1.0, 1.0)))
    names = {"small", "large", "s_rows", "l_rows", "joined"}
    assert {found[name] for name in names} == {found["joined"]}
    assert found["joined"] != found["relu"]
    (group,) = moved_together(model.graph)
    assert {model.graph.tensor(tensor).name for tensor in group} == names


def test_a_bias_that_would_not_fit_widens_its_weights(tmp_path: Path) -> None:
    weights = np.full((4, 3, 3, 4), 0.25, np.float32)
    weights[2] = 1e-12  # a dead channel
    bias = np.array([0.5, 0.5, 0.5, 0.0], np.float32)
    model = read(tmp_path, chain(weights=weights, bias=bias))
    ranges = measure_ranges(model, [partial(flat, 0.5)], (-1.0, 1.0))
    bounds = by_name(model, weight_bounds(model.graph, ranges))
    assert list(bounds) == ["second/kernel"]
    found = bounds["second/kernel"]
    assert found.shape == (4, 1, 1, 1)
    assert found[[0, 1, 3], 0, 0, 0].tolist() == [0.25] * 3
    low, high = next(r for t, r in ranges.items() if model.graph.tensor(t).name == "first")
    step = (max(high, 0.0) - min(low, 0.0)) / 255 * found[2, 0, 0, 0] / 127
    assert 0.5 / step == pytest.approx(1 << 24, rel=1e-4)
