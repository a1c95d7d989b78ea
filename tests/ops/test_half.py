"""Option ``float``: what runs in fp16, within which bound, and what is left to the CPU."""

import functools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from delegate.host.delegation import _announce_half, collect_delegations
from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime
from delegate.model.graph import Activation, DType, Padding
from delegate.model.tflite_reader import read_graph
from delegate.ops import gelu, logistic, tanh
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.mul import MulOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.sub import SubOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.families import case_names
from tests.inferences import outputs
from tests.loops import for_each
from tests.ops.half_models import SIMULATED, compiled, conv_model, rejected
from tests.shared_folder import MODELS, needs_models

_TABLES = {"ADD": AddOptions(), "SUB": SubOptions(), "MUL": MulOptions()}


@functools.cache
def cases() -> list[str]:
    return list(case_names(None, "Half."))


def test_the_judge_notices_what_is_just_outside():
    name = next(name for name in cases() if "Half.Conv" in name and name.endswith("plain"))
    from rk3588_conformance.execution import load_and_invoke, prepare

    prepared = prepare(name, None)
    options = Options.from_mapping(
        {"numerics": "exact", "device": "simulator", "float": "fp16"}, {}
    )
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
    """The metadata are those of a file, and of a running interpreter, which tells them itself."""
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


@for_each("odd", [np.nan, np.inf, 65505.0, -1e30])
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


@needs_models
def test_integer_models_are_the_same_bytes_whatever_the_option():
    for name in ("mobilenet_v1_0.25_128_quant", "yolo_lc_256_person_int8"):
        path = MODELS / f"{name}.tflite"
        programs = [
            [p.program for p in compiled(path, float=value).partitions] for value in ("off", "fp16")
        ]
        assert programs[0] == programs[1]


def below_relu(x: np.ndarray, *, by_tanh: bool) -> np.ndarray:
    size = np.abs(x)
    if by_tanh:
        inner = np.sqrt(2 / np.pi) * (size + 0.044715 * size**3)
        return size * (1 - np.tanh(inner)) / 2
    return size * np.vectorize(math.erfc)(size / np.sqrt(2)) / 2


