"""Plans of whole models: no worse than they were, and near the least that has to be moved."""

import json

import pytest

from benchmarks.bounds import BOUNDS, MOST_BYTES_OVER_FLOOR, bytes_floor
from benchmarks.run import main
from delegate.compile.compiler import compile_model
from delegate.lower.task import BufferId
from delegate.npu.program import parse
from delegate.ops import OPERATORS
from delegate.options import Options
from tests.shared_folder import MODELS, needs_models, whole_models

# Additions are tasks of their own, which keeps the others above their bounds.
WITHIN_BOUNDS = (
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_1.0_224_quant",
    "yolov8n_640_int8_per_channel",
)
MAX_BYTES_OVER_FLOOR = 1.10
PLAIN = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "PAD")


@pytest.mark.parametrize("path", whole_models(), ids=lambda path: path.stem)
def test_bytes_are_near_the_floor_and_activations_take_little_room(path):
    result = compile_model(path, Options(numerics="exact"))
    check_activations(result)
    moved = sum(item.estimate.bytes for item in result.partitions)
    floor = sum(bytes_floor(layer) for item in result.partitions for layer in item.layers)
    has_goal = path.stem == "yolov8n_640_int8_per_channel"
    most = MOST_BYTES_OVER_FLOOR if has_goal else MAX_BYTES_OVER_FLOOR
    assert floor <= moved <= most * floor
    bound = BOUNDS.get(path.stem)
    if path.stem in WITHIN_BOUNDS:
        # The other compilers' programs hold convolutions and additions only.
        others = tuple(op for op in OPERATORS if op not in PLAIN)
        plain = compile_model(path, Options(numerics="exact", deny_ops=others)).partitions
        assert sum(item.tasks for item in plain) <= bound.tasks
        assert sum(item.estimate.cycles for item in plain) <= bound.cycles


def check_activations(result):
    for compiled in result.partitions:
        scratch = parse(compiled.program).buffers[BufferId.SCRATCH].size_bytes
        # A few atoms more where all tensors are tiny.
        most = max(1.2 * compiled.live_bytes, compiled.live_bytes + 256)
        assert compiled.live_bytes <= scratch <= most


@needs_models
def test_mobilenet_v2_joined_is_within_its_budget():
    """Its first projection, 16 kernels on 112 x 112 pixels, fills the array in sections."""
    path = MODELS / "mobilenet_v2_1.0_224_quant.tflite"
    (item,) = compile_model(path, Options(numerics="auto")).partitions
    assert item.tasks <= 72
    assert item.estimate.cycles <= 1_236_000
    (layer,) = (layer for layer in item.layers if layer.nodes == (2,))
    assert "sections of the image" in layer.choice


def test_every_layer_says_why_it_is_tiled_so():
    path = next(path for path in whole_models() if "mobilenet_v1" in path.stem)
    result = compile_model(path, Options(numerics="exact"))
    layers = [layer for item in result.partitions for layer in item.layers]
    choices = [layer.choice for layer in layers if layer.op in PLAIN]
    assert choices
    assert all("banks" in choice for choice in choices)


@needs_models
def test_benchmarks_run(tmp_path, capsys):
    models = tmp_path / "models"
    models.mkdir()
    name = "mobilenet_v1_0.25_128_quant.tflite"
    (models / name).symlink_to((MODELS / name).resolve())
    assert main(["--models", str(models), "--out", str(tmp_path / "out"), "--quick"]) == 0
    document = json.loads((tmp_path / "out" / "benchmarks.json").read_text())
    assert document["plans"][0]["tasks"] == 29
    assert (tmp_path / "out" / "plans.svg").read_text().startswith("<svg")
    assert "memcpy" in capsys.readouterr().out
