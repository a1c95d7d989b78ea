"""Built networks: structure, determinism, and the delegate's answer beside TensorFlow Lite's."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from delegate.host.samples import random_sample
from delegate.model.graph import DType
from delegate.model.tflite_reader import model_details, read_graph
from delegate.options import Options
from models.networks import mobilenet_v1, mobilenet_v2, scaled_channels, yolo_like
from rk3588_conformance.comparison import Comparer
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.head import OutputTensor
from rk3588_vision.detection.recognise import recognise

Build = Callable[..., bytes]


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "network.tflite"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("build", "counts"),
    [
        (mobilenet_v1, {"CONV_2D": 15, "DEPTHWISE_CONV_2D": 13, "SOFTMAX": 1}),
        (mobilenet_v2, {"CONV_2D": 36, "DEPTHWISE_CONV_2D": 17, "ADD": 10, "SOFTMAX": 1}),
    ],
)
def test_operators_are_those_of_the_published_models(
    build: Build, counts: dict[str, int], tmp_path: Path
) -> None:
    content = build(np.random.default_rng(0), 64, 96, width=0.5, classes=10)
    assert content == build(np.random.default_rng(0), 64, 96, width=0.5, classes=10)
    found = Counter(node.op for node in read_graph(written(tmp_path, content)).nodes)
    assert {op: found[op] for op in counts} == counts


def test_channels_are_scaled_as_published() -> None:
    assert [scaled_channels(c, 0.35) for c in (32, 16, 24, 1280)] == [16, 8, 8, 448]
    assert scaled_channels(32, 1.0) == 32


def test_yolo_like_has_grids_that_detect_reads(tmp_path: Path) -> None:
    path = written(tmp_path, yolo_like(np.random.default_rng(0), 96, 160, width=0.25, classes=5))
    _, outputs = model_details(path)
    assert [tuple(o["shape"]) for o in outputs] == [(1, 12, 20, 30), (1, 6, 10, 30), (1, 3, 5, 30)]
    tensors = [OutputTensor.from_details(output) for output in outputs]
    head = recognise(read_graph(path), tensors, 96, 160, Hints("yolov5-grids", 5))
    assert head.name == "yolov5-grids"
    with pytest.raises(ValueError, match="32"):
        yolo_like(np.random.default_rng(0), 100, 160)


@pytest.mark.parametrize("build", [mobilenet_v1, mobilenet_v2, yolo_like])
@pytest.mark.parametrize(("dtype", "per_channel"), [(DType.INT8, True), (DType.UINT8, False)])
def test_every_delegated_operator_keeps_the_contract(
    build: Build, dtype: DType, per_channel: bool, tmp_path: Path
) -> None:
    content = build(
        np.random.default_rng(1),
        64,
        96,
        width=0.25,
        classes=7,
        dtype=dtype,
        per_channel=per_channel,
    )  # fmt: skip
    path = written(tmp_path, content)
    comparer = Comparer(
        path, Options.from_mapping({"numerics": "exact", "device": "simulator"}, {}), per_op=True
    )
    result = comparer.compare_one(random_sample(comparer.inputs, 3))
    assert len(result.ops) >= 15
    assert result.violations() == []
    total = result.ops_total()
    assert total.equal == total.elements
    assert result.is_equal
