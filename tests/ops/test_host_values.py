"""QUANTIZE and DEQUANTIZE in the host's conversion, against the reference kernels, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.program import parse
from delegate.npu.tensor_layout import device_values
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.functions import edged_model
from rk3588_conformance.edge_grid import float_values
from rk3588_conformance.reference import compute_all
from tests.inferences import outputs
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results, simulated

FLOAT = DType.FLOAT32, None


def ends(dtype: DType) -> tuple[int, ...]:
    return (0, 9, 255) if dtype is DType.UINT8 else (-128, -3, 0, 127)


@for_each("dtype", [DType.INT8, DType.UINT8])
@for_each("scale", [1e-38, 3.1e-5, 0.5, 1.0, 1 / 3, 217.0])
def test_rounding_saturation_and_odd_numbers_are_the_kernels(scale: float, dtype: DType) -> None:
    if np.float32(scale) == 0:
        pytest.skip("the runtime of this thread flushes subnormals: the scale is 0, and refused")
    for zero_point in ends(dtype):
        inner = dtype, Quantization((float(np.float32(scale)),), (zero_point,))
        values = float_values(inner[1].scale, zero_point, dtype).reshape(1, 16, 16, 16)
        model = edged_model(values.shape, inner, before=FLOAT, after=FLOAT)
        ours = simulated(model, values)
        expected = kernel_results(model, values)
        np.testing.assert_array_equal(ours.view(np.int32), expected.view(np.int32))
        tensors = {0: values}
        for node in (graph := read_graph(model)).nodes:
            if node.op in ("QUANTIZE", "DEQUANTIZE"):  # the suite's own oracles
                found = compute_all(replace(graph, nodes=(node,)), tensors)
                tensors[2 if node.op == "QUANTIZE" else 3] = found[node.outputs[0]]
        np.testing.assert_array_equal(tensors[3].view(np.int32), expected.view(np.int32))
        (compiled,) = compile_model(model, Options(numerics="exact")).partitions
        (binding,) = parse(compiled.program).inputs
        levels = np.rint(expected / np.float32(inner[1].scale)) + zero_point
        np.testing.assert_array_equal(  # the reference of dumps
            device_values(binding, values), levels.reshape(values.shape) - dtype.element.offset
        )


SMALL = ((1, 1, 1, 1), (3, 5), (2, 7, 3, 33), (1, 23, 29, 16), (513,))
SEVERAL_BLOCKS = ((1, 67, 33, 35), (2, 41, 5, 123), (3, 9, 2, 600), (1, 300, 7, 3), (2, 1, 1, 4999))


@pytest.mark.parametrize("shape", [*SMALL, *SEVERAL_BLOCKS])
def test_any_shape_and_unaligned_memory(shape: tuple[int, ...]) -> None:
    inner = DType.INT8, Quantization((0.1,), (5,))
    model = edged_model(shape, inner, before=FLOAT, after=FLOAT)
    rng = np.random.default_rng(1)
    memory = np.empty(int(np.prod(shape)) * 4 + 1, np.uint8)
    values = memory[1:].view(np.float32).reshape(shape)
    values[...] = rng.normal(0, 9, shape)
    np.testing.assert_array_equal(simulated(model, values), kernel_results(model, values))


@pytest.mark.parametrize("shape", [*SMALL, *SEVERAL_BLOCKS])
def test_float32_is_fp16_on_the_device_in_any_shape(shape: tuple[int, ...]) -> None:
    builder = Net("edges in fp16")
    x = builder.input("x", shape, DType.FLOAT32)
    y = builder.result("RELU", (x,), "y", shape, dtype=DType.FLOAT32)
    builder.output(y)
    options = Options.from_mapping({"numerics": "exact", "float": "fp16"}, {})
    values = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    large = np.random.default_rng(2).random(shape) < 0.001  # most blocks have none
    values[large] *= 1e5
    ours = simulated(builder.build(), values, options=options)
    expected = np.clip(values, 0, 65504).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(ours, expected)


def test_a_compiled_model_converts_as_well() -> None:
    inner = DType.UINT8, Quantization((0.1,), (5,))
    model = edged_model((1, 9, 7, 5), inner, before=FLOAT, after=FLOAT)
    compiled = compile_ahead_of_time(model, Options(numerics="exact")).content
    values = np.random.default_rng(1).normal(0, 9, (1, 9, 7, 5)).astype(np.float32)
    (ours,) = outputs(compiled, values, device="simulator")
    np.testing.assert_array_equal(ours, kernel_results(model, values))


@for_each("zero_point", [0, 128, 255])
def test_a_value_far_beyond_the_type_is_the_kernels_without_others_that_have_no_int32(
    zero_point: int,
) -> None:
    inner = DType.UINT8, Quantization((1.0,), (zero_point,))
    model = edged_model((1, 1, 4, 16), inner, before=FLOAT, after=FLOAT)
    for step in (2.0**31 - 128, -(2.0**31) + 128, 2.0**30, 1e9):
        values = np.full((1, 1, 4, 16), step, np.float32)
        ours = simulated(model, values)
        np.testing.assert_array_equal(ours, kernel_results(model, values))
