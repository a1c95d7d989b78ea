"""MediaPipe's models in fp16, and their transposed convolution, which no runtime has."""

import numpy as np
import pytest

from delegate.model.graph import DType
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.inferences import outputs
from tests.ops.half_models import SIMULATED, compiled, rejected
from tests.shared_folder import MODELS, needs_models


def doubling_model(size: tuple[int, int], kernel: tuple[int, int] = (2, 2)) -> bytes:
    """MediaPipe's custom operator from 5 x 6 pixels to ``size``."""
    rng = np.random.default_rng(5)
    builder = ModelBuilder("doubling")
    x = builder.input("x", (1, 5, 6, 24), DType.FLOAT32)
    w = builder.constant("w", rng.normal(size=(3, *kernel, 24)).astype(np.float32))
    b = builder.constant("b", rng.normal(size=3).astype(np.float32))
    y = builder.tensor("y", (1, *size, 3), DType.FLOAT32)
    builder.operator("CUSTOM:Convolution2DTransposeBias", (x, w, b), (y,))
    return builder.build(y)


def test_mediapipes_transposed_convolution_runs_where_no_runtime_has_it():
    model = doubling_model((10, 12))
    graph = read_graph(model)
    x = np.random.default_rng(6).normal(size=(1, 5, 6, 24)).astype(np.float16).astype(np.float32)
    (ours,) = outputs(model, x, **SIMULATED)
    w, b = (graph.tensor(index).constant.astype(np.float64) for index in (1, 2))
    exact = np.zeros((10, 12, 3))
    for i in range(2):
        for j in range(2):
            exact[i::2, j::2] = x[0] @ w[:, i, j].T + b
    assert np.abs(ours[0] - exact).max() < 2.0**-9 * np.abs(exact).max()


@pytest.mark.parametrize(("size", "kernel"), [((9, 12), (2, 2)), ((10, 12), (3, 2))])
def test_other_transposed_convolutions_of_mediapipe_are_left_alone(size, kernel):
    assert rejected(doubling_model(size, kernel), float="fp16") == {"operator_supported"}


@needs_models
@pytest.mark.parametrize("value", ["off", "auto"])
def test_mediapipe_models(value):
    result = compiled(MODELS / "float" / "mediapipe_hand_landmark_lite.tflite", float=value)
    delegated = result.delegated_nodes
    assert delegated == 0 if value == "off" else delegated > 50


@needs_models
@pytest.mark.parametrize(
    "path", sorted((MODELS / "float").glob("mediapipe_*")), ids=lambda p: p.stem
)
def test_models_of_mediapipe_are_whole(path):
    made = compiled(path)
    assert len(made.partitions) == 1
    assert {r.op for r in made.rejections} <= {"DEQUANTIZE"}
