"""Option ``float``: what runs in fp16, within which bound, and what is left to the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from delegate.builder import options as tables
from delegate.builder.model_builder import ModelBuilder
from delegate.compile.compiler import compile_model
from delegate.conformance.execution import run_case
from delegate.conformance.families import case_names
from delegate.conformance.outcome import Status
from delegate.host.delegation import _announce_half, collect_delegations
from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime
from delegate.lower.half.bound import convolution_bound
from delegate.lower.half_bound import HalfBound
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops import logistic, tanh
from delegate.ops.shared.half_ranges import half_ranges
from delegate.options import Options
from delegate.partition.rules import facts_of
from tests.shared_folder import MODELS, needs_models

CASES = [name for name in case_names(None) if name.startswith("Half.")]


def conv_model(
    weights: np.ndarray,
    activation: Activation = Activation.NONE,
    shape=(1, 5, 6, 24),
    reduced_precision: bytes = b"",
) -> bytes:
    builder = ModelBuilder("half")
    if reduced_precision:
        builder.metadata("reduced_precision_support", reduced_precision)
    x = builder.input("x", shape, DType.FLOAT32)
    half = weights.dtype == np.float16
    w = builder.constant("w", weights)
    if half:
        made = builder.tensor("made", weights.shape, DType.FLOAT32)
        builder.operator("DEQUANTIZE", (w,), (made,))
        w = made
    y = builder.tensor("y", (*shape[:3], weights.shape[0]), DType.FLOAT32)
    b = builder.constant("b", np.zeros(weights.shape[0], np.float32))
    builder.operator("CONV_2D", (x, w, b), (y,), tables.conv_2d(activation=activation))
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
        assert rejected(model, float="off") == {"eight_bit_features"}
        assert len(compiled(model, float="fp16").partitions) == 1
    for auto in ({}, {"float": "auto"}):
        assert rejected(full, **auto) == {"eight_bit_features"}
        assert len(compiled(half, **auto).partitions) == 1


@pytest.mark.parametrize(
    ("says", "taken"),
    [
        (b"fp16accfp32", 1),
        (b"fp16bf16accfp32\0\0", 1),
        (b"bf16accfp32", 0),
        (b"bf16accfp16", 0),
        (b"\xff\xfe", 0),
    ],
)
def test_auto_takes_what_the_metadata_say(says, taken):
    """Of a file, and of a running interpreter, which tells it itself."""
    model = conv_model(np.ones((16, 3, 3, 24), np.float32), reduced_precision=says)
    assert len(compiled(model).partitions) == taken
    assert rejected(model, float="off") == {"eight_bit_features"}
    runtime = find_runtime()
    with collect_delegations() as found:
        plugin = runtime.load_delegate(library_path(), {"device": "simulator"})
        runtime.interpreter(model, [plugin], threads=1)
    assert [one.partitions for one in found] == [taken]


def test_that_numbers_are_fp16_is_said_once(caplog):
    model = conv_model(np.ones((16, 3, 3, 25), np.float16), shape=(1, 5, 6, 25))
    runtime = find_runtime()

    def said(**options: str) -> list[tuple[str, str]]:
        caplog.clear()
        plugin = runtime.load_delegate(library_path(), {"device": "simulator", **options})
        runtime.interpreter(model, [plugin], threads=1)
        records = [r for r in caplog.records if "fp16" in r.getMessage()]
        return [(r.levelname, r.getMessage()) for r in records]

    (bound,) = (partition.bound for partition in compiled(model).partitions)
    assert bound.startswith("within 0.00049 of the terms")
    _announce_half.cache_clear()
    with caplog.at_level("INFO", logger="delegate"):
        assert said(float="off", log_level="info") == []
        ((level, text),) = said(log_level="info")
        assert level == "WARNING"
        assert bound in text
        assert "float=off" in text
        assert said(log_level="info") == []
        ((level, _),) = said(float="fp16", log_level="info")
        assert level == "INFO"


def test_the_bound_is_kept_with_programs(tmp_path, caplog):
    model = conv_model(np.ones((16, 3, 3, 26), np.float16), shape=(1, 5, 6, 26))
    runtime = find_runtime()
    options = {"device": "simulator", "cache_dir": str(tmp_path)}
    for _ in range(2):
        _announce_half.cache_clear()
        caplog.clear()
        plugin = runtime.load_delegate(library_path(), options)
        runtime.interpreter(model, [plugin], threads=1)
        assert len([r for r in caplog.records if "fp16" in r.getMessage()]) == 1
    assert len(list(tmp_path.glob("*.rkc"))) == 1


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


def chain(*layers: tuple[np.ndarray, np.ndarray, Activation]) -> bytes:
    """Convolutions of one pixel's channels: weights [outputs, inputs], a bias, an activation."""
    builder = ModelBuilder("chain")
    x = builder.input("x", (1, 4, 5, layers[0][0].shape[1]), DType.FLOAT32)
    for number, (weights, bias, activation) in enumerate(layers):
        w = builder.constant(f"w{number}", weights[:, None, None, :].astype(np.float32))
        b = builder.constant(f"b{number}", bias.astype(np.float32))
        y = builder.tensor(f"y{number}", (1, 4, 5, len(weights)), DType.FLOAT32)
        builder.operator("CONV_2D", (x, w, b), (y,), tables.conv_2d(activation=activation))
        x = y
    builder.output(x)
    return builder.build()


