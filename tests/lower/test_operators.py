"""Operators against the reference kernels, beyond what conformance families draw."""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model, compile_partition
from delegate.lower.task import ConvTask
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Net, conv_model
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.random_layers import Numbers
from tests.inferences import interpreter_of, invoke
from tests.lower.fusion_graphs import AUTO, EXACT, inputs_of, off, references, run
from tests.lower.reference import (
    differences,
    lower_model,
    random_inputs,
    tflite_outputs,
    whole_graph,
)


@pytest.mark.parametrize("batch", [2, 3])
def test_batches_share_the_weights(batch):
    rng = np.random.default_rng(batch)
    model = conv_model(rng, 6, 9, 12, 20, 3, 3, batch=batch)
    (difference,) = differences(model, rng)
    assert not difference.any()
    _, _, lowered = lower_model(model)
    reuse = [task.weight_reuse for task in lowered.layers[0].tasks]
    assert reuse == [False] + [True] * (batch - 1)


ENDS = np.iinfo(np.int32)
INPUTS = 16


def model(scale: float, bias: int, weights: np.ndarray) -> bytes:
    """Two channels, of which the second has ``scale`` times the scale of the first."""
    builder = Net("dead")
    x = builder.input("x", (1, INPUTS), DType.INT8, Quantization((1.0,), (0,)))
    numbers = Arithmetic(
        per_channel=True,
        weights=weights,
        weight_scales=(1e-3, 1e-3 * scale),
        bias=np.array([5, bias], np.int32),
        output_scale=1.0,
        output_zero_point=0,
    )
    return builder.build(builder.fully_connected(x, 2, numbers))


@pytest.mark.parametrize("bias", [ENDS.min, ENDS.max])
@pytest.mark.parametrize("scale", [1e-12, 1e-7, 1e-6, 3e-6, 1e-5])
def test_they_are_delegated_only_where_the_runtime_gives_one_result(scale: float, bias: int):
    weights = np.full((2, INPUTS), 127, np.int8)
    content = model(scale, bias, weights)
    result = compile_model(content, Options.from_mapping({"device": "simulator"}, {}))
    interpreter = interpreter_of(content)
    seen = set()
    for value in (-128, 0, 127):  # the sum wraps for one sign
        (output,) = invoke(interpreter, np.full((1, INPUTS), value, np.int8))
        seen.add(int(output[0, 1]))
    assert result.delegated_nodes == (len(seen) == 1), seen
    if result.rejections:
        assert [r.rule for r in result.rejections] == ["accumulator_fits_int32"]


TINY = 7.9e-9
"""The least scale that TensorFlow's converter gives: its narrowest range, 2e-6, over 255 steps."""


def tiny_model(channels: int, activation: Activation, zero_point: int, *, dense: bool) -> bytes:
    rng = np.random.default_rng([channels, zero_point + 128])
    builder = Net("tiny", rng)
    x = builder.input("x", (1, 14, 13, channels), DType.INT8, Quantization((TINY,), (-1,)))
    numbers = Arithmetic(
        activation=activation,
        per_channel=True,
        weight_scales=tuple(rng.uniform(2e-5, 5e-5, channels)),
        bias=rng.integers(-20_000, 20_000, channels, dtype=np.int32),
        output_scale=TINY,
        output_zero_point=zero_point,
    )
    if dense:
        return builder.build(builder.conv(x, channels, Window(3, 3), numbers))
    return builder.build(builder.depthwise(x, Window(3, 3), numbers))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("channels", "activation", "zero_point"),
    [
        (48, Activation.RELU6, -1),
        (37, Activation.RELU, 40),
        (16, Activation.RELU6, 127),
        (20, Activation.RELU_N1_TO_1, -100),
    ],
)
def test_a_clamp_within_the_range_has_known_forms(channels, activation, zero_point, dense):
    """No node stays on the CPU, and results are the reference kernels', but for a step at ties."""
    content = tiny_model(channels, activation, zero_point, dense=dense)
    arrays = inputs_of(content, 3)
    for options, most in ((AUTO, 1 / 50), (EXACT, 1 / 1000)):
        _, results = run(content, options, arrays)
        steps = off(results[0], references(content, arrays)[0])
        assert steps.max() <= 1
        assert (steps > 0).mean() <= most


@pytest.mark.parametrize("per_channel", [False, True], ids=["per tensor", "per channel"])
@pytest.mark.parametrize(
    ("is_depthwise", "apart", "expected"),
    [
        (False, (2, 2), (2, 2)),
        (False, (4, 4), (4, 4)),
        (False, (1, 3), (1, 1)),  # a recorded program has both sides dilated
        (True, (2, 2), (1, 1)),  # none has a dilated depthwise kernel
    ],
)
def test_known_dilations_take_no_more_taps(
    is_depthwise: bool, apart: tuple[int, int], expected: tuple[int, int], per_channel: bool
) -> None:
    rng = np.random.default_rng(apart)
    b = Net("dilated", rng)
    x = b.input("x", (1, 19, 23, 40), DType.INT8, Quantization((0.1,), (5,)))
    window = Window(3, 3, 1, 1, *apart, padding=Padding.SAME)
    numbers = Numbers(per_channel=per_channel)
    if is_depthwise:
        b.output(b.depthwise(x, window, numbers))
    else:
        b.output(b.conv(x, 37, window, numbers))
    model = b.build()
    graph = read_graph(model)
    partition = whole_graph(graph)
    compiled = compile_partition(graph, partition, numerics="auto")
    tasks = [task for layer in compiled.layers for task in layer.tasks]
    assert {task.dilations for task in tasks if isinstance(task, ConvTask)} == {expected}
    given = random_inputs(graph, partition.inputs, rng)
    (ours,) = Executable(compiled.program, "simulator").run(given)
    (theirs,) = tflite_outputs(model, partition, given)
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
