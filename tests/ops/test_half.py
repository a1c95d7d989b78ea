"""Option ``float``: what runs in fp16, within which bound, and what is left to the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.conformance.builder import options as tables
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.execution import run_case
from delegate.conformance.families import case_names
from delegate.conformance.outcome import Status
from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime
from delegate.lower.half.bound import HalfBound, convolution_bound
from delegate.model.graph import Activation, DType
from delegate.options import Options
from tests.shared_folder import MODELS, needs_models

CASES = [name for name in case_names(None) if name.startswith("Half.")]


def conv_model(
    weights: np.ndarray, activation: Activation = Activation.NONE, shape=(1, 5, 6, 24)
) -> bytes:
    builder = ModelBuilder("half")
    x = builder.input("x", shape, DType.FLOAT32)
    half = weights.dtype == np.float16
    w = builder.constant("w", weights)
    if half:
        made = builder.tensor("made", weights.shape, DType.FLOAT32)
        builder.operator("DEQUANTIZE", (w,), (made,))
        w = made
    y = builder.tensor("y", (*shape[:3], weights.shape[0]), DType.FLOAT32)
    builder.operator("CONV_2D", (x, w), (y,), tables.conv_2d(activation=activation))
    builder.output(y)
    return builder.build()


def compiled(model: bytes | Path, **options: str):
    return compile_model(model, Options.from_mapping(options, {}))


def rejected(model: bytes, **options: str) -> set[str]:
    return {r.rule for r in compiled(model, **options).rejections if r.op != "DEQUANTIZE"}


@pytest.mark.parametrize("name", CASES[::11])
def test_results_are_within_the_bound(name):
    outcome = run_case(name, None, Options.from_mapping({"device": "simulator"}, {}))
    assert outcome.status is Status.OK, outcome.message


def test_the_judge_notices_what_is_just_outside():
    name = next(name for name in CASES if "Half.Conv" in name and "spread_plain" in name)
    from delegate.conformance.execution import load_and_invoke, prepare

    prepared = prepare(name, None)
    options = Options.from_mapping({"device": "simulator", "float": "fp16"}, {})
    (ours,), _ = load_and_invoke(prepared, options)
    judge = prepared.case.outside
    assert judge(prepared.graph, prepared.inputs, [ours]) == []
    place = np.unravel_index(np.abs(ours).argmax(), ours.shape)
    for steps in (2, -2):
        wrong = ours.copy()
        wrong[place] *= 1 + steps * 2.0**-10
        assert judge(prepared.graph, prepared.inputs, [wrong]) != []


def test_what_the_option_takes():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(16, 3, 3, 24)).astype(np.float32)
    full, half = conv_model(weights), conv_model(weights.astype(np.float16))
    for model in (full, half):
        assert rejected(model) == rejected(model, float="off") == {"eight_bit_features"}
        assert len(compiled(model, float="fp16").partitions) == 1
    assert rejected(full, float="auto") == {"eight_bit_features"}
    assert len(compiled(half, float="auto").partitions) == 1


@pytest.mark.parametrize("odd", [np.nan, np.inf, 65505.0, -1e30])
def test_weights_that_fp16_cannot_hold_stay_on_the_cpu(odd):
    weights = np.ones((8, 1, 1, 24), np.float32)
    weights[3, 0, 0, 7] = odd
    assert rejected(conv_model(weights), float="fp16") == {"float_weights"}


def test_other_activations_stay_on_the_cpu():
    model = conv_model(np.ones((8, 1, 1, 24), np.float32), Activation.RELU_N1_TO_1)
    assert rejected(model, float="fp16") == {"half_activation"}


def test_the_compiler_tells_the_bound():
    weights = np.full((8, 1, 1, 24), 0.25, np.float32)
    exact = compiled(conv_model(weights), float="fp16").partitions[0].layers[0].choice
    assert exact.startswith("fp16, within 0.00049 of the terms' magnitudes, ")
    weights[0] = 0.1
    moved = compiled(conv_model(weights), float="fp16").partitions[0].layers[0].choice
    assert "of the largest input" in moved


@pytest.mark.parametrize("magnitude", [1.0, 1e-3, 300.0])
def test_results_are_within_the_provers_bound_of_the_models_own_weights(magnitude, monkeypatch):
    """Not of those rounded to fp16: against float64 with inputs that fp16 holds."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(13, 3, 2, 24)).astype(np.float32) * 0.2
    found: list[HalfBound] = []

    def recorded(*arguments: object) -> HalfBound:
        found.append(convolution_bound(*arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr("delegate.ops.shared.half.convolution_bound", recorded)
    model = conv_model(weights)
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), {"device": "simulator", "float": "fp16"})
    interpreter = runtime.interpreter(model, [plugin], threads=1)
    x = (rng.normal(size=(1, 5, 6, 24)) * magnitude).astype(np.float16).astype(np.float32)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    ours = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    padded = np.pad(x[0].astype(np.float64), ((1, 1), (0, 1), (0, 0)))
    exact, terms = np.zeros((5, 6, 13)), np.zeros((5, 6, 13))
    for i in range(3):
        for j in range(2):
            part, kernel = padded[i : i + 5, j : j + 6], weights[:, i, j].astype(np.float64).T
            exact += part @ kernel
            terms += np.abs(part) @ np.abs(kernel)
    (bound,) = found
    most = bound.relative * terms + bound.per_input * np.abs(x).max() + bound.absolute
    assert (np.abs(ours[0] - exact) <= most).all()
    assert np.abs(ours[0] - exact).max() > 0


@needs_models
def test_integer_models_are_the_same_bytes_whatever_the_option():
    for name in ("mobilenet_v1_0.25_128_quant", "yolo_lc_256_person_int8"):
        path = MODELS / f"{name}.tflite"
        programs = [
            [p.program for p in compiled(path, float=value).partitions] for value in ("off", "fp16")
        ]
        assert programs[0] == programs[1]


@needs_models
@pytest.mark.parametrize("value", ["off", "auto"])
def test_mediapipe_models(value):
    result = compiled(MODELS / "float" / "mediapipe_hand_landmark_lite.tflite", float=value)
    delegated = result.delegated_nodes
    assert delegated == 0 if value == "off" else delegated > 50
