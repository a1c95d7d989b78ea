"""``strict`` refuses what the CPU would do, but for what ``strict_allows`` names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from delegate.errors import OptionError, Rejection, UnsupportedError
from delegate.host.delegation import require_all
from delegate.options import Options
from tests.cli.conftest import IMAGE, MODEL, Run, run

__all__ = ["run"]  # the fixture

REJECTIONS = (
    Rejection(7, "SOFTMAX", "operator_supported", "it is SOFTMAX"),
    Rejection(9, "CUSTOM:Post", "operator_supported", "it is CUSTOM:Post"),
)


def checked(**options: str) -> None:
    require_all(REJECTIONS, Options.from_mapping(options, {}))


@pytest.mark.parametrize("allows", ["SOFTMAX,CUSTOM", "7,9", "9,SOFTMAX"])
def test_what_is_named_may_stay(allows: str) -> None:
    checked(strict="true", strict_allows=allows)


@pytest.mark.parametrize(
    ("allows", "named"), [("", "node 7"), ("SOFTMAX", "node 9"), ("9", "node 7"), ("1", "node 7")]
)
def test_the_others_are_refused_with_the_remedy(allows: str, named: str) -> None:
    with pytest.raises(UnsupportedError, match=f"strict: {named}") as error:
        checked(strict="true", strict_allows=allows)
    assert "strict_allows=" in str(error.value)


def test_it_says_nothing_without_strict_and_takes_names_alone() -> None:
    checked(strict_allows="ADD")
    checked()
    with pytest.raises(OptionError, match="strict_allows"):
        checked(strict_allows="ADD;MUL")


def test_commands_run_a_model_whose_rest_is_allowed(run: Run) -> None:
    strict = ("-O", "strict=true", "--device", "simulator")
    refused = run("classify", IMAGE, "--model", MODEL, *strict)
    assert refused.code == 4
    assert "strict_allows=SOFTMAX" in refused.err
    allowed = run("classify", IMAGE, "--model", MODEL, *strict, "-O", "strict_allows=SOFTMAX")
    assert allowed.code == 0, allowed


def test_the_simulator_is_announced_once_per_process() -> None:
    code = (
        "import sys, delegate\n"
        "try:\n from tflite_runtime.interpreter import Interpreter\n"
        "except ImportError:\n from ai_edge_litert.interpreter import Interpreter\n"
        "for _ in range(3):\n"
        " delegates = [delegate.load_delegate()]\n"
        " Interpreter(sys.argv[1], experimental_delegates=delegates).allocate_tensors()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(MODEL)],
        capture_output=True, text=True, timeout=120, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stderr.count("embedded simulator") == 1, done.stderr
