"""Colour and progress on a terminal only, and never with NO_COLOR."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import python

ROOT = Path(__file__).resolve().parents[2]


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Return what the command line writes to stderr when that is a terminal."""
    ours, theirs = pty.openpty()
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "delegate", *arguments], cwd=ROOT, stderr=theirs,
        stdout=subprocess.DEVNULL, env={**variables, "TERM": "xterm", **environment},
    )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 4096):
            said += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    process.wait()
    return said.decode()


def test_errors_are_red_on_a_terminal() -> None:
    assert "\x1b[31merror\x1b[0m: " in on_a_terminal("compile", "none.tflite")


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(variable: dict[str, str]) -> None:
    said = on_a_terminal("compile", "none.tflite", **variable)
    assert "error: " in said
    assert "\x1b" not in said


def test_no_colour_into_a_file() -> None:
    outcome = python(
        "-m", "delegate", "compile", "none.tflite", env={**os.environ, "TERM": "xterm"}
    )
    assert outcome.returncode == 2
    assert "\x1b" not in outcome.stderr
