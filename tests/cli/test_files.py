"""Tests that files of commands are complete or absent, through links, never in a device's place."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from delegate.cli.files import check_writable, write_file
from delegate.errors import UsageError
from tests.cli.conftest import IMAGE, MODEL, Run

ROOT = Path(__file__).resolve().parents[2]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write_file(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    write_file(pipe, b"content")
    assert reader.communicate(timeout=30)[0] == b"content"
    assert pipe.is_fifo()


def test_a_full_device_is_an_error(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(UsageError, match=r"cannot write .*full: No space left on device"):
        write_file(link, b"content")
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("function", [check_writable, lambda path: write_file(path, b"x")])
def test_what_cannot_be_written_is_named(function: object, tmp_path: Path) -> None:
    assert callable(function)
    with pytest.raises(UsageError, match=r"cannot write .*none.x: No such file or directory"):
        function(tmp_path / "none" / "x")
    with pytest.raises(UsageError, match=r"cannot write .*: Is a directory"):
        function(tmp_path)
    function(tmp_path / "new")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    for function in (check_writable, lambda path: write_file(path, b"x")):
        with pytest.raises(UsageError, match="Permission denied"):
            function(tmp_path / "x")


def test_a_folder_that_may_not_be_looked_into_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(UsageError, match=r"cannot write .*x: Permission denied"):
        check_writable(None, tmp_path / "x")


@pytest.mark.parametrize(
    "arguments",
    [
        ("trace", MODEL, "--runs", 10**9, "-o"),
        ("bench", MODEL, "--runs", 10**9, "--save"),
        ("conformance", "--summary"),
        ("classify", "no.png", "--model", MODEL, "--csv"),
        ("detect", "no.png", "--model", MODEL, "--coco"),
        ("compile", MODEL, "--dump", "dumped", "--image", "no.png", "--html"),
        ("compile", MODEL, "--dump", "dumped", "--image", "no.png", "-o"),
        ("doctor", "--report"),
    ],
)
def test_long_work_does_not_begin_without_a_place_for_its_result(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...]
) -> None:
    """The command ends before anything that would be refused later, or begun."""
    monkeypatch.setattr("delegate.insight.doctor.examine", None)
    run(*arguments, tmp_path / "none" / "x.json").assert_refused("cannot write", "none/x.json")


def test_closed_standard_output_is_no_internal_error() -> None:
    outcome = subprocess.run(
        [f'"{sys.executable}" -m delegate library-path >&-'], shell=True, cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0
    assert "internal error" not in outcome.stderr


def test_closed_standard_error_keeps_the_exit_code() -> None:
    outcome = subprocess.run(
        [f'"{sys.executable}" -m delegate compile nowhere.tflite 2>&-'], shell=True, cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (outcome.returncode, outcome.stdout) == (2, "")


@pytest.mark.parametrize("command", ["classify", "compile", "compare", "bench"])
def test_names_that_are_no_utf8(run: Run, tmp_path: Path, command: str) -> None:
    model, image = (tmp_path / os.fsdecode(name) for name in (b"m\xff.tflite", b"i\xff.png"))
    model.write_bytes(MODEL.read_bytes())
    image.write_bytes(IMAGE.read_bytes())
    arguments = {
        "classify": (image, "--model", model),
        "compile": (model,),
        "compare": (model, "--random", 1),
        "bench": (model, "--runs", 1),
    }
    outcome = run(command, *arguments[command], "--device", "simulator")
    assert outcome.code == 0, outcome.err
