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

COMMANDS_WITH_MODEL = (("classify", IMAGE, "--model"), ("compile",), ("compare",))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tmp_path / "model.tflite"


@pytest.mark.parametrize("command", COMMANDS_WITH_MODEL, ids=lambda c: c[0])
def test_missing_model(run: Run, command: tuple[object, ...]) -> None:
    run(*command, "nowhere.tflite").assert_refused("nowhere.tflite", "no such file")


@pytest.mark.parametrize("command", COMMANDS_WITH_MODEL, ids=lambda c: c[0])
@pytest.mark.parametrize("keep", [0, 3, 100, 20_000])
def test_truncated_model(run: Run, model: Path, command: tuple[object, ...], keep: int) -> None:
    model.write_bytes(MODEL.read_bytes()[:keep])
    run(*command, model).assert_refused(str(model))


@pytest.mark.parametrize("command", COMMANDS_WITH_MODEL, ids=lambda c: c[0])
def test_model_that_is_something_else(run: Run, command: tuple[object, ...]) -> None:
    run(*command, LABELS).assert_refused(str(LABELS), "TFL3")


@pytest.mark.parametrize("command", COMMANDS_WITH_MODEL, ids=lambda c: c[0])
def test_model_that_is_a_folder(run: Run, tmp_path: Path, command: tuple[object, ...]) -> None:
    run(*command, tmp_path).assert_refused(str(tmp_path), "directory")


def test_missing_image(run: Run) -> None:
    run("classify", "nothing.png", "--model", MODEL).assert_refused("nothing.png", "no such image")


def test_image_that_is_no_image(run: Run) -> None:
    run("classify", LABELS, "--model", MODEL).assert_refused(str(LABELS), "not an image")


def test_folder_without_images(run: Run, tmp_path: Path) -> None:
    run("classify", tmp_path, "--model", MODEL).assert_refused(str(tmp_path), "no image files")


def test_image_cut_short(run: Run, tmp_path: Path) -> None:
    cut = tmp_path / "cut.png"
    cut.write_bytes(IMAGE.read_bytes()[:200])
    run("classify", cut, "--model", MODEL).assert_refused(str(cut), "cannot be decoded")


def test_label_file_too_short(run: Run, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("zero\none\ntwo\n")
    run("classify", IMAGE, "--model", MODEL, "--labels", labels).assert_refused(
        str(labels), "too short", "3 labels for 10 classes"
    )


def test_label_file_without_the_background_line_is_too_short(run: Run, tmp_path: Path) -> None:
    """A label less could be the first or the last: guessing would name every class wrongly."""
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"{i}\n" for i in range(9)))
    run("classify", IMAGE, "--model", MODEL, "--labels", labels).assert_refused("9 labels for 10")


def test_label_file_too_long(run: Run, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"{i}\n" for i in range(12)))
    run("classify", IMAGE, "--model", MODEL, "--labels", labels).assert_refused("too long")


def test_label_file_missing_or_binary(run: Run) -> None:
    run("classify", IMAGE, "--model", MODEL, "--labels", "no.txt").assert_refused("no.txt")
    run("classify", IMAGE, "--model", MODEL, "--labels", IMAGE).assert_refused("no UTF-8 text")


def test_unknown_arguments_point_to_the_help_of_their_command(run: Run) -> None:
    refused = run("classify", IMAGE, "--model", MODEL, "--nowhere")
    refused.assert_refused(
        "unrecognized arguments: --nowhere (see rk3588-delegate classify --help)"
    )


@pytest.mark.parametrize("anchors", ["10x", "axb", "10x13x2", "10"])
def test_anchors_that_are_none(run: Run, anchors: str) -> None:
    refused = run("detect", IMAGE, "--model", MODEL, "--anchors", anchors)
    refused.assert_refused(f"'{anchors}' is not WIDTHxHEIGHT")