def refused(model: bytes) -> list[tuple[int, str]]:
    return [(r.node, r.rule) for r in compiled(model, float="fp16").rejections]


NONE, RELU, RELU6 = Activation.NONE, Activation.RELU, Activation.RELU6


def test_what_constants_prove_beyond_the_range_stays_on_the_cpu():
    ones, zero = np.ones((8, 8)), np.zeros(8)
    anything = (ones, zero, NONE)
    assert refused(chain(anything)) == []
    # Eight numbers from 0 to 6 make 48, times a weight.
    bounded = (ones, zero, RELU6)
    assert refused(chain(bounded, (ones * 1300, zero, NONE))) == []
    assert refused(chain(bounded, (ones * 1400, zero, NONE))) == [(1, "half_range")]
    assert refused(chain(bounded, (ones * -1400, zero, NONE))) == [(1, "half_range")]
    assert refused(chain(bounded, (ones * 1400, zero, RELU6))) == []
    # A constant, whatever the input is, and a bias below which nothing can be.
    huge = np.where(np.arange(8) == 3, 70000.0, 0.0)
    assert refused(chain((ones * (np.arange(8) != 3)[:, None], huge, NONE))) == [(0, "half_range")]
    assert refused(chain((ones, zero, RELU), (ones, huge, NONE))) == [(1, "half_range")]
    assert refused(chain((ones, zero, RELU), (-ones, huge, NONE))) == []
    # Nothing is known behind a node of the CPU.
    layers = bounded, (ones * 1400, zero, NONE), (ones, zero, NONE)
    assert refused(chain(*layers)) == [(1, "half_range")]


