"""LiteRT's CompiledModel beside the delegate: what docs/hosts.md says of it."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from delegate.host.runtimes import find_runtime
from tests.hosts.conftest import compiled

litert = pytest.importorskip("ai_edge_litert.compiled_model", reason="no ai-edge-litert 2")
MODEL = Path(__file__).resolve().parents[2] / "models" / "digits" / "digits_int8.tflite"


def test_it_takes_no_delegate() -> None:
    parameters = inspect.signature(litert.CompiledModel.from_file).parameters
    assert not [name for name in parameters if "delegate" in name]


def test_plain_models_run_on_the_cpu_beside_the_package() -> None:
    model = litert.CompiledModel.from_file(str(MODEL))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    interpreter = find_runtime().interpreter(MODEL, [])
    (details,) = interpreter.get_input_details()
    pixels = np.arange(np.prod(details["shape"]), dtype=np.int64).astype(np.int8)
    inputs[0].write(pixels)
    model.run_by_index(0, inputs, outputs)
    interpreter.set_tensor(details["index"], pixels.reshape(details["shape"]))
    interpreter.invoke()
    (result,) = interpreter.get_output_details()
    expected = interpreter.get_tensor(result["index"]).reshape(-1)
    found = outputs[0].read(expected.size, np.int8)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def test_models_compiled_ahead_of_time_are_an_error_and_no_result(tmp_path: Path) -> None:
    path = tmp_path / "compiled.tflite"
    path.write_bytes(compiled(MODEL))
    with pytest.raises((RuntimeError, ValueError)):  # noqa: PT012  whichever of the three refuses
        model = litert.CompiledModel.from_file(str(path))
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        model.run_by_index(0, inputs, outputs)
