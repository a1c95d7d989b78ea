"""Inputs of another shape: nodes are compiled again, and what does not compile runs on the CPU."""

import numpy as np
import pytest

import rk3588_conformance.builder.layers as layers
from delegate import _native
from delegate.model.graph import DType
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.ranges import random_quantization
from tests.native.inference import invoke


def test_resize_compiles_again(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    index = interpreter.get_input_details()[0]["index"]
    for batch in (3, 1, 2):
        interpreter.resize_tensor_input(index, (batch, 7, 5, 3))
        interpreter.allocate_tensors()
        assert invoke(interpreter).shape == (batch, 7, 5, 5)
        assert (invoke(interpreter) == 128).all()


def resized(runtime, model: bytes, shape, values, **arguments):
    """The interpreter, and what it gives for ``values``."""
    interpreter = runtime.Interpreter(model_content=model, **arguments)
    return interpreter, run_resized(interpreter, shape, values)


def run_resized(interpreter, shape, values) -> list[np.ndarray]:
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()
    shapes = [tuple(d["shape"]) for d in interpreter.get_output_details()]
    interpreter.set_tensor(index, values)
    interpreter.invoke()
    results = [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]
    assert [r.shape for r in results] == shapes  # told before the inference
    return results


def kernels(runtime, resolver: str):
    return {"experimental_op_resolver_type": getattr(runtime.OpResolverType, resolver)}


RESOLVERS = ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("ops", [("CONV_2D",), ("CONV_2D", "DEPTHWISE_CONV_2D")])
def test_a_shape_that_does_not_compile_runs_on_the_cpu(
    runtime, load, compiler, model, caplog, ops, resolver
):
    """By the runtime's kernels alone; shapes that compile run on the NPU before and after."""
    compiler.ops = ops
    values = np.random.default_rng(3).integers(0, 256, (9, 7, 5, 3)).astype(np.uint8)
    arguments = kernels(runtime, resolver)
    _, (expected,) = resized(runtime, model, values.shape, values, **arguments)
    interpreter = runtime.Interpreter(
        model_content=model, experimental_delegates=[load()], **arguments
    )
    for _ in range(2):
        submits = _native.submit_count()
        (result,) = run_resized(interpreter, values.shape, values)
        assert _native.submit_count() == submits
        np.testing.assert_array_equal(result, expected)
        assert "do not compile for the new shapes and run on the CPU" in caplog.text
        (result,) = run_resized(interpreter, (1, 7, 5, 3), values[:1])
        assert _native.submit_count() > submits
        assert (result == 128).all()


def test_strict_makes_a_shape_that_does_not_compile_an_error_and_the_old_one_works_again(
    runtime, load, compiler, model
):
    compiler.ops = ("CONV_2D", "DEPTHWISE_CONV_2D")
    interpreter = runtime.Interpreter(
        model_content=model, experimental_delegates=[load(strict="true")]
    )
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (9, 7, 5, 3))
    with pytest.raises(RuntimeError, match=r"nodes \[0, 1, 2\] do not compile for the new shapes"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(index, (1, 7, 5, 3))
    interpreter.allocate_tensors()
    assert (invoke(interpreter) == 128).all()


def test_a_shape_that_neither_takes_is_an_error(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (9, 7, 5, 4))  # images and channels
    with pytest.raises(RuntimeError, match="node 0, left to the CPU, fails to prepare"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_many_nodes_on_the_cpu_add_their_own_tensors(runtime, load, compiler, resolver):
    """Kernels hold pointers to tensors while they add some: the array must not move then."""
    rng = np.random.default_rng(7)
    builder = Net("long", rng)
    quantization = random_quantization(rng, DType.UINT8, None, None)
    x = builder.input("x", (1, 4, 5, 3), DType.UINT8, quantization)
    for _ in range(120):
        x = builder.conv(x, 3, layers.Window(3, 3))
    model = builder.build(x)
    values = rng.integers(0, 256, (9, 6, 3, 3)).astype(np.uint8)
    arguments = kernels(runtime, resolver)
    _, (expected,) = resized(runtime, model, values.shape, values, **arguments)
    interpreter, (result,) = resized(
        runtime, model, values.shape, values, experimental_delegates=[load()], **arguments
    )
    np.testing.assert_array_equal(result, expected)
    (result,) = run_resized(interpreter, values[::-1].shape, values[::-1])
    np.testing.assert_array_equal(result, expected[::-1])
