"""Models of ai-edge-quantizer run, are near to the float model, and are for the NPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.cli.conftest import Run, run
from tests.quantization.float_models import SIDE, chain, conv, save_pictures, two_heads
from tests.shared_folder import MODELS, SHARED, needs_models

__all__ = ["run"]  # the fixture

pytest.importorskip("PIL")
pytest.importorskip(
    "ai_edge_quantizer", reason="ai-edge-quantizer is not installed (extra quantize, NumPy 2)"
)
pytestmark = pytest.mark.filterwarnings("default")  # other packages have theirs

IMAGES = SHARED / "images" / "coco"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    save_pictures(tmp_path / "pictures", 8)
    return tmp_path / "pictures"


def quantize(run: Run, source: Path, pictures: Path, *more: object) -> tuple[Path, dict]:
    output = source.parent / "int8.tflite"
    outcome = run("quantize", source, pictures, "-o", output, "--json", *more)
    assert outcome.code == 0, outcome.err
    return output, outcome.json


def test_a_model_becomes_int8_as_a_whole(run: Run, tmp_path: Path, pictures: Path) -> None:
    source = tmp_path / "float.tflite"
    source.write_bytes(two_heads(largest=1.0))
    output, document = quantize(run, source, pictures)
    graph = read_graph(output)
    assert {graph.tensor(t).dtype for t in (*graph.inputs, *graph.outputs)} == {DType.INT8}
    assert {node.op for node in graph.nodes} == {"CONV_2D", "RELU", "RESHAPE", "CONCATENATION"}
    npu = document["npu"]
    assert npu["delegated_nodes"] == npu["total_nodes"] == len(graph.nodes)
    assert document["mean_snr_db"] > 25
    scale = graph.tensor(graph.inputs[0]).quantization.scale
    assert scale == pytest.approx(2 / 255)  # of all pixels, whatever the pictures hold


def test_a_bias_beside_dead_weights_is_kept(run: Run, tmp_path: Path, pictures: Path) -> None:
    weights = np.random.default_rng(1).normal(0, 0.2, (4, 3, 3, 4)).astype(np.float32)
    weights[2] = 1e-12
    bias = np.array([0.1, -0.1, 0.5, 0.0], np.float32)
    source = tmp_path / "float.tflite"
    source.write_bytes(chain(weights=weights, bias=bias))
    output, document = quantize(run, source, pictures)
    graph = read_graph(output)
    layer = next(n for n in graph.nodes if graph.tensor(n.outputs[0]).name == "second")
    stored = graph.tensor(layer.inputs[2])
    real = stored.constant.astype(np.float64) * stored.quantization.scales
    np.testing.assert_allclose(real, bias, atol=1e-3)
    assert np.abs(stored.constant).max() < 1 << 25
    assert document["npu"]["delegated_nodes"] == 3


def test_mixed_is_nearer_to_the_float_model(run: Run, tmp_path: Path, pictures: Path) -> None:
    """The small head has the large one's scale in int8."""
    source = tmp_path / "float.tflite"
    source.write_bytes(two_heads(largest=64.0))
    _, plain = quantize(run, source, pictures)
    output, document = quantize(run, source, pictures, "--mixed", 2)
    found = document["mixed"]
    assert found["mixed_mean_snr_db"] >= found["int8_mean_snr_db"] + 1.0
    assert found["int8_mean_snr_db"] == pytest.approx(plain["mean_snr_db"], abs=0.1)
    assert document["mean_snr_db"] == pytest.approx(found["mixed_mean_snr_db"])
    graph = read_graph(output)
    kept = [op for unit in found["kept"] for op in unit["ops"]]
    assert kept
    kinds = {graph.tensor(n.outputs[0]).dtype for n in graph.nodes if n.op == "CONV_2D"}
    assert DType.FLOAT32 in kinds
    assert graph.reduced_precision == "fp16accfp32"  # so that the NPU takes them by default
    left = {entry["op"] for entry in document["npu"]["left_to_cpu"]}
    assert left <= {"QUANTIZE", "DEQUANTIZE"}
    report = run("accuracy", output, pictures, "--reference", source, "--json").json
    assert report["mean_snr_db"] == pytest.approx(document["mean_snr_db"])
    assert any(layer["float"] for layer in report["layers"])


def test_a_model_is_compared_with_the_delegate(run: Run, tmp_path: Path, pictures: Path) -> None:
    source = tmp_path / "float.tflite"
    source.write_bytes(two_heads())
    output, _ = quantize(run, source, pictures)
    outcome = run("compare", output, "--images", pictures, "--device", "simulator", "--jobs", 1)
    assert outcome.code == 0, outcome


def test_an_interrupted_process_leaves_nothing_half_written(tmp_path: Path, pictures: Path) -> None:
    source, output = tmp_path / "float.tflite", tmp_path / "int8.tflite"
    source.write_bytes(two_heads(largest=64.0))
    before = {path.name for path in tmp_path.iterdir()}
    command = [sys.executable, "-m", "delegate", "quantize", str(source), str(pictures), "-o",
               str(output), "--mixed", "4"]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        time.sleep(3.0)
        process.send_signal(2)
        _, err = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was done before it could be interrupted")
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "rk3588-delegate: error: interrupted" in err
    after = {path.name for path in tmp_path.iterdir()}
    if output.exists():  # it was already at what it says about the model
        assert {node.op for node in read_graph(output).nodes} >= {"CONV_2D"}
    assert after - {output.name} == before


@needs_models
@pytest.mark.parametrize(
    ("name", "least_db"), [("face_detection_short_range", 12.0), ("hand_landmark_lite", 12.0)]
)
def test_published_models_run_whole_on_the_npu(
    run: Run, tmp_path: Path, name: str, least_db: float
) -> None:
    output = tmp_path / "int8.tflite"
    source = MODELS / "float" / f"mediapipe_{name}.tflite"
    outcome = run("quantize", source, IMAGES, "--limit", 12, "-o", output, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    result = compile_model(output, Options())
    assert len(result.partitions) == 1
    assert result.delegated_nodes == result.total_nodes == document["npu"]["total_nodes"]
    assert document["mean_snr_db"] > least_db


def test_operators_that_the_package_does_not_know_become_int8(
    run: Run, tmp_path: Path, pictures: Path
) -> None:
    builder = Net("slopes")
    y = conv(builder, builder.input("image", (1, SIDE, SIDE, 3), DType.FLOAT32), 8, "a", seed=1)
    slopes = builder.constant("slopes", np.full((1, 1, 8), 0.25, np.float32))
    y = builder.result("PRELU", [y, slopes], "b")
    y = conv(builder, y, 8, "c", seed=2)
    source = tmp_path / "float.tflite"
    source.write_bytes(builder.build(builder.result("RELU6", [y], "d")))
    output, document = quantize(run, source, pictures)
    graph = read_graph(output)
    assert [node.op for node in graph.nodes] == ["CONV_2D", "PRELU", "CONV_2D", "RELU6"]
    assert document["mean_snr_db"] > 25