def test_text_that_is_no_program_is_named(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "stream.txt"
    text.write_text("nonsense\n")
    refused = run("disasm", text, "--assemble", tmp_path / "x")
    refused.assert_refused(f"{text}: line 1: 'nonsense' is not")


def test_runtime_that_needs_another_numpy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_unknown_option_lists_the_valid_ones(run: Run) -> None:
    run("classify", IMAGE, "--model", MODEL, "-O", "devise=null").assert_refused(
        "devise", "did you mean 'device'", "timeout_ms", "log_level"
    )


@pytest.mark.parametrize("pair", ["device", "timeout_ms=-1", "strict=perhaps", "cores=3"])
def test_malformed_option(run: Run, pair: str) -> None:
    run("compile", MODEL, "-O", pair).assert_refused(pair.split("=")[0])


def test_option_given_twice(run: Run) -> None:
    run("compile", MODEL, "--device", "null", "-O", "device=simulator").assert_refused("twice")


def test_unknown_device(run: Run) -> None:
    run("classify", IMAGE, "--model", MODEL, "--device", "gpu").assert_refused("'gpu'", "simulator")


@pytest.mark.skipif(find_npu_node() != "", reason="this machine has an NPU")
def test_driver_that_is_not_there(run: Run) -> None:
    run("classify", IMAGE, "--model", MODEL, "--device", "rocket").assert_refused(
        "device rocket: no node", "device=simulator", code=3
    )


def test_bad_environment_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "gpu")
    run("compile", MODEL).assert_refused("RK3588_DELEGATE_DEVICE", "'gpu'")


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("classify",),
        ("classify", IMAGE),
        ("classify", IMAGE, "--model", MODEL, "--top", "0"),
        ("classify", IMAGE, "--model", MODEL, "--top", "many"),
        ("classify", IMAGE, "--model", MODEL, "--std", "0"),
        ("classify", IMAGE, "--model", MODEL, "--mean", "nan"),
        ("compile", MODEL, "--frobnicate"),
        ("compare", MODEL, "--jobs", "0"),
        ("compare", MODEL, "--images", "a", "--input", "b"),
        ("replay",),
    ],
)
def test_usage_errors_are_one_line(run: Run, arguments: tuple[object, ...]) -> None:
    run(*arguments).assert_refused("--help")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bench", MODEL, "--runs", "x"), "'x' is not a whole number"),
        (("bench", MODEL, "--warmup", "1.5"), "'1.5' is not a whole number"),
        (("detect", IMAGE, "--model", MODEL, "--threshold", "half"), "'half' is not a number"),
        (("explain", IMAGE, "--element", "1,2,c"), "'c' is not a whole number"),
        (("models",), "are required: action (see"),
        (("disasm", Path(__file__).parent / "__init__.py"), "__init__.py: "),
    ],
)
def test_errors_are_in_words_of_the_user(
    run: Run, arguments: tuple[object, ...], words: str
) -> None:
    run(*arguments).assert_refused(words)


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


def test_compile_into_a_folder_that_is_absent(run: Run, tmp_path: Path) -> None:
    run("compile", MODEL, "-o", tmp_path / "no" / "x.tflite").assert_refused("cannot write")


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


def test_compare_folder_without_images(run: Run, tmp_path: Path) -> None:
    run("compare", MODEL, "--images", tmp_path).assert_refused(str(tmp_path), "no image files")
    run("compare", MODEL, "--images", tmp_path / "no").assert_refused("no such folder")


def test_replay_of_what_is_no_capture(run: Run, tmp_path: Path) -> None:
    run("replay", tmp_path / "none.npz").assert_refused("none.npz")
    run("replay", LABELS).assert_refused(str(LABELS))


def test_disasm_of_what_is_no_stream(run: Run, tmp_path: Path) -> None:
    run("disasm", tmp_path / "none").assert_refused("none", "no such file")
    odd = tmp_path / "odd"
    odd.write_bytes(b"12345")
    run("disasm", odd).assert_refused("5 bytes")
    odd.write_bytes(b"")
    run("disasm", odd).assert_refused("empty")
    odd.write_text("CNA.NO_SUCH = 0x1\n")
    run("disasm", odd, "--assemble", tmp_path / "words").assert_refused("line 1")
    assert not (tmp_path / "words").exists()


def test_dump_to_a_path_that_is_a_file(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("kept")
    run("compile", MODEL, "--dump", target).assert_refused(str(target))
    assert target.read_text() == "kept"