@pytest.mark.parametrize("seed", range(6))
def test_values_stay_within_the_proven_ranges(seed):
    """Of a graph of several operators, by the simulator, with ordinary and extreme inputs."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder("ranges")
    shape = (1, 4, 6, 16)
    x = builder.input("x", shape, DType.FLOAT32)
    tensors: list[int] = []

    def made(op: str, inputs, options=None, out=shape) -> int:
        tensors.append(builder.tensor(f"t{len(tensors)}", out, DType.FLOAT32))
        builder.operator(op, inputs, (tensors[-1],), options or tables.empty())
        builder.output(tensors[-1])
        return tensors[-1]

    def convolved(source: int, op: str, size, options) -> int:
        w = builder.constant("w", rng.normal(size=size).astype(np.float32))
        b = builder.constant("b", rng.normal(size=16).astype(np.float32))
        return made(op, (source, w, b), options)

    first = convolved(x, "CONV_2D", (16, 3, 3, 16), tables.conv_2d(activation=RELU6))
    second = convolved(first, "CONV_2D", (16, 1, 1, 16), tables.conv_2d())
    third = convolved(second, "DEPTHWISE_CONV_2D", (1, 3, 3, 16), tables.depthwise_conv_2d())
    sigmoid = made("LOGISTIC", (third,))
    swish = made("HARD_SWISH", (second,))
    total = made("ADD", (second, third), tables.add())
    product = made("MUL", (sigmoid, total), tables.mul())
    less = made("SUB", (product, swish), tables.sub())
    made("MINIMUM", (made("MAXIMUM", (less, total)), second))
    slope = builder.constant("slope", rng.normal(size=(1, 1, 16)).astype(np.float32))
    made("PRELU", (less, slope))
    model = builder.build()
    result = compiled(model, float="fp16")
    assert [r.op for r in result.rejections] == []
    ranges = half_ranges(facts_of(result.graph))
    assert set(ranges) == set(tensors)
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), {"device": "simulator", "float": "fp16"})
    interpreter = runtime.interpreter(model, [plugin], threads=1)
    closest = 0.0
    for scale in (1e-3, 1.0, 1e9):
        interpreter.set_tensor(0, (rng.normal(size=shape) * scale).astype(np.float32))
        interpreter.invoke()
        for tensor in tensors:
            low, high = ranges[tensor]
            ours = interpreter.get_tensor(tensor).reshape(-1, 16).astype(np.float64)
            room = 2.0**-9 * np.maximum(abs(low), abs(high)) + 2.0**-24
            assert np.isfinite(low).all()
            assert np.isfinite(high).all()
            assert (ours >= low - room).all()
            assert (ours <= high + room).all()
            closest = max(closest, float((ours.max() / high).max()))
    assert closest > 0.9


def test_relu_ends_where_fp16_does():
    model = chain((np.eye(8) * 1000, np.zeros(8), RELU), (np.eye(8) - 1, np.zeros(8), NONE))
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), {"device": "simulator", "float": "fp16"})
    interpreter = runtime.interpreter(model, [plugin], threads=1)
    for value in (1e3, 1e30, -1e30):
        interpreter.set_tensor(0, np.full((1, 4, 5, 8), value, np.float32))
        interpreter.invoke()
        ours = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        assert not np.isnan(ours).any()
        assert (ours == (0 if value < 0 else -np.inf)).all()


def weighted_model(op: str, weights: np.ndarray, scales: np.ndarray, axis: int) -> bytes:
    """A node of 5 x 6 pixels of 24 channels in float32 with quantised weights."""
    builder = ModelBuilder("dynamic range")
    x = builder.input("x", (1, 5, 6, 24), DType.FLOAT32)
    zeros = np.zeros(len(scales), np.int64)
    scaling = Quantization(tuple(map(float, scales)), tuple(map(int, zeros)), axis)
    w = builder.constant("w", weights, scaling)
    outputs = weights.shape[axis]
    b = builder.constant("b", np.linspace(-1, 1, outputs, dtype=np.float32))
    if op == "FULLY_CONNECTED":
        shape, made = (30, outputs), tables.fully_connected(Activation.NONE)
    elif op == "CONV_2D":
        shape, made = (1, 5, 6, outputs), tables.conv_2d()
    else:
        shape, made = (1, 5, 6, outputs), tables.depthwise_conv_2d()
    y = builder.tensor("y", shape, DType.FLOAT32)
    builder.operator(op, (x, w, b), (y,), made)
    builder.output(y)
    return builder.build()


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_int8_weights_are_the_numbers_that_they_stand_for(op, per_channel):
    rng = np.random.default_rng(7)
    shape, axis = {
        "CONV_2D": ((17, 1, 1, 24), 0),
        "DEPTHWISE_CONV_2D": ((1, 1, 1, 24), 3),
        "FULLY_CONNECTED": ((17, 24), 0),
    }[op]
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    scales = rng.uniform(1e-3, 1, shape[axis] if per_channel else 1).astype(np.float32)
    model = weighted_model(op, weights, scales, axis)
    assert compiled(model).partitions == ()
    assert len(compiled(model, float="fp16").partitions) == 1
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), {"device": "simulator", "float": "fp16"})
    interpreter = runtime.interpreter(model, [plugin], threads=1)
    x = rng.normal(size=(1, 5, 6, 24)).astype(np.float16).astype(np.float32)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    ours = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    along = [1] * len(shape)
    along[axis] = -1
    numbers = weights * scales.astype(np.float64).reshape(along)
    bias = np.linspace(-1, 1, shape[axis])
    if op == "DEPTHWISE_CONV_2D":
        exact, terms = (f(x) * f(numbers[0]) for f in (np.array, np.abs))
    else:
        matrix = numbers.reshape(shape[0], -1).T
        exact, terms = (
            f(x.reshape(-1, 24).astype(np.float64)) @ f(matrix) for f in (np.array, np.abs)
        )
    exact, terms = exact + bias, terms + np.abs(bias)
    # Weights are rounded to fp16, then the result.
    assert (np.abs(ours.reshape(exact.shape) - exact) <= 2.0**-9.9 * terms).all()


def test_int8_weights_that_integers_read_too_stay_integers():
    builder = ModelBuilder("both")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    w = builder.constant("w", np.ones((8, 1, 1, 8), np.int8), Quantization((0.5,), (0,), 0))
    b = builder.constant("b", np.zeros(8, np.float32))
    y = builder.tensor("y", (1, 5, 6, 8), DType.FLOAT32)
    builder.operator("CONV_2D", (x, w, b), (y,), tables.conv_2d())
    z = builder.tensor("z", (8, 1, 1, 8), DType.INT8, Quantization((0.5,), (0,), 0))
    builder.operator("RESHAPE", (w,), (z,), tables.reshape((8, 1, 1, 8)))
    builder.output(y)
    builder.output(z)
    assert compiled(builder.build(), float="fp16").partitions == ()


def doubling_model(size: tuple[int, int], kernel: tuple[int, int] = (2, 2)) -> bytes:
    """MediaPipe's custom operator from 5 x 6 pixels to ``size``."""
    rng = np.random.default_rng(5)
    builder = ModelBuilder("doubling")
    x = builder.input("x", (1, 5, 6, 24), DType.FLOAT32)
    w = builder.constant("w", rng.normal(size=(3, *kernel, 24)).astype(np.float32))
    b = builder.constant("b", rng.normal(size=3).astype(np.float32))
    y = builder.tensor("y", (1, *size, 3), DType.FLOAT32)
    builder.operator("CUSTOM:Convolution2DTransposeBias", (x, w, b), (y,))
    builder.output(y)
    return builder.build()


