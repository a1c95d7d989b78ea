"""Bad input: one clear line on stderr, a non-zero exit code, nothing half-written."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from delegate._native import find_npu_node
from delegate.errors import DelegateError
from delegate.host.runtimes import find_runtime
from tests.cli.conftest import IMAGE, LABELS, MODEL, Run
from tests.cli.odd_models import dynamic_image_model, float_classifier, two_input_model

NAMES = ("zero", "one", "two", *"3456789abc")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tmp_path / "model.tflite"


@pytest.mark.parametrize("keep", [0, 3, 100, 20_000])
def test_truncated_model(run: Run, model: Path, keep: int) -> None:
    model.write_bytes(MODEL.read_bytes()[:keep])
    for command in (("classify", IMAGE, "--model"), ("compile",), ("compare",)):
        run(*command, model).assert_refused(str(model))


def test_runtime_that_needs_another_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would print NumPy's traceback with its first model."""
    runtime = SimpleNamespace(__version__="2.14.0")
    monkeypatch.setattr("delegate.host.runtimes.loaded_runtime", lambda: None)
    monkeypatch.setattr("delegate.host.runtimes.installed_runtimes", lambda: ["tflite_runtime"])
    for name in ("tflite_runtime", "tflite_runtime.interpreter"):
        monkeypatch.setitem(sys.modules, name, runtime)
    monkeypatch.setattr("numpy.__version__", "2.4.6")
    with pytest.raises(DelegateError, match=r"2\.14\.0 needs NumPy 1, .* pip install 'numpy<2'"):
        find_runtime()
    monkeypatch.setattr("numpy.__version__", "1.26.4")
    assert find_runtime().module is runtime
    runtime.__version__ = "2.18.0"
    monkeypatch.setattr("numpy.__version__", "2.4.6")
    assert find_runtime().module is runtime


@pytest.mark.skipif(find_npu_node() != "", reason="this machine has an NPU")
def test_driver_that_is_not_there(run: Run) -> None:
    run("classify", IMAGE, "--model", MODEL, "--device", "rocket").assert_refused(
        "device rocket: no node", "device=simulator", code=3
    )


def test_bad_environment_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "gpu")
    run("compile", MODEL).assert_refused("RK3588_DELEGATE_DEVICE", "'gpu'")


CLASSIFY = "classify {image} --model {model}"
WITH_MODEL = ("classify {image} --model", "compile", "compare")
REFUSED = [
    *((f"{command} nowhere.tflite", ("nowhere.tflite", "no such file")) for command in WITH_MODEL),
    *((f"{command} {{labels}}", ("{labels}", "TFL3")) for command in WITH_MODEL),
    *((f"{command} {{tmp}}", ("{tmp}", "directory")) for command in WITH_MODEL),
    ("classify nothing.png --model {model}", ("nothing.png", "no such image")),
    ("classify {labels} --model {model}", ("{labels}", "not an image")),
    ("classify {tmp}/none --model {model}", ("{tmp}/none", "no image files")),
    ("classify {tmp}/cut.png --model {model}", ("{tmp}/cut.png", "cannot be decoded")),
    (CLASSIFY + " --labels {tmp}/3", ("{tmp}/3", "too short", "3 labels for 10 classes")),
    # A label less could be the first or the last: guessing would name every class wrongly.
    (CLASSIFY + " --labels {tmp}/9", ("9 labels for 10",)),
    (CLASSIFY + " --labels {tmp}/12", ("too long",)),
    (CLASSIFY + " --labels no.txt", ("no.txt",)),
    (CLASSIFY + " --labels {image}", ("no UTF-8 text",)),
    (CLASSIFY + " --nowhere", ("arguments: --nowhere (see rk3588-delegate classify --help)",)),
    (CLASSIFY + " -O devise=null", ("devise", "mean 'device'", "timeout_ms", "log_level")),
    (CLASSIFY + " --device gpu", ("'gpu'", "simulator")),
    *(
        (
            "detect {image} --model {model} --anchors " + anchors,
            (f"'{anchors}' is not WIDTHxHEIGHT",),
        )
        for anchors in ("10x", "axb", "10x13x2", "10")
    ),
    *(
        ("compile {model} -O " + pair, (pair.split("=")[0],))
        for pair in ("device", "timeout_ms=-1", "strict=perhaps", "cores=3")
    ),
    ("compile {model} --device null -O device=simulator", ("twice",)),
    ("compile {model} -o {tmp}/no/x.tflite", ("cannot write",)),
    ("compile {model} --dump {tmp}/3", ("{tmp}/3",)),
    ("compare {model} --images {tmp}/none", ("{tmp}/none", "no image files")),
    ("compare {model} --images {tmp}/no", ("no such folder",)),
    ("replay {tmp}/none.npz", ("none.npz",)),
    ("replay {labels}", ("{labels}",)),
    ("disasm {tmp}/no", ("no", "no such file")),
    ("disasm {tmp}/odd", ("5 bytes",)),
    ("disasm {tmp}/empty", ("empty",)),
    ("disasm {tmp}/3 --assemble {tmp}/x", ("{tmp}/3: line 1: 'zero' is not",)),
    ("disasm {tmp}/unknown --assemble {tmp}/x", ("line 1",)),
    *(
        (usage, ("--help",))
        for usage in (
            *(
                "frobnicate",
                "classify",
                "classify {image}",
                "replay",
                "compile {model} --frobnicate",
            ),
            *(CLASSIFY + more for more in (" --top 0", " --top many", " --std 0", " --mean nan")),
            *("compare {model} --jobs 0", "compare {model} --images a --input b"),
        )
    ),
    ("bench {model} --runs x", ("'x' is not a whole number",)),
    ("bench {model} --warmup 1.5", ("'1.5' is not a whole number",)),
    ("detect {image} --model {model} --threshold half", ("'half' is not a number",)),
    ("explain {image} --element 1,2,c", ("'c' is not a whole number",)),
    ("models", ("are required: action (see",)),
    ("disasm {package}", ("__init__.py: ",)),
]


