"""Inputs of a model that are constants: a host that sets them gets what the runtime alone gives."""

from __future__ import annotations

import numpy as np
import pytest

import delegate
import delegate.compile.plugin
from delegate.errors import LoweringError
from delegate.host.delegation import collect_delegations
from delegate.host.runtimes import find_runtime
from delegate.model.graph import DType, Quantization
from delegate.partition.rules import PARTITION_COMPILES
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.model_builder import ModelBuilder

SHAPE = (2, 3, 5, 24)


def addition() -> tuple[ModelBuilder, int]:
    builder = ModelBuilder()
    quantization = Quantization((0.5,), (3,))
    x = builder.input("x", SHAPE, DType.INT8, quantization)
    constant = builder.constant("c", np.full(SHAPE, 3, np.int8), quantization)
    builder.output(layers.add(builder, x, constant))
    return builder, constant


def convolution() -> tuple[ModelBuilder, int]:
    builder = ModelBuilder()
    x = builder.input("x", SHAPE, DType.INT8, Quantization((0.5,), (3,)))
    builder.output(layers.conv(builder, np.random.default_rng(0), x, 19, layers.Window(3, 3)))
    return builder, x + 1  # the weights


def interpreter_of(content: bytes, *, is_delegated: bool):
    runtime = find_runtime()
    if not is_delegated:
        return runtime.interpreter(content, reference_kernels=True)
    options = {"device": "simulator", "log_level": "error"}
    plugin = runtime.load_delegate(delegate.library_path(), options)
    with collect_delegations() as found:
        interpreter = runtime.interpreter(content, [plugin])
    assert found[0].delegated_nodes == 1
    return interpreter


@pytest.mark.parametrize("make", [addition, convolution])
def test_a_constant_that_is_set_counts(make) -> None:
    builder, constant = make()
    builder._graph.inputs += (constant,)
    content = builder.build()
    # A copy each: a runtime that is given bytes writes into them.
    interpreters = [
        interpreter_of(bytes(bytearray(content)), is_delegated=flag) for flag in (True, False)
    ]
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
    interpreter = interpreter_of(bytes(bytearray(builder.build())), is_delegated=True)
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
