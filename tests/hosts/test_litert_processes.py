"""LiteRT's CompiledModel in processes of its own: commands, variables, messages."""

import json
import os
from pathlib import Path

import pytest

import delegate
from delegate.host.kernels import half_step_model
from delegate.model.tflite_reader import read_graph
from tests.hosts.test_litert import PROBLEM, needs_litert
from tests.processes import python
from tests.shared_folder import DIGITS


def run_code(code: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RK3588_")}
    done = python("-c", code, *arguments, env={**environment, **variables})
    return done.returncode, done.stdout, done.stderr


LOAD = """
import sys
import numpy as np
import delegate
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.environment import Environment
from ai_edge_litert.hardware_accelerator import HardwareAccelerator as H
folder = sys.argv[2] if len(sys.argv) > 2 else delegate.litert_folder()
environment = Environment.create(compiler_plugin_path=folder, dispatch_library_path=folder)
model = CompiledModel.from_file(sys.argv[1], H.NPU | H.CPU, environment)
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
model.run_by_index(0, inputs, outputs)
print("ran", model.is_fully_accelerated())
"""


def command(*words: object) -> tuple[int, str, str]:
    done = python("-m", "delegate", *words)
    return done.returncode, done.stdout, done.stderr


@needs_litert
@pytest.mark.parametrize("ahead", [False, True], ids=["just in time", "ahead of time"])
@pytest.mark.parametrize("imports", ["", "import ai_edge_litert.interpreter"])
def test_fully_connected_rounds_as_litert_s_kernel_does(
    ahead: bool, imports: str, tmp_path: Path
) -> None:
    """Once: also in a process that has not loaded the interpreter."""
    path = tmp_path / "half_step.tflite"
    path.write_bytes(half_step_model())
    if ahead:
        path.write_bytes(delegate.compile_ahead_of_time(path, litert=True))
    code = imports + LOAD.replace(
        "model.run", "inputs[0].write(np.ones((1, 1), np.int8))\nmodel.run"
    )
    variables = {"RK3588_DELEGATE_DEVICE": "simulator", "RK3588_DELEGATE_DENY_OPS": "NONE"}
    status, out, err = run_code(code + "print(outputs[0].read(1, np.int8))", str(path), **variables)
    assert status == 0, err
    assert out.splitlines() == ["ran True", "[-1]"]


@needs_litert
def test_bench_measures_compiled_model_beside_the_delegate(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    words = ("bench", DIGITS, "--runs", 3, "--warmup", 1, "--device", "null", "--no-cpu")
    code, out, err = command(*words, "--api", "compiled-model", "--save", path)
    assert code == 0, err
    assert "CompiledModel  takes" in out
    document = json.loads(path.read_text())
    found = document["compiled_model"]
    assert found["steady"]["count"] == 3
    assert found["is_fully_accelerated"] is False  # SOFTMAX
    ratio = found["steady"]["p50_ms"] / document["delegate"]["steady"]["p50_ms"]
    assert document["compiled_model_ratio"] == pytest.approx(ratio)


@needs_litert
def test_doctor_names_the_folder() -> None:
    _, out, _ = command("doctor", "--no-self-test", "--json")
    (finding,) = [f for f in json.loads(out)["findings"] if "CompiledModel" in f["text"]]
    assert finding["level"] == "ok"
    assert finding["text"].endswith(delegate.litert_folder())


@pytest.mark.skipif(not PROBLEM, reason="ai-edge-litert is here")
def test_bench_says_what_is_missing() -> None:
    code, _, err = command("bench", DIGITS, "--api", "compiled-model")
    assert code == 1
    assert "CompiledModel needs 2.3 or later" in err


def test_litert_wants_a_file_to_write(tmp_path: Path) -> None:
    code, _, err = command("compile", DIGITS, "--litert")
    assert code == 2
    assert "-o OUT.tflite is missing" in err
    path = tmp_path / "compiled.tflite"
    assert command("compile", DIGITS, "--litert", "-o", path)[0] == 0
    assert any(node.custom_name == "DISPATCH_OP" for node in read_graph(path).nodes)
    code, _, err = command("compile", path, "--litert", "-o", tmp_path / "again.tflite")
    assert code != 0
    assert "was compiled ahead of time already" in err


@needs_litert
def test_options_come_from_variables_too() -> None:
    chosen = {"DEVICE": "simulator", "LOG_LEVEL": "info", "DENY_OPS": "NONE"}
    variables = {f"RK3588_DELEGATE_{name}": value for name, value in chosen.items()}
    code, out, err = run_code(LOAD, str(DIGITS), **variables)
    assert code == 0, err
    assert "ran" in out
    assert "simulator: program" in err


@needs_litert
def test_the_simulator_is_announced_once() -> None:
    code, _, err = run_code(LOAD, str(DIGITS))
    assert code == 0, err
    assert err.count("no NPU in use: programs run on the embedded simulator") == 1


@needs_litert
@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"RK3588_DELEGATE_DEVICE": "rocket"}, "device rocket: no node of this driver"),
        ({"RK3588_DELEGATE_DEVICE": "npu"}, "RK3588_DELEGATE_DEVICE is 'npu'"),
        (
            {"RK3588_DELEGATE_STRICT": "true", "RK3588_DELEGATE_DEVICE": "simulator",
             "RK3588_DELEGATE_NUMERICS": "exact"},
            "strict: node",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_runs_on_the_cpu_with_a_message(
    variables: dict[str, str], complaint: str
) -> None:
    code, out, err = run_code(LOAD, str(DIGITS), **variables)
    assert code == 0, err
    assert "ran False" in out
    assert complaint in err
    assert "Traceback" not in err


@needs_litert
def test_a_damaged_program_is_an_error_that_says_so(tmp_path: Path) -> None:
    content = bytearray(delegate.compile_ahead_of_time(DIGITS, litert=True))
    content[-5] ^= 1
    path = tmp_path / "damaged.tflite"
    path.write_bytes(content)
    code, _, err = run_code(LOAD, str(path), RK3588_DELEGATE_DEVICE="simulator")
    assert code == 1
    assert "rk3588 delegate: program: checksum mismatch; compile the model again" in err


RESIZE = """
import sys
import numpy as np
import delegate
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator as H
from ai_edge_litert.tensor_buffer import TensorBuffer
environment = delegate.litert_environment(device="simulator")
model = CompiledModel.from_file(sys.argv[1], H.NPU | H.CPU, environment)
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
model.run_by_index(0, inputs, outputs)
signature = model.get_signature_by_index(0)
(details,) = model.get_input_tensor_details(signature["key"]).values()
shape = [2, *details["shape"][1:]]
model.resize_input_tensor(0, shape, strict=False)
larger = TensorBuffer.create_from_host_memory(np.zeros(shape, np.int8))
try:
    model.run_by_index(0, [larger], outputs)
except RuntimeError:
    print("refused")
"""


@needs_litert
def test_a_model_that_was_resized_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "compiled.tflite"
    path.write_bytes(delegate.compile_ahead_of_time(DIGITS, litert=True))
    for model in (DIGITS, path):
        code, out, err = run_code(RESIZE, str(model))
        assert code == 0, err
        assert out.splitlines() == ["refused"]


@needs_litert
def test_a_folder_without_libraries_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "compiled.tflite"
    path.write_bytes(delegate.compile_ahead_of_time(DIGITS, litert=True))
    code, _, err = run_code(LOAD, str(path), str(tmp_path))
    assert code == 1
    assert "No dispatch library found" in err