@pytest.mark.parametrize(("command", "words"), REFUSED)
def test_what_is_refused_in_words_of_the_user(
    run: Run, tmp_path: Path, command: str, words: tuple[str, ...]
) -> None:
    """Nothing is written, nor written over."""
    files = {str(n): "".join(f"{word}\n" for word in NAMES[:n]).encode() for n in (3, 9, 12)}
    files |= {"odd": b"12345", "empty": b"", "unknown": b"CNA.NO_SUCH = 0x1\n"}
    for name, content in {**files, "cut.png": IMAGE.read_bytes()[:200]}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "none").mkdir()
    places = {"image": IMAGE, "model": MODEL, "labels": LABELS, "tmp": tmp_path}
    places["package"] = Path(__file__).with_name("__init__.py")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    outcome = run(*(word.format(**places) for word in command.split()))
    outcome.assert_refused(*(word.format(**places) for word in words))
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("device", ["simulator", "auto"])
def test_bring_up_without_an_npu_does_not_speak_of_one(run: Run, device: str) -> None:
    if device == "auto" and find_npu_node():
        pytest.skip("this machine may have an NPU")
    done = run("bring-up", "--device", device)
    assert done.code == 0
    assert done.out.startswith("device  simulator\n")
    assert done.out.endswith("on the simulator; no NPU has run anything: see `doctor`\n")
    assert "the NPU computes" not in done.out


def test_compile_does_not_write_over_its_model(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(MODEL.read_bytes())
    link = tmp_path / "link.tflite"
    link.symlink_to(model)
    for output in (model, link):
        run("compile", model, "-o", output).assert_refused("is the model itself")
    assert model.read_bytes() == MODEL.read_bytes()


def test_compile_refuses_a_model_that_is_compiled_already(run: Run, tmp_path: Path) -> None:
    compiled, twice = tmp_path / "x.tflite", tmp_path / "y.tflite"
    assert run("compile", MODEL, "-o", compiled).code == 0
    run("compile", compiled, "-o", twice).assert_refused("compiled ahead of time already")
    assert not twice.exists()


def test_model_without_quantised_operators_runs_on_the_cpu_and_says_so(
    run: Run, model: Path
) -> None:
    model.write_bytes(float_classifier())
    outcome = run("classify", IMAGE, "--model", model, "--json")
    assert outcome.code == 0
    assert outcome.json["device"] == "cpu"
    assert (outcome.json["delegated_nodes"], outcome.json["total_nodes"]) == (0, 2)
    assert outcome.json["submits_per_invoke"] == 0
    assert len(outcome.error_lines) == 1
    assert "it ran on the CPU" in outcome.error_lines[0]


def test_strict_refuses_what_would_run_on_the_cpu(run: Run, model: Path) -> None:
    model.write_bytes(float_classifier())
    for command in (("classify", IMAGE, "--model"), ("compile",), ("compare",)):
        strict = ("--device", "simulator", "-O", "strict=true")
        run(*command, model, *strict).assert_refused("strict", "node 0", code=4)


@pytest.mark.skipif(find_npu_node() != "", reason="this machine has an NPU")
def test_strict_refuses_to_simulate_unasked(run: Run) -> None:
    arguments = ("classify", IMAGE, "--model", MODEL, "-O", "strict=true")
    run(*arguments).assert_refused("strict: no NPU was found", "device=simulator", code=3)


def test_model_with_dynamic_tensors(run: Run, model: Path) -> None:
    model.write_bytes(dynamic_image_model())
    run("classify", IMAGE, "--model", model).assert_refused("dynamic shape", "fix its size")
    outcome = run("compile", model, "--json")
    assert outcome.json["delegated_nodes"] == 0
    assert outcome.json["rejections"][0]["rule"] == "static_shapes"


def test_model_that_is_no_classifier(run: Run, model: Path) -> None:
    model.write_bytes(two_input_model())
    run("classify", IMAGE, "--model", model).assert_refused("2 inputs", "one of each")


def test_compare_input_that_does_not_fit(run: Run, tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "x.npy"
    np.save(path, np.zeros((1, 32, 32, 3), np.int8))
    run("compare", MODEL, "--input", path).assert_refused(str(path), "[1, 32, 32, 1]")
    np.save(path, np.zeros((1, 32, 32, 1), np.uint8))
    run("compare", MODEL, "--input", path).assert_refused("uint8", "int8")
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    run("compare", MODEL, "--input", path).assert_refused(str(path))
    path.write_bytes(b"\x93NUMPY")
    run("compare", MODEL, "--input", path).assert_refused(str(path))
    run("compare", MODEL, "--input", tmp_path / "none.npy").assert_refused("no such input")
