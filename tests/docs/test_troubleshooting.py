"""Every message of the troubleshooting page is one that the program really gives."""

import json
import re
import sys
from multiprocessing import resource_tracker, spawn
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.conftest import IMAGE, MODEL, Run, run
from tests.cli.odd_models import constant_detector, two_input_model

__all__ = ["run"]  # the fixture

pytest.importorskip("PIL")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)` \| ", PAGE, re.MULTILINE)


@pytest.fixture
def produced(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what the program says for each mistake, by the message that the page lists."""
    text = tmp_path / "text.png"
    text.write_text("no picture")
    short = tmp_path / "short.txt"
    short.write_text("zero\none\n")
    two = tmp_path / "two.tflite"
    two.write_bytes(two_input_model())
    state = tmp_path / "state.jsonl"
    state.write_text(
        json.dumps({"format": "rk3588-evaluation-1", "fingerprint": "of something else"}) + "\n"
    )
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "owl.png").write_bytes(IMAGE.read_bytes())
    table = tmp_path / "truth.csv"
    table.write_text("owl.png,7\n")
    start = ("classify", IMAGE, "--model", MODEL)
    evaluate = ("evaluate", folder, "--model", MODEL)
    detector = tmp_path / "detector.tflite"
    detector.write_bytes(constant_detector())
    uncertain = tmp_path / "uncertain.tflite"
    uncertain.write_bytes(constant_detector(classes=4))
    video = ("detect", "--video", tmp_path / "none.mp4", "--model", detector)
    monkeypatch.setitem(sys.modules, "cv2", ModuleType("cv2"))
    resource_tracker.ensure_running()
    monkeypatch.setattr(spawn, "_python_exe", spawn.get_executable())  # put back at the end
    spawn.set_executable("/bin/false")
    mistakes = {
        ": no such file": ("compile", tmp_path / "none.tflite"),
        "no such image file": ("classify", tmp_path / "none.png", "--model", MODEL),
        "not an image: none of the formats": ("classify", text, "--model", MODEL),
        "too short a label file": (*start, "--labels", short),
        "needs one of each": ("classify", IMAGE, "--model", two),
        "are of no detector known here": ("detect", IMAGE, "--model", MODEL),
        "fit more than one head": ("detect", IMAGE, "--model", uncertain),
        "do not fit the decoder": ("detect", IMAGE, "--model", MODEL, "--decoder", "yolov5"),
        "holds another evaluation": (*evaluate, "--truth", table, "--state", state),
        "no class at the beginning of its name": evaluate,
        "no label files (.txt) beside the pictures": (*evaluate, "--task", "detect"),
        "not a saved measurement": ("bench", "--compare", table, table),
        "there are: ": ("models", "fetch", "resnet"),
        "cannot write": ("compile", MODEL, "-o", tmp_path / "none" / "out.tflite"),
        "pictures or a --video": ("detect", "--model", MODEL),
        "no such video file": video,
        "no node of this driver was found": (*start, "--device", "rocket"),
        "unknown option": (*start, "-O", "speed=high"),
        "before it had started": ("conformance", "--gtest_filter=Joins.*", "--jobs", "2"),
        "strict: node": ("compile", MODEL, "-O", "strict=true"),
    }
    answers = {}
    for message, arguments in mistakes.items():
        outcome = run(*arguments)
        assert outcome.code != 0, arguments
        answers[message] = outcome.err
    return answers


def test_the_page_and_the_program_agree(produced: dict[str, str]) -> None:
    assert len(MESSAGES) >= 10
    assert set(MESSAGES) == set(produced)
    for message, said in produced.items():
        assert message in said, f"{message!r} is not in {said!r}"
        assert "internal error" not in said
