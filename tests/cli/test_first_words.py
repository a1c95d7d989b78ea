"""Tests what someone meets who does not know the commands yet, or has not built anything."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from delegate.errors import ModelError
from delegate.host.library import DEPENDENCIES
from delegate.host.runtimes import Runtime
from delegate.ops import OPERATORS
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models" / "digits" / "digits_int8.tflite"
WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from delegate.cli import main
sys.exit(main(sys.argv[2:]))
"""


def run_without(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a Python that lacks ``module``."""
    command = [sys.executable, "-c", WITHOUT, module, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [("compile", str(DIGITS)), ("doctor",), ("bench", str(DIGITS)), ("bring-up",), ("top",)],
    ids=lambda words: words[0],
)
def test_a_clone_that_is_not_built_says_what_to_do(words: tuple[str, ...]) -> None:
    outcome = run_without("delegate._native", *words)
    assert outcome.returncode == 1
    (line,) = outcome.stderr.splitlines()
    assert "make native" in line
    assert "internal error" not in line


@pytest.mark.parametrize("module", DEPENDENCIES)
@pytest.mark.parametrize("words", [(), ("compile", str(DIGITS))], ids=["none", "compile"])
def test_a_python_without_a_package_says_which_and_how_to_install_it(
    module: str, words: tuple[str, ...]
) -> None:
    outcome = run_without(module, *words)
    if not words and outcome.returncode == 2:  # the help needs NumPy alone
        assert outcome.stdout.startswith("usage: ")
        return
    assert outcome.returncode == 1
    (line,) = outcome.stderr.splitlines()
    assert "internal error" not in line
    assert f"-m pip install {module}" in line
    assert "make native" in line


def test_packages_that_every_command_needs_are_those_of_the_wheel() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (line,) = re.findall(r"^dependencies = (.*)", project, re.MULTILINE)
    assert tuple(re.findall(r'"(\w+)', line)) == DEPENDENCIES


def test_the_version_needs_no_package() -> None:
    assert run_without("numpy", "--version").stdout.startswith("rk3588-delegate ")


def test_conformance_does_not_fail_every_test_for_want_of_a_library(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delegate.host.library.find_spec", lambda _: None)
    monkeypatch.setattr("delegate.host.library._LIBRARY", "no such file")
    outcome = run("conformance", "--sample", "1")
    assert outcome.code == 1
    assert outcome.out == ""
    assert "make native" in outcome.err


def test_no_arguments_print_the_help(run: Run) -> None:
    outcome = run()
    assert (outcome.code, outcome.err) == (2, "")
    assert outcome.out.startswith("usage: ")
    assert "classify" in outcome.out


def test_a_filter_that_selects_no_case_says_so(run: Run) -> None:
    outcome = run("conformance", "--gtest_filter=Nothing.*")
    assert outcome.code == 0  # as googletest
    assert "no test has a name like Nothing.*" in outcome.err


def test_a_file_of_another_kind_is_named_without_bytes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(bytes(range(100)))
    outcome = run("compile", str(tmp_path / "model.onnx"))
    assert outcome.code != 0
    assert "not a .tflite file" in outcome.err
    assert "b'" not in outcome.err


def test_operators_are_summarised_and_one_is_told_whole(run: Run) -> None:
    summary = run("supported-ops").out
    assert all(name in summary for name in OPERATORS)
    assert len(summary.splitlines()) < 25
    one = run("supported-ops", "conv_2d", "ADD").out
    assert one.startswith("CONV_2D\n")
    assert "\nADD\n" in one
    documents = run("supported-ops", "CONV_2D", "--json").json["operators"]
    assert [document["op"] for document in documents] == ["CONV_2D"]
    assert len(documents[0]["rules"]) > 5
    unknown = run("supported-ops", "LOG_SOFTMAX")
    assert unknown.code == 2
    assert "takes no LOG_SOFTMAX" in unknown.err


def test_a_model_that_is_newer_than_the_runtime_is_told_so() -> None:
    def interpreter(**_: object) -> None:
        raise ValueError(
            "Didn't find op for builtin opcode 'SQRT' version '2'. An older version of this "
            "builtin might be supported. Registration failed.\n"
        )

    module = ModuleType("old_runtime")
    vars(module)["Interpreter"] = interpreter
    with pytest.raises(ModelError, match=r"needs SQRT of version 2, .* pip install ai-edge-litert"):
        Runtime("old_runtime", module).interpreter(b"model")
