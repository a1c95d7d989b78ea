"""Commands that are cut off: by a full disk, a reader that goes away, an interruption, an error of
their own. One line on stderr, the exit code of the cause, nothing half-written.
"""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.cli.conftest import IMAGE, MODEL, Run
from tests.processes import python


def run_limited(*arguments: object, file_bytes: int) -> subprocess.CompletedProcess[str]:
    """The command line in a process that may not write files beyond ``file_bytes``."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return python("-m", "delegate", *arguments, preexec_fn=limit, env=environment)


@pytest.mark.parametrize("existed", [False, True])
def test_disk_full_while_dumping_leaves_nothing(tmp_path: Path, existed: bool) -> None:
    folder = tmp_path / "dump"
    if existed:
        folder.mkdir()
        (folder / "partition_0.npz").write_text("from before")
    result = run_limited("compile", MODEL, "--dump", folder, file_bytes=4096)
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert "cannot write" in lines[0]
    assert result.stdout == ""
    if existed:
        assert [p.name for p in folder.iterdir()] == ["partition_0.npz"]
        assert (folder / "partition_0.npz").read_text() == "from before"
    else:
        assert not folder.exists()


def supported_ops_into(stdout: IO[str] | int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "delegate", "supported-ops"],
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


def test_full_output_device_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        result = supported_ops_into(full)
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["rk3588-delegate: error: No space left on device"]


def test_reader_that_goes_away_is_silent() -> None:
    read, write = os.pipe()
    os.close(read)
    result = supported_ops_into(write)
    os.close(write)
    assert result.returncode == 128 + signal.SIGPIPE
    assert result.stderr == ""


def test_interruption_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("delegate.cli.library_path.library_path", interrupt)
    run("library-path").assert_refused("interrupted", code=130)


def test_debug_shows_the_traceback_and_the_line(run: Run) -> None:
    outcome = run("compile", "nowhere.tflite", "--debug")
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("rk3588-delegate: error: nowhere.tflite")


def test_internal_errors_are_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("a bug\nin two lines")

    monkeypatch.setattr("delegate.cli.library_path.library_path", break_down)
    outcome = run("library-path")
    assert outcome.code == 1
    assert outcome.err == (
        "rk3588-delegate: error: internal error: RuntimeError: a bug in two lines; please report "
        "it with the output of --debug\n"
    )


def test_device_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from delegate.errors import DeviceError

    def nothing(device: str, strict: bool) -> str:
        raise DeviceError(f"device {device}: it failed")

    monkeypatch.setattr("delegate._native.open_device_name", nothing)
    run("classify", IMAGE, "--model", MODEL).assert_refused("device auto", code=3)
