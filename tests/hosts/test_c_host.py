"""A process in C without Python: compiled models, errors, threads, memory, time."""

import re
from pathlib import Path

import pytest

from tests.aot.models import rich_model
from tests.hosts.conftest import compiled, outputs_of_first_program, run_in_python
from tests.shared_folder import MODELS, needs_models, whole_models

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def model() -> bytes:
    return compiled(rich_model())


def test_compiled_model_gives_the_bytes_of_python(host, model):
    content, expected = run_in_python(rich_model())
    ran = host(model, content, device="simulator")
    assert ran.report["ok"]
    assert ran.output == expected
    assert not ran.report["libpython"]


REAL = {"mobilenet_v1_1.0_224_quant", "mobilenet_v2_1.0_224_int8_per_channel", "yolov8n_224_int8"}
REAL_MODELS = [path for path in whole_models() if path.stem in REAL] or whole_models()


@pytest.mark.parametrize("path", REAL_MODELS, ids=lambda path: path.stem)
def test_real_models_give_the_bytes_of_python(host, path):
    """The first program is equal; the next ones read what the runtime's kernels made of it."""
    model = outputs_of_first_program(compiled(path))
    content, expected = run_in_python(model)
    ran = host(model, content, device="simulator")
    assert ran.report["ok"], ran.err
    assert ran.output == expected
    assert not ran.report["libpython"]


@needs_models
@pytest.mark.parametrize("name", sorted(REAL))
def test_public_models_give_the_outputs_of_python(host, name):
    """Nodes on the CPU run on kernels of another release, which give the same for these inputs."""
    path: Path = MODELS / f"{name}.tflite"
    content, expected = run_in_python(path)
    ran = host(compiled(path), content, device="simulator")
    assert ran.output == expected


@needs_models
def test_first_inference_and_memory_of_a_compiled_mobilenet(host):
    """Less than 30 ms from loading to the first result, and 8 MiB beside the model. The time is
    that of the processor. Both are the best of five: other processes may hold the machine, and how
    many pages of the libraries a page fault brings along is the kernel's choice."""
    content = compiled(MODELS / "mobilenet_v1_1.0_224_quant.tflite")
    reports = [host(content, device="null").report for _ in range(5)]
    assert min(report["cpu_ms"] for report in reports) < 30
    assert min(report["resident_kb"] for report in reports) * 1024 < len(content) + 8 * MEGABYTE


def test_two_threads_with_an_interpreter_each(host, model):
    content, _ = run_in_python(rich_model())
    assert host(model, content, threads=2, device="simulator").report["ok"]


def test_model_that_is_not_compiled_runs_on_the_cpu_and_says_so(host):
    content, _ = run_in_python(rich_model())
    ran = host(rich_model(), content)
    assert ran.report["ok"]
    assert re.search(r"(\d+) of \1 nodes stay on the CPU", ran.err)
    assert "compile MODEL -o OUT.tflite" in ran.err
    assert host(rich_model(), content, library="-").output == ran.output


def test_simulator_is_announced(host, model):
    assert "embedded simulator" in host(model).err
    assert host(model, device="simulator").err.count("rk3588") == 0


def test_simulator_is_announced_once_per_process(host, model):
    """Many interpreters, each with a thread and a delegate of its own."""
    assert host(model, threads=16).err.count("embedded simulator") == 1


def test_environment_chooses_the_device(host, model):
    ran = host(model, environment={"RK3588_DELEGATE_DEVICE": "null"}, log_level="info")
    assert "rk3588 delegate: null: 2 compiled operators; 1 of 3 nodes stay on the CPU" in ran.err


def test_log_tells_at_the_end_what_ran(host, model):
    ran = host(model, device="simulator", log_level="info")
    assert re.search(
        r"this process so far: 1 inference, 2 runs of partitions: .* 0 errors", ran.err
    )
    assert "so far" not in host(model, device="simulator").err


def test_counters_are_published_while_it_runs(host, model, tmp_path):
    folder = tmp_path / "counters"
    assert host(model, device="simulator", stats_dir=str(folder)).report["ok"]
    assert list(folder.iterdir()) == []  # it was made, and what was in it is gone
    ran = host(model, device="simulator", stats_dir=str(tmp_path / "none" / "below"))
    assert "option stats_dir: " in ran.err
    assert "; it has to be a folder" in ran.err
    assert not ran.report["ok"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"devise": "null"}, "unknown option 'devise'; valid: device, cores"),
        ({"device": "gpu"}, "'device' is 'gpu'; expected auto, rocket"),
        ({"device": "/dev/null"}, "/dev/null"),
        ({"device": "rocket"}, "device rocket"),
        ({"device": "\x1b[31m\n"}, "'device' is '\\x1b[31m\\x0a'; expected"),
        ({"device": "g" * 300}, f"'device' is '{'g' * 200}'... (300 bytes); expected"),
        ({"verify": "cpu"}, "'verify' is 'cpu'; expected auto, off, sim or sample"),
    ],
)
def test_bad_option_is_named(host, model, options, text):
    for content in (model, rich_model()):  # compiled, and one that the CPU could run
        ran = host(content, **options)
        assert text in ran.err
        assert not ran.report["ok"]


@pytest.mark.parametrize("options", [{"device": "simulator"}, {"device": "null"}])
def test_model_that_is_not_compiled_is_refused_where_a_device_is_named(host, options):
    ran = host(rich_model(), **options)
    assert not ran.report["ok"]
    assert "not compiled ahead of time and this process runs no Python" in ran.err
    assert not host(rich_model(), environment={"RK3588_DELEGATE_DEVICE": "null"}).report["ok"]


def test_verify_runs_the_simulator_beside_the_device(host, model):
    assert host(model, device="simulator", verify="sim").report["ok"]
    ran = host(model, device="null", verify="sim")
    assert not ran.report["ok"]
    assert "verify" in ran.err


def test_options_of_the_compiler_are_accepted(host, model):
    assert host(model, device="null", deny_ops="3", cache_dir="off").report["ok"]


def test_strict_refuses_nodes_on_the_cpu(host, model):
    ran = host(model, device="null", strict="true")
    assert not ran.report["ok"]
    assert "strict: 1 of 3 nodes" in ran.err
    assert "compile it under strict" in ran.err


def test_damaged_program_is_an_error_that_names_the_node(host, model):
    position = model.index(b"RKNP") + 200
    damaged = bytearray(model)
    damaged[position] ^= 1
    ran = host(bytes(damaged), device="simulator")
    assert not ran.report["ok"]
    assert "node 0 (rk3588-npu): program: checksum mismatch" in ran.err


def test_host_without_the_delegate_names_the_operator(host, model):
    ran = host(model, library="-")
    assert not ran.report["ok"]
    assert "rk3588-npu" in ran.err
