"""``strict`` refuses what the CPU would do."""

from pathlib import Path

import pytest

from delegate.errors import Rejection, UnsupportedError
from delegate.host.delegation import require_all
from delegate.options import Options
from tests.cli.conftest import IMAGE, MODEL, Run, run
from tests.processes import python

__all__ = ["run"]  # the fixture

REJECTIONS = (
    Rejection(7, "SOFTMAX", "operator_supported", "it is SOFTMAX"),
    Rejection(9, "CUSTOM:Post", "operator_supported", "it is CUSTOM:Post"),
)


def checked(**options: str) -> None:
    require_all(REJECTIONS, Options.from_mapping(options, {}))


def test_the_first_node_is_named_and_the_others_counted() -> None:
    with pytest.raises(UnsupportedError, match=r"strict: node 7.* \(and 1 more\)"):
        checked(strict="true")


def test_it_says_nothing_without_strict() -> None:
    checked()


def test_a_compiled_model_tells_no_reasons(run: Run, tmp_path: Path) -> None:
    path, strict = tmp_path / "compiled.tflite", ("-O", "strict=true")
    assert run("compile", MODEL, "-o", path, *strict).code == 4
    assert run("compile", MODEL, "-o", path).code == 0
    where = ("--model", path, "--device", "simulator")
    refused = run("classify", IMAGE, *where, *strict)
    assert refused.code == 4
    assert "compile it under strict, which names them, and load it without" in refused.err
    assert run("classify", IMAGE, *where).code == 0


def test_the_simulator_is_announced_once_per_process() -> None:
    code = (
        "import sys, delegate\n"
        "try:\n from tflite_runtime.interpreter import Interpreter\n"
        "except ImportError:\n from ai_edge_litert.interpreter import Interpreter\n"
        "for _ in range(3):\n"
        " delegates = [delegate.load_delegate()]\n"
        " Interpreter(sys.argv[1], experimental_delegates=delegates).allocate_tensors()\n"
    )
    done = python("-c", code, MODEL, timeout=120, check=True)
    assert done.stderr.count("embedded simulator") == 1, done.stderr
