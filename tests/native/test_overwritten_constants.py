"""Inputs of a model that are constants: a host that sets them gets what the runtime alone gives."""

import numpy as np
import pytest

import delegate
import delegate.compile.plugin
from delegate.errors import LoweringError
from delegate.host.delegation import collect_delegations
from delegate.model.graph import DType, Quantization
from delegate.ops.conv_2d import ConvOptions
from delegate.partition.rules import PARTITION_COMPILES
from rk3588_conformance.builder import Net, layers
from tests.inferences import interpreter_of

SHAPE = (2, 3, 5, 24)


def addition() -> tuple[Net, int]:
    builder = Net()
    quantization = Quantization((0.5,), (3,))
    x = builder.input("x", SHAPE, DType.INT8, quantization)
    constant = builder.constant("c", np.full(SHAPE, 3, np.int8), quantization)
    builder.output(builder.add(x, constant))
    return builder, constant


def convolution() -> tuple[Net, int]:
    builder = Net()
    x = builder.input("x", SHAPE, DType.INT8, Quantization((0.5,), (3,)))
    builder.output(builder.conv(x, 19, layers.Window(3, 3)))
    return builder, x + 1  # the weights


def delegated(content: bytes):
    with collect_delegations() as found:
        interpreter = interpreter_of(content, device="simulator", log_level="error", float="fp16")
    assert found[0].delegated_nodes == found[0].total_nodes
    return interpreter


@pytest.mark.parametrize("make", [addition, convolution])
def test_a_constant_that_is_set_counts(make) -> None:
    builder, constant = make()
    builder._graph.inputs += (constant,)
    content = builder.build()
    # A copy each: a runtime that is given bytes writes into them.
    interpreters = [make(bytes(bytearray(content))) for make in (delegated, interpreter_of)]
    rng = np.random.default_rng(1)
    seen = []
    for is_set in (False, True, False, True):
        values = rng.integers(-128, 128, SHAPE, np.int8)
        constants = rng.integers(-127, 128, builder.spec(constant).shape, np.int8)
        outputs = []
        for interpreter in interpreters:
            interpreter.set_tensor(0, values)
            if is_set:
                interpreter.set_tensor(constant, constants)
            interpreter.invoke()
            outputs.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        np.testing.assert_array_equal(*outputs)
        seen.append(outputs[1])
    assert not np.array_equal(seen[0], seen[1])


def test_constants_that_do_not_compile_are_an_error_until_they_are_set_back(monkeypatch) -> None:
    builder, constant = addition()
    builder._graph.inputs += (constant,)
    interpreter = delegated(bytes(bytearray(builder.build())))
    first = interpreter.get_tensor(constant)
    interpreter.set_tensor(0, np.ones(SHAPE, np.int8))
    interpreter.invoke()
    output = interpreter.get_output_details()[0]["index"]
    expected = interpreter.get_tensor(output)

    def refuse(*_: object) -> None:
        raise LoweringError(0, PARTITION_COMPILES, "asked not to")

    with monkeypatch.context() as patched:
        patched.setattr(delegate.compile.plugin, "compile_context", refuse)
        interpreter.set_tensor(constant, first + 1)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="does not compile with the constants it has"):
                interpreter.invoke()
    interpreter.set_tensor(constant, first)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(output), expected)


def test_weights_of_the_first_inference_are_kept_where_the_runtime_keeps_them() -> None:
    """Its DEQUANTIZE of a constant runs once: what a host sets later changes nothing."""
    rng = np.random.default_rng(2)
    builder = Net()
    x = builder.input("x", (1, 5, 6, 8), DType.FLOAT32)
    half = builder.constant("half", rng.normal(size=(24, 1, 1, 8)).astype(np.float16))
    weights = builder.tensor("weights", (24, 1, 1, 8), DType.FLOAT32)
    builder.operator("DEQUANTIZE", (half,), (weights,))
    bias = builder.constant("bias", np.zeros(24, np.float32))
    y = builder.tensor("y", (1, 5, 6, 24), DType.FLOAT32)
    builder.operator("CONV_2D", (x, weights, bias), (y,), ConvOptions())
    builder.output(y)
    builder._graph.inputs += (half,)
    content = builder.build()
    both = [make(bytes(bytearray(content))) for make in (delegated, interpreter_of)]
    values = rng.normal(size=(1, 5, 6, 8)).astype(np.float32)
    seen = []
    for _ in range(3):  # of which the first counts
        constants = rng.normal(size=(24, 1, 1, 8)).astype(np.float16)
        for interpreter in both:
            interpreter.set_tensor(x, values)
            interpreter.set_tensor(half, constants)
            interpreter.invoke()
        ours, theirs = (i.get_tensor(y) for i in both)
        np.testing.assert_allclose(ours, theirs, atol=0.02)
        seen.append(theirs)
    np.testing.assert_array_equal(seen[0], seen[2])