CURVES = {
    "logistic": (logistic.half_curve(), lambda x: 1 / (1 + np.exp(-np.clip(x, -700, 700)))),
    "tanh": (tanh.half_curve(), np.tanh),
    "gelu": (gelu.half_curve(approximate=False), partial(below_relu, by_tanh=False)),
    "gelu by tanh": (gelu.half_curve(approximate=True), partial(below_relu, by_tanh=True)),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("change", [1, 0.75])
def test_the_bound_of_a_curve_holds_for_every_fp16(name, change):
    """By the documented rule of the tables, in integers."""
    curve, function = CURVES[name]
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
        exact = function(x)
        bound = curve.bound
        assert (np.abs(ours - exact) <= bound.relative * np.abs(exact) + bound.absolute).all()
        # Beyond the tables the function's ends hold: nothing, or hardly any, is left of 0.
        beyond = np.abs(x * units) >= 16384
        ends = np.where(x < 0, *curve.ends)
        left = 0 if name in ("logistic", "tanh") else curve.bound.absolute / 4
        np.testing.assert_allclose(ours[beyond], ends[beyond], rtol=0, atol=left)
    assert np.abs(ours - exact).max() > bound.absolute / 4


def _of_every_fp16(op: str, *ends: float) -> tuple[np.ndarray, np.ndarray]:
    """Return all numbers of fp16, infinities too, and what ``op`` gives of each and ``ends``."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[~np.isnan(x)].reshape(1, 1, -1, 2).astype(np.float32)
    builder = Net("every")
    given = builder.input("x", x.shape, DType.FLOAT32)
    constants = [builder.constant("end", np.float32(end)) for end in ends]
    result = builder.tensor("y", x.shape, DType.FLOAT32)
    builder.operator(op, (given, *constants), (result,))
    model = builder.build(result)
    assert rejected(model, float="fp16", deny_ops="NONE") == set()
    (ours,) = outputs(model, x, deny_ops="NONE", **SIMULATED)
    return x, ours


@for_each("end", [-0.4, 0.0, 3.0, 1 / 3, 65504.0, -65504.0, 6e-8])
@for_each("op", ["MAXIMUM", "MINIMUM"])
def test_values_with_an_end_are_themselves_or_the_end(op, end):
    """The way over a sum with the end moves only what is far below it, and no end is far above
    ordinary numbers there.
    """
    x, ours = _of_every_fp16(op, end)
    wanted = (np.maximum if op == "MAXIMUM" else np.minimum)(x, np.float32(end))
    is_held = np.isfinite(wanted)
    np.testing.assert_array_equal(ours[~is_held], wanted[~is_held])
    exact = wanted.astype(np.float16).astype(np.float32)
    far = is_held & (np.abs(wanted) * 4096 <= abs(end)) & (abs(end) <= 16)
    assert np.abs(ours[far] - wanted[far]).max(initial=0) <= abs(end) * 2.0**-23 + 2.0**-25
    np.testing.assert_array_equal(ours[is_held & ~far], exact[is_held & ~far])


@for_each("op", ["ADD", "SUB", "MUL", "MAXIMUM"])
@for_each(
    "given, shape, taken",
    [
        ((1, 5, 6, 8), (1, 5, 6, 8), True),
        ((1, 5, 6, 8), (5, 1, 1), True),
        ((3, 5, 6, 8), (3, 1, 6, 1), True),
        ((1, 5, 6, 8), (2, 5, 6, 8), False),
        ((1, 5, 6, 1), (1, 5, 6, 8), False),  # both are repeated
    ],
)
def test_which_constants_a_map_meets(op, given, shape, taken):
    builder = Net("constant")
    x = builder.input("x", given, DType.FLOAT32)
    constant = np.linspace(-3, 3, math.prod(shape), dtype=np.float32).reshape(shape)
    result = builder.tensor("y", (given[0], 5, 6, 8), DType.FLOAT32)
    builder.operator(op, (x, builder.constant("c", constant)), (result,), _TABLES.get(op))
    found = rejected(builder.build(result), float="fp16", deny_ops="NONE")
    assert found == (set() if taken else {"half_operands"})


@for_each("odd", [np.nan, np.inf, 65505.0])
def test_constants_of_a_map_that_fp16_cannot_hold_stay_on_the_cpu(odd):
    builder = Net("constant")
    x = builder.input("x", (1, 2, 2, 8), DType.FLOAT32)
    constant = np.full((1, 2, 2, 8), 1.0, np.float32)
    constant[0, 1, 1, 3] = odd
    result = builder.tensor("y", (1, 2, 2, 8), DType.FLOAT32)
    builder.operator("ADD", (x, builder.constant("c", constant)), (result,), AddOptions())
    assert rejected(builder.build(result), float="fp16") == {"half_operands"}


def test_magnitudes_are_exact():
    x, ours = _of_every_fp16("ABS")
    np.testing.assert_array_equal(ours, np.abs(x))


def test_dilated_depthwise_kernels_have_zeros_between_their_taps():
    """Nobody has run such tasks in fp16 with taps apart."""
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-8, 9, n).astype(np.float32) for n in ((1, 11, 14, 21), (1, 3, 3, 21)))
    builder = Net("dilated")
    given = builder.input("x", x.shape, DType.FLOAT32)
    bias = builder.constant("b", np.zeros(21, np.float32))
    y = builder.tensor("y", (1, 7, 8, 21), DType.FLOAT32)
    table = DepthwiseOptions(Padding.VALID, dilation_h=2, dilation_w=3)
    builder.operator("DEPTHWISE_CONV_2D", (given, builder.constant("w", w), bias), (y,), table)
    model = builder.build(y)
    assert rejected(model, float="fp16", deny_ops="NONE") == set()
    (ours,) = outputs(model, x, deny_ops="NONE", **SIMULATED)
    taps = ((i, j) for i in range(3) for j in range(3))
    parts = [x[:, 2 * i : 2 * i + 7, 3 * j : 3 * j + 8] * w[0, i, j] for i, j in taps]
    np.testing.assert_array_equal(ours, np.sum(parts, 0))


@for_each("images", [1, 3])
@for_each("channels", [37, 4104])
@for_each("activation", [Activation.NONE, Activation.RELU, Activation.RELU6])
def test_a_pixel_of_each_image_multiplies_the_maps(images, channels, activation):
    """37 channels do not fill their last surface, 4,104 are more than a task takes."""
    rng = np.random.default_rng(images)
    maps, pixels = (
        rng.normal(scale=3, size=size).astype(np.float16).astype(np.float32)
        for size in ((3, 2, 3, channels), (images, 1, 1, channels))
    )
    builder = Net("pixels")
    given = [builder.input(n, x.shape, DType.FLOAT32) for n, x in (("x", maps), ("y", pixels))]
    result = builder.tensor("z", maps.shape, DType.FLOAT32)
    builder.operator("MUL", given, (result,), MulOptions(activation))
    model = builder.build(result)
    assert rejected(model, float="fp16", deny_ops="NONE") == set()
    (ours,) = outputs(model, maps, pixels, deny_ops="NONE", **SIMULATED)
    most = {Activation.NONE: None, Activation.RELU: np.inf, Activation.RELU6: 6.0}[activation]
    wanted = (maps * pixels).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(ours, wanted if most is None else np.clip(wanted, 0, most))


@for_each("window", [(2, 2), (7, 7), (3, 5), (1, 31), (29, 1), (13, 11), (31, 31)])
def test_means_of_equal_pixels_are_those_pixels(window):
    """One over 49 in fp16 is off by 0.035 %, which more than half of these numbers would show."""
    values = np.random.default_rng(window).normal(scale=300, size=21).astype(np.float16)
    x = np.broadcast_to(values, (1, *window, 21)).astype(np.float32)
    builder = Net("means")
    given = builder.input("x", x.shape, DType.FLOAT32)
    builder.output(builder.pool("AVERAGE_POOL_2D", given, *window, padding=Padding.VALID))
    (ours,) = outputs(builder.build(), x, deny_ops="NONE", **SIMULATED)
    np.testing.assert_array_equal(ours.reshape(-1), values.astype(np.float32))


@for_each("value, taken", [(0.0, True), (-0.0, False), (1.0, False)])
def test_borders_are_of_zeros(value, taken):
    """Their bytes are those of 0, all the same."""
    builder = Net("border")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    y, z = (builder.tensor(name, (1, 7, 6, 8), DType.FLOAT32) for name in "yz")
    amounts = builder.constant("amounts", np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))
    number = builder.constant("value", np.array([value], np.float32))
    builder.operator("PADV2", (x, amounts, number), (y,))
    builder.operator("RELU", (y,), (z,))
    assert rejected(builder.build(z), float="fp16") == (set() if taken else {"half_pad_value"})


def test_a_border_is_a_part_of_the_convolution_behind_it():
    builder = Net("border")
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    y = builder.tensor("y", (1, 7, 8, 8), DType.FLOAT32)
    z = builder.tensor("z", (1, 5, 6, 8), DType.FLOAT32)
    amounts = builder.constant("amounts", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    weights = builder.constant("w", np.ones((8, 3, 3, 8), np.float32))
    bias = builder.constant("b", np.zeros(8, np.float32))
    builder.operator("PAD", (x, amounts), (y,))
    builder.operator("CONV_2D", (y, weights, bias), (z,), ConvOptions(Padding.VALID))
    (partition,) = compiled(builder.build(z), float="fp16").partitions
    assert [layer.nodes for layer in partition.layers] == [(0, 1)]


def test_maxima_beyond_a_small_image_stay_on_the_cpu():
    """Their border would be mirrored from rows that are not there."""
    for rows, taken in ((2, True), (1, False)):
        builder = Net("small")
        x = builder.input("x", (1, rows, 9, 8), DType.FLOAT32)
        y = builder.tensor("y", (1, rows, 9, 8), DType.FLOAT32)
        table = PoolOptions(Padding.SAME, filter_h=5, filter_w=3)
        builder.operator("MAX_POOL_2D", (x,), (y,), table)
        found = rejected(builder.build(y), float="fp16")
        assert found == (set() if taken else {"half_border_inside"})


def doubling_model(size: tuple[int, int], kernel: tuple[int, int] = (2, 2)) -> bytes:
    """MediaPipe's custom operator from 5 x 6 pixels to ``size``."""
    rng = np.random.default_rng(5)
    builder = Net("doubling")
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