def test_mediapipes_transposed_convolution_runs_where_no_runtime_has_it():
    model = doubling_model((10, 12))
    graph = read_graph(model)
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), {"device": "simulator", "float": "fp16"})
    interpreter = runtime.interpreter(model, [plugin], threads=1)
    x = np.random.default_rng(6).normal(size=(1, 5, 6, 24)).astype(np.float16).astype(np.float32)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    ours = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    w, b = (graph.tensor(index).constant.astype(np.float64) for index in (1, 2))
    exact = np.zeros((10, 12, 3))
    for i in range(2):
        for j in range(2):
            exact[i::2, j::2] = x[0] @ w[:, i, j].T + b
    assert np.abs(ours[0] - exact).max() < 2.0**-9 * np.abs(exact).max()


@pytest.mark.parametrize(("size", "kernel"), [((9, 12), (2, 2)), ((10, 12), (3, 2))])
def test_other_transposed_convolutions_of_mediapipe_are_left_alone(size, kernel):
    assert rejected(doubling_model(size, kernel), float="fp16") == {"operator_supported"}


@pytest.mark.parametrize("operator", [logistic, tanh])
@pytest.mark.parametrize("change", [1, 0.75])
def test_the_bound_of_a_curve_holds_for_every_fp16(operator, change):
    """By the documented rule of the tables, in integers."""
    curve = operator.half_curve()
    units = change * curve.units
    curve = replace(curve, units=units)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)].astype(np.float64)
    index = np.clip(np.rint(x * units), -16384, 16384).astype(np.int64) + 16384
    low = np.minimum(index >> 5, 1023)
    rise = curve.entries[low + 1] - curve.entries[low]
    for step in (0, 31):  # whatever becomes of the fraction's last bits
        between = curve.entries[low] + ((rise * (index - 32 * low) + step) >> 5)
        ours = (between / 2.0**15).astype(np.float16).astype(np.float64)
        exact = 1 / (1 + np.exp(-np.clip(x, -700, 700))) if operator is logistic else np.tanh(x)
        bound = curve.bound
        assert (np.abs(ours - exact) <= bound.relative * np.abs(exact) + bound.absolute).all()
        # Beyond the tables the function's ends hold: nothing is left of 0.
        beyond = np.abs(x * units) >= 16384
        ends = np.where(x < 0, *curve.ends)
        np.testing.assert_array_equal(ours[beyond], ends[beyond])
    assert np.abs(ours - exact).max() > bound.absolute / 4


