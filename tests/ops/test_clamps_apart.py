"""Activations in tasks for which nobody is known to have run their clamps: a task behind clamps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from delegate.compile.compiler import CompileResult, compile_model
from delegate.lower.task import BufferId
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.mul import MulOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.lower import fusion_graphs as f

CLAMPS = {
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}
SHAPES = [(1, 5, 7, 16), (2, 3, 1, 33)]


def transposed(activation: Activation, dtype: DType, shape: tuple[int, ...]) -> bytes:
    net, x = f.start(dtype, shape, scale=0.02)
    per_channel = dtype is DType.INT8
    sides = (4, 4), (2, 2), Padding.SAME
    return net.build(
        net.transpose_conv(x, 24, *sides, per_channel=per_channel, activation=activation)
    )


def product(activation: Activation, dtype: DType, shape: tuple[int, ...]) -> bytes:
    net, x = f.start(dtype, shape, scale=0.02)
    other = f.more(net, dtype, shape, 0.07, "other")
    result = Quantization((0.06,), (f.middle(dtype, -24),))
    return net.build(net.function("MUL", (x, other), result, MulOptions(activation)))


def clamped(model: bytes, results: np.ndarray, activation: Activation) -> np.ndarray:
    """Return results between the activation's ends, in whole steps."""
    graph = read_graph(model)
    scaling = graph.tensor(graph.outputs[0]).quantization
    assert scaling is not None
    low, high = (np.rint(np.clip(end / scaling.scale, -999, 999)) for end in CLAMPS[activation])
    zero = scaling.zero_point
    return np.clip(results.astype(np.int64), int(low) + zero, int(high) + zero)


def assert_shown(result: CompileResult) -> None:
    """On a board what a task writes to an output has to show that it ran: none reads it."""
    tasks = [task for layer in result.partitions[0].layers for task in layer.tasks]
    writing = [task for task in tasks if task.output.target.buffer is BufferId.OUTPUT]
    assert writing
    assert all(task.source.buffer is not BufferId.OUTPUT for task in writing)


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6])
def test_what_is_clamped_behind_in_fp16_shows_that_it_ran(activation: Activation) -> None:
    net = Net("half", np.random.default_rng(1))
    x, y = (net.input(name, (1, 5, 7, 16), DType.FLOAT32) for name in "xy")
    model = net.build(net.function("MUL", (x, y), None, MulOptions(activation)))
    assert_shown(compile_model(model, Options.from_mapping({"float": "fp16", "deny_ops": ""}, {})))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", f.TYPES, ids=str)
@pytest.mark.parametrize("activation", CLAMPS, ids=lambda one: one.name)
@pytest.mark.parametrize("built", [transposed, product], ids=["TRANSPOSE_CONV", "MUL"])
def test_what_is_clamped_behind_stays_between_the_ends(
    built: Callable[[Activation, DType, tuple[int, ...]], bytes],
    activation: Activation,
    dtype: DType,
    shape: tuple[int, ...],
) -> None:
    """tflite-runtime's TRANSPOSE_CONV has no activation, so results without one are clamped."""
    plain, model = (built(one, dtype, shape) for one in (Activation.NONE, activation))
    arrays = f.inputs_of(plain)
    (results,) = f.references(plain, arrays)
    wanted = clamped(model, results, activation)
    assert (wanted != results).any()
    compiled, (ours,) = f.run(model, f.AUTO, arrays)
    assert_shown(compiled)
    assert np.abs(ours.astype(np.int64) - wanted).max() <= 1
    assert wanted.min() <= ours.min() <= ours.max() <= wanted.max()
