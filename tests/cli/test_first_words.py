"""What someone meets who does not know the commands yet, or has not built anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from delegate.ops import OPERATORS
from tests.cli.conftest import Run

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits" / "digits_int8.tflite"
NOT_BUILT = """
import sys
sys.modules["delegate._native"] = None
from delegate.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words",
    [("compile", str(DIGITS)), ("doctor",), ("bench", str(DIGITS)), ("bring-up",), ("top",)],
    ids=lambda words: words[0],
)
def test_a_clone_that_is_not_built_says_what_to_do(words: tuple[str, ...]) -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", NOT_BUILT, *words], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 1
    (line,) = outcome.stderr.splitlines()
    assert "make native" in line
    assert "internal error" not in line


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
    unknown = run("supported-ops", "SOFTMAX")
    assert unknown.code == 2
    assert "takes no SOFTMAX" in unknown.err
