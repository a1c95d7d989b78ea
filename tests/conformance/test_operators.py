"""Tests who is blamed for a graph's difference: what single steps become, and nothing else."""

import numpy as np

from delegate.host.runtimes import find_runtime, invoke
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.shared import functions
from delegate.options import Options
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import reshape
from rk3588_conformance.builder.pooling import pool
from rk3588_conformance.execution import run_case
from rk3588_conformance.operators import inexact_tensors, most_off, operators_off
from rk3588_conformance.outcome import Status
from tests.loops import for_each

STEEP = "EdgeMoves.Ends/move_channels_first_shape_1x3x17x80_type_uint8_task_conv_behind_logistic"
ON_RK3576 = Options.from_mapping({"device": "simulator", "chip": "rk3576", "deny_ops": ""}, {})
SIGMOID = Quantization((1 / 256,), (-128,))
ZERO_POINT = 11


def steep_model(scale: float, *, sigmoids: int = 1) -> bytes:
    """A convolution whose results have ``scale``, reshaped, with LOGISTIC behind it."""
    builder = ModelBuilder("steep")
    x = builder.input("x", (1, 3, 5, 8), DType.INT8, Quantization((0.05,), (3,)))
    numbers = Arithmetic(output_scale=scale, output_zero_point=ZERO_POINT)
    y = layers.conv(builder, np.random.default_rng(1), x, 8, Window(1, 1), arithmetic=numbers)
    y = reshape(builder, y, (1, 120))
    for _ in range(sigmoids):
        y = function(builder, "LOGISTIC", (y,), SIGMOID)
    return builder.build(y)


def sigmoid(scale: float, zero_point: int) -> np.ndarray:
    """Results of -128 to 127, by the formula."""
    real = scale * (np.arange(-128, 128) - zero_point)
    return np.clip(np.floor(256 / (1 + np.exp(-real)) + 0.5) - 128, -128, 127).astype(int)


@for_each("scale", [0.01, 0.04, 0.1, 0.7])
def test_a_step_becomes_what_the_steepest_place_of_a_function_makes_of_it(scale):
    steepest = int(np.abs(np.diff(sigmoid(scale, ZERO_POINT))).max())
    model = steep_model(scale)
    assert most_off(model, read_graph(model)) == steepest
    again = sigmoid(1 / 256, -128)
    reached = max(int(np.abs(again[d:] - again[:-d]).max()) for d in range(1, steepest + 1))
    model = steep_model(scale, sigmoids=2)
    assert most_off(model, read_graph(model)) == reached


def test_what_is_no_function_counts_as_one_step():
    builder = ModelBuilder("two")
    x = builder.input("x", (1, 4, 4, 16), DType.INT8, Quantization((0.05,), (3,)))
    window = Window(2, 2)
    y = layers.conv(builder, np.random.default_rng(1), x, 16, window)
    model = builder.build(pool(builder, "AVERAGE_POOL_2D", y, 2, 2))
    assert most_off(model, read_graph(model)) == 1


def test_functions_and_moves_have_no_tolerance():
    model = steep_model(0.1)
    graph = read_graph(model)
    assert inexact_tensors(graph) == {graph.nodes[0].outputs[0]}
    interpreter = find_runtime().interpreter(model, reference_kernels=True)
    x = np.random.default_rng(2).integers(-128, 128, (1, 3, 5, 8), np.int8)
    interpreter.set_tensor(graph.inputs[0], x)
    invoke(interpreter)
    table = sigmoid(0.1, ZERO_POINT).astype(np.int8)
    numbers = np.arange(120) - 60
    inner, end = graph.nodes[0].outputs[0], graph.outputs[0]
    exact = {
        graph.inputs[0]: x,
        inner: interpreter.get_tensor(inner),
        end: interpreter.get_tensor(end),
    }
    assert operators_off(model, graph, exact) == []
    # A step of the convolution shows in the function, and is no fault of that.
    moved = exact[inner] + np.where(exact[inner] < 127, 1, -1).astype(np.int8)
    looked_up = table[moved.astype(int) + 128].reshape(1, 120)
    assert np.abs(looked_up.astype(int) - exact[end]).max() > 1
    assert operators_off(model, graph, {**exact, inner: moved, end: looked_up}) == []
    wrong = looked_up + (numbers == 7).astype(np.int8)
    assert operators_off(model, graph, {**exact, inner: moved, end: wrong}) == [
        "node 2 (LOGISTIC) is off by 1, given its inputs"
    ]
    twice = exact[inner] + np.where(exact[inner] < 126, 2, -2).astype(np.int8)
    looked_up = table[twice.astype(int) + 128].reshape(1, 120)
    assert operators_off(model, graph, {**exact, inner: twice, end: looked_up}) == [
        "node 0 (CONV_2D) is off by 2, given its inputs"
    ]


def test_a_function_doubles_a_step_but_no_wrong_entry_of_it_passes(monkeypatch):
    assert run_case(STEEP, None, ON_RK3576).max_abs_diff == 2
    assert run_case(STEEP, None, ON_RK3576).status is Status.OK
    made = functions.float_table

    def wrong(values, *numbers):
        return made(values, *numbers) + (values == 130)

    monkeypatch.setattr(functions, "float_table", wrong)
    outcome = run_case(STEEP, None, ON_RK3576)
    assert outcome.status is Status.FAILED
    assert "(LOGISTIC) is off by 1, given its inputs" in outcome.message


def test_functions_alone_have_no_share_of_the_chip(monkeypatch):
    name = "EdgeMoves.Ends/move_anchors_shape_1x3x17x80_type_uint8_task_values_behind_logistic"
    assert run_case(name, None, ON_RK3576).status is Status.OK
    made = functions.float_table
    monkeypatch.setattr(functions, "float_table", lambda x, *n: made(x, *n) + (x == 130))
    outcome = run_case(name, None, ON_RK3576)
    assert outcome.status is Status.FAILED
    assert "elements differ; at most 0 may" in outcome.message
