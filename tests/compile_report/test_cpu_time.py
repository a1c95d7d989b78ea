"""Rates of a CPU: what is counted, how rates are found, and what a file of them may hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cpu_kernels import fitted
from delegate.compile.compiler import compile_model
from delegate.errors import UsageError
from delegate.insight.compile_report.document import compile_document
from delegate.insight.cpu_time import FEATURES, FORMAT, features, kernel_class, load_rates
from delegate.model.graph import DType
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Net, conv_model, depthwise_model
from rk3588_conformance.builder.ranges import random_quantization
from tests.loops import for_each

DOCUMENT: dict[str, Any] = {
    "format": FORMAT, "machine": "a test", "reference_us": 1.0, "overhead_us": 3.0, "rates": {},
}  # fmt: skip


def write(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({**DOCUMENT, **changes}))
    return path


def counted(model: bytes) -> tuple[str, dict[str, int]]:
    graph = read_graph(model)
    return kernel_class(graph, graph.nodes[0]), features(graph, graph.nodes[0])


def test_features_of_convolutions() -> None:
    """By the shapes: 7 x 5 x 3 to 4 x 3 x 11 pixels, windows of 3 x 3."""
    rng = np.random.default_rng(1)
    name, found = counted(conv_model(rng, 7, 5, 3, 11, 3, 3, 2, 2))
    assert name == "CONV_2D windows INT8"
    macs = 4 * 3 * 11 * 27
    assert found == {
        "run": 1, "mac": macs, "out": 4 * 3 * 11, "in": 7 * 5 * 3, "window": 4 * 3 * 27,
    }  # fmt: skip
    assert counted(conv_model(rng, 7, 5, 3, 11, 1, 1, dtype=DType.UINT8))[0] == "CONV_2D UINT8"
    name, found = counted(depthwise_model(rng, 7, 5, 6, 3, 3))
    assert name == "DEPTHWISE_CONV_2D windows INT8"
    assert found["mac"] == 7 * 5 * 6 * 9


def test_features_of_a_pool() -> None:
    rng = np.random.default_rng(1)
    builder = Net("pool")
    x = builder.input("x", (1, 9, 8, 5), DType.INT8, random_quantization(rng, DType.INT8))
    name, found = counted(builder.build(builder.pool("MAX_POOL_2D", x, 3, 2, 1, 1)))
    assert name == "MAX_POOL_2D INT8"
    assert found == {"run": 1, "mac": 0, "out": 360, "in": 360, "window": 2160}


@for_each("seed", range(5))
def test_rates_are_found_again(seed: int) -> None:
    """Times that were made from rates give these rates; one that nothing needs is 0."""
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.uniform(0, 12, (40, len(FEATURES))))
    rates = np.exp(rng.uniform(-9, 0, len(FEATURES)))
    rates[int(rng.integers(len(FEATURES)))] = 0.0
    found = fitted(rows, rows @ rates)
    np.testing.assert_allclose(rows @ found, rows @ rates, rtol=0.02)
    assert (found >= 0).all()


def test_estimates_take_the_rates_of_a_file(tmp_path: Path) -> None:
    """1 us for every run of every class: as many as there are nodes."""
    model = conv_model(np.random.default_rng(1), 7, 5, 3, 11, 3, 3)
    options = Options.from_mapping({"numerics": "exact", "deny_ops": "CONV_2D"}, {})
    result = compile_model(model, options)
    one = [1.0, 0, 0, 0, 0]
    rates = load_rates(write(tmp_path / "r.json", rates={"CONV_2D windows INT8": one}))
    document = compile_document(result, cpu=rates)
    assert document["inference"]["cpu"] == "a test"
    assert document["inference"]["cpu_us"] == document["inference"]["cpu_alone_us"] == 1.0
    assert document["left_to_cpu"][0]["cpu_us"] == 1.0
    plain = compile_document(result)["inference"]
    assert plain["cpu"] == "Cortex-A76, modelled"
    assert plain["cpu_us"] != 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"}, {"machine": 7}, {"rates": []}, {"rates": {"ADD INT8": [1.0]}},
        {"rates": {"ADD INT8": [1.0, 2.0, -1.0, 0.0, 0.0]}}, {"rates": {"ADD INT8": None}},
        {"rates": {"ADD INT8": [True, 0, 0, 0, 0]}}, {"reference_us": float("nan")},
        {"reference_us": float("inf")}, {"overhead_us": "1"}, {"overhead_us": None},
    ],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not rates of a CPU"):
        load_rates(write(tmp_path / "r.json", **changes))


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"[]", b"null"])
def test_files_of_anything_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        load_rates(path)


def test_the_measured_file_is_one() -> None:
    rates = load_rates(Path(__file__).parents[2] / "benchmarks/cpu_rates_x86.json")
    assert "CONV_2D INT8" in rates.rates
