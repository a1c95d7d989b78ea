"""The command line in this process, its output caught at the level of file descriptors."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from delegate.cli import main
from tests.cli.odd_models import constant_detector

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits"
MODEL = DIGITS / "digits_int8.tflite"
LABELS = DIGITS / "labels.txt"
IMAGE = DIGITS / "images" / "digit_7.png"

# Written by the runtimes themselves while they load.
_RUNTIME_CHATTER = ("INFO: ", "WARNING: All log messages before absl")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error_lines(self) -> list[str]:
        lines = self.err.splitlines()
        return [line for line in lines if not line.startswith(_RUNTIME_CHATTER)]

    def assert_refused(self, *words: str, code: int = 2) -> None:
        """Exactly one line on stderr with all ``words``, nothing on stdout, this exit code."""
        assert self.code == code, self
        assert self.out == ""
        assert len(self.error_lines) == 1, self.err
        line = self.error_lines[0]
        assert line.startswith("rk3588-delegate: error: ")
        assert "internal error" not in line
        for word in words:
            assert word in line, line


Run = Callable[..., Outcome]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A detector that finds the same in every picture."""
    path = tmp_path / "constant.tflite"
    path.write_bytes(constant_detector())
    return path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line with the arguments given and returns what it did."""
    for name in ("DEVICE", "STRICT", "DENY_OPS", "LOG_LEVEL", "MIN_NODES"):
        monkeypatch.delenv(f"RK3588_DELEGATE_{name}", raising=False)

    def run_command(*arguments: object) -> Outcome:
        capfd.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return run_command
