"""Float operators between int8 tensors become int8, with the same results but for rounding."""

import numpy as np
import pytest

from delegate.model.graph import DType, Quantization
from delegate.model.operator_options import Options
from delegate.model.tflite_reader import read_graph
from delegate.ops.leaky_relu import LeakyReluOptions
from rk3588_conformance.builder import Net
from rk3588_vision.quantization.int8_islands import with_int8_islands
from tests.inferences import outputs

SHAPE = (1, 6, 5, 4)
SOURCE, TARGET = Quantization((0.0625,), (3,)), Quantization((0.03125,), (-20,))
SLOPES = np.array([[[0.5, -0.25, 0.1, 1.5]]], np.float32)


def model(op: str, options: Options | None = None, *, reads_twice: bool = False) -> bytes:
    """int8, DEQUANTIZE, the operator, QUANTIZE; ``reads_twice``: its result is an output, too."""
    builder = Net("island")
    x = builder.input("x", SHAPE, DType.INT8, SOURCE)
    real = builder.tensor("x_real", SHAPE, DType.FLOAT32)
    builder.operator("DEQUANTIZE", [x], [real])
    operands = [real, builder.constant("slopes", SLOPES)] if op == "PRELU" else [real]
    y = builder.tensor("y", SHAPE, DType.FLOAT32)
    builder.operator(op, operands, [y], options)
    result = builder.result("QUANTIZE", [y], "y_quantized", SHAPE, TARGET, dtype=DType.INT8)
    return builder.build(*([y] if reads_twice else []), result)


def result(content: bytes) -> np.ndarray:
    values = np.random.default_rng(1).integers(-128, 128, SHAPE, np.int8)
    return outputs(content, values)[0]


@pytest.mark.parametrize(
    ("op", "options", "most"),
    [("PRELU", None, 1), ("LEAKY_RELU", LeakyReluOptions(0.3), 1), ("RELU6", None, 1)],
)
def test_an_operator_between_int8_tensors_becomes_int8(
    op: str, options: Options | None, most: int
) -> None:
    before = model(op, options)
    after = with_int8_islands(before)
    graph = read_graph(after)
    assert [node.op for node in graph.nodes] == [op]
    (node,) = graph.nodes
    assert {graph.tensor(t).dtype for t in (*node.inputs, *node.outputs)} == {DType.INT8}
    assert graph.tensor(node.outputs[0]).name == "y"  # as in the float model
    assert graph.tensor(node.outputs[0]).quantization == TARGET
    difference = result(before).astype(int) - result(after).astype(int)
    assert 0 <= np.abs(difference).max() <= most
    assert len(np.unique(result(after))) > 20


def test_what_shall_stay_float_stays() -> None:
    content = model("PRELU")
    assert with_int8_islands(content, {"y"}) == content
    twice = model("PRELU", reads_twice=True)
    assert with_int8_islands(twice) == twice
    unknown = model("SIN")
    assert with_int8_islands(unknown) == unknown
