"""Dilated convolutions: taps lie apart where others have run that, else zeros between them."""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_partition
from delegate.lower.task import ConvTask
from delegate.model.graph import DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.layers import Window, conv, depthwise
from rk3588_conformance.random_layers import Numbers
from tests.lower.reference import random_inputs, tflite_outputs, whole_graph


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
    b = ModelBuilder("dilated")
    x = b.input("x", (1, 19, 23, 40), DType.INT8, Quantization((0.1,), (5,)))
    window = Window(3, 3, 1, 1, *apart, padding=Padding.SAME)
    numbers = Numbers(per_channel=per_channel)
    if is_depthwise:
        b.output(depthwise(b, rng, x, window, numbers))
    else:
        b.output(conv(b, rng, x, 37, window, numbers))
    model = b.build()
    graph = read_graph(model)
    partition = whole_graph(graph)
    compiled = compile_partition(graph, partition, numerics="auto")
    tasks = [task for layer in compiled.layers for task in layer.tasks]
    assert {task.dilations for task in tasks if isinstance(task, ConvTask)} == {expected}
    given = random_inputs(graph, partition.inputs, rng)
    (ours,) = Executable(compiled.program, "simulator").run(given)
    (theirs,) = tflite_outputs(model, graph, partition, given)
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