@needs_models
@pytest.mark.parametrize("value", ["off", "auto"])
def test_mediapipe_models(value):
    result = compiled(MODELS / "float" / "mediapipe_hand_landmark_lite.tflite", float=value)
    delegated = result.delegated_nodes
    assert delegated == 0 if value == "off" else delegated > 50


@pytest.mark.parametrize(("value", "taken"), [(0.0, True), (-0.0, False), (1.0, False)])
def test_borders_are_of_zeros(value, taken):
    """Their bytes are those of 0, all the same."""
    builder = ModelBuilder("border")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    y, z = (builder.tensor(name, (1, 7, 6, 8), DType.FLOAT32) for name in "yz")
    amounts = builder.constant("amounts", np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))
    number = builder.constant("value", np.array([value], np.float32))
    builder.operator("PADV2", (x, amounts, number), (y,), tables.empty())
    builder.operator("RELU", (y,), (z,))
    builder.output(z)
    assert rejected(builder.build(), float="fp16") == (set() if taken else {"half_pad_value"})


def test_a_border_is_a_part_of_the_convolution_behind_it():
    builder = ModelBuilder("border")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    y = builder.tensor("y", (1, 7, 8, 8), DType.FLOAT32)
    z = builder.tensor("z", (1, 5, 6, 8), DType.FLOAT32)
    amounts = builder.constant("amounts", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    weights = builder.constant("w", np.ones((8, 3, 3, 8), np.float32))
    bias = builder.constant("b", np.zeros(8, np.float32))
    builder.operator("PAD", (x, amounts), (y,), tables.empty())
    builder.operator("CONV_2D", (y, weights, bias), (z,), tables.conv_2d(Padding.VALID))
    builder.output(z)
    (partition,) = compiled(builder.build(), float="fp16").partitions
    assert [layer.nodes for layer in partition.layers] == [(0, 1)]


@needs_models
@pytest.mark.parametrize(
    "path", sorted((MODELS / "float").glob("mediapipe_*")), ids=lambda p: p.stem
)
def test_models_of_mediapipe_are_whole(path):
    made = compiled(path)
    assert len(made.partitions) == 1
    assert {r.op for r in made.rejections} <= {"DEQUANTIZE"}


def test_maxima_beyond_a_small_image_stay_on_the_cpu():
    """Their border would be mirrored from rows that are not there."""
    for rows, taken in ((2, True), (1, False)):
        builder = ModelBuilder("small")
        x = builder.input("x", (1, rows, 9, 8), DType.FLOAT32)
        y = builder.tensor("y", (1, rows, 9, 8), DType.FLOAT32)
        table = tables.pool_2d(Padding.SAME, filter_h=5, filter_w=3)
        builder.operator("MAX_POOL_2D", (x,), (y,), table)
        builder.output(y)
        found = rejected(builder.build(), float="fp16")
        assert found == (set() if taken else {"half_border_inside"})
