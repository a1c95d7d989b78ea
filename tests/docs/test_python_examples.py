"""The examples in Python of README and of docs/python.md run: their blocks, and calls in text."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

import delegate
from tests.docs.shown_commands import ROOT, furnish

pytest.importorskip("PIL")
pytest.importorskip("tflite_runtime", reason="the README's example imports it")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README)
PAGE_BLOCKS = BLOCK.findall(PAGE)
CALLS = re.findall(r"`(delegate\.\w+\([^`]*\))`", README)
FRAMES = 5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def execute(text: str) -> None:
    exec(compile(text, "example.py", "exec"), {"delegate": delegate})


def write_video(path: Path) -> None:
    """Write some frames of a size that is not the model's."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # as rk3588_vision.video, for all tests
    import cv2
    import numpy as np

    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 25.0, (96, 64))
    assert writer.isOpened()
    for number in range(FRAMES):
        writer.write(np.full((64, 96, 3), 40 * number, np.uint8))
    writer.release()


@pytest.mark.parametrize("text", [*BLOCKS, *CALLS], ids=lambda text: text.splitlines()[-1][:40])
@pytest.mark.usefixtures("folder")
def test_an_example_runs(text: str) -> None:
    if "(model)" not in text:  # in running text: a class as such
        execute(text)


@pytest.mark.filterwarnings("ignore::ImportWarning")  # PyGObject's importer
@pytest.mark.parametrize("text", PAGE_BLOCKS, ids=["pictures", "opencv", "gstreamer", "own"])
def test_an_example_of_the_page_runs(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("cv2", "gi"):
        if f"import {module}" in text and importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module} in {sys.executable}")
    if "import cv2" in text:
        write_video(folder / "street.mp4")
    execute(text)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == FRAMES if "frames(source)" in text else len(lines) >= 1


def test_there_are_examples_of_both_kinds() -> None:
    assert len(BLOCKS) >= 2
    assert {call.partition("(")[0] for call in CALLS} >= {
        "delegate.detect", "delegate.load_delegate", "delegate.compile_model"
    }  # fmt: skip
