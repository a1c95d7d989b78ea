"""detect --video: with OpenCV where it is installed, and with a stand-in for it everywhere."""

import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delegate.cli.table import WIDTH
from rk3588_vision.video import CONTAINERS, FILE_OPTIONS, OPTIONS_VARIABLE
from tests.cli.conftest import Run

Image = pytest.importorskip("PIL.Image")

H, W, FRAMES, RATE = 100, 200, 7, 10.0
GREY = 90


class StandIn(types.ModuleType):
    """A stand-in for OpenCV. The "camera" 0 gives ``FRAMES`` pictures, or is interrupted."""

    CAP_PROP_FPS = 5
    CAP_FFMPEG = 1900

    def __init__(self) -> None:
        super().__init__("cv2")
        self.__version__ = "4.10.0"
        self.rate = RATE
        self.interrupt_at: int | None = None
        self.released = 0
        self.written: list[np.ndarray] = []
        self.writers: list[tuple[Any, ...]] = []
        self.retrieved = 0
        self.opened: list[tuple[int | str, int, str]] = []

    def VideoCapture(self, source: int | str, backend: int = 0) -> Any:  # noqa: N802
        stand_in, number = self, 0
        self.opened.append((source, backend, os.environ.get(OPTIONS_VARIABLE, "")))

        class Capture:
            def isOpened(self) -> bool:  # noqa: N802
                return source in (0, "rtsp://camera/1")

            def get(self, what: int) -> float:
                return stand_in.rate if what == StandIn.CAP_PROP_FPS else 0.0

            def grab(self) -> bool:
                nonlocal number
                if stand_in.interrupt_at == number:
                    raise KeyboardInterrupt
                number += 1
                return number <= FRAMES

            def retrieve(self) -> tuple[bool, np.ndarray]:
                stand_in.retrieved += 1
                return True, np.full((H, W, 3), GREY, np.uint8)

            def release(self) -> None:
                stand_in.released += 1

        return Capture()

    def VideoWriter_fourcc(self, *letters: str) -> str:  # noqa: N802
        return "".join(letters)

    def VideoWriter(self, path: str, *more: Any) -> Any:  # noqa: N802
        self.writers.append((path, *more))
        stand_in = self

        class Writer:
            def isOpened(self) -> bool:  # noqa: N802
                return Path(path).parent.is_dir()

            def write(self, pixels: np.ndarray) -> None:
                stand_in.written.append(pixels)

            def release(self) -> None:
                stand_in.released += 1

        return Writer()


@pytest.fixture
def camera(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "cv2", stand_in)
    return stand_in


def test_json_of_a_camera(run: Run, model: Path, camera: StandIn) -> None:
    outcome = run("detect", "--video", 0, "--model", model, "--json")
    assert outcome.code == 0, outcome
    document = outcome.json
    assert document["video"] == "0"
    assert document["frames_per_second"] == RATE
    assert document["decoder"] == "yolov8"
    assert [frame["frame"] for frame in document["frames"]] == list(range(FRAMES))
    assert document["frames"][3]["time_s"] == pytest.approx(0.3)
    (found,) = document["frames"][-1]["detections"]
    assert (found["class"], found["label"]) == (1, None)
    assert found["box"] == pytest.approx([50, 0, 150, 25], abs=1.5)
    assert camera.released == 1


def test_lines_of_a_stream(run: Run, model: Path, camera: StandIn, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("ant\nbee\ncat\n")
    camera.rate = 0.0  # unknown, as of many cameras
    outcome = run("detect", "--video", "rtsp://camera/1", "--model", model, "--labels", labels)
    assert outcome.code == 0, outcome
    assert "frame      6  1 object: bee 0.75\n7 frames" in outcome.out
    assert max(len(line) for line in outcome.out.splitlines()) <= max(WIDTH, len(str(model)) + 20)


def test_every_and_frames(run: Run, model: Path, camera: StandIn) -> None:
    start = ("detect", "--video", 0, "--model", model, "--json", "--every", 3)
    assert [frame["frame"] for frame in run(*start).json["frames"]] == [0, 3, 6]
    assert camera.retrieved == 3
    document = run(*start, "--frames", 2).json
    assert [frame["frame"] for frame in document["frames"]] == [0, 3]


def test_an_interrupted_camera_leaves_what_was_found(
    run: Run, model: Path, camera: StandIn, tmp_path: Path
) -> None:
    camera.interrupt_at = 4
    target = tmp_path / "boxes.mp4"
    outcome = run("detect", "--video", 0, "--model", model, "--json", "--output", target)
    assert outcome.code == 0
    assert len(outcome.json["frames"]) == 4
    assert camera.released == 2  # the camera, and the video, which is complete
    assert len(camera.written) == 4


def test_drawn_video(run: Run, model: Path, camera: StandIn, tmp_path: Path) -> None:
    target = tmp_path / "new" / "boxes.avi"
    outcome = run("detect", "--video", 0, "--model", model, "--output", target, "--every", 2)
    assert f"wrote {target}" in outcome.out
    assert camera.writers == [(str(target), "MJPG", RATE / 2, (W, H))]
    assert len(camera.written) == 4
    changed = np.argwhere((camera.written[0] != GREY).any(axis=2))
    assert changed[:, 1].min() in range(48, 53)


def test_drawn_frames_in_a_folder(run: Run, model: Path, camera: StandIn, tmp_path: Path) -> None:
    target = tmp_path / "new" / "frames"
    outcome = run("detect", "--video", 0, "--model", model, "--output", target, "--every", 5)
    assert outcome.code == 0
    assert sorted(path.name for path in target.iterdir()) == [
        "frame_000000.png",
        "frame_000005.png",
    ]
    with Image.open(target / "frame_000005.png") as picture:
        assert picture.size == (W, H)


def test_what_cannot_be_is_refused(run: Run, model: Path, camera: StandIn, tmp_path: Path) -> None:
    start = ("detect", "--model", model)
    run(*start).assert_refused("pictures or a --video")
    run(*start, tmp_path / "x.png", "--video", "0").assert_refused("pictures or a --video")
    run(*start, tmp_path / "x.png", "--every", "2").assert_refused("are for a --video")
    run(*start, "--video", tmp_path / "none.mp4").assert_refused("no such video file")
    run(*start, "--video", tmp_path).assert_refused("is a directory")
    run(*start, "--video", model).assert_refused("not a video that this OpenCV can read")
    run(*start, "--video", "3").assert_refused("no camera 3")
    run(*start, "--video", "0", "--output", tmp_path / "x.png").assert_refused("into a folder")
    run(*start, "--video", "0", "--output", model).assert_refused("into a folder")
    run(*start, "--video", "0", "--frames", "0").assert_refused("not a positive number")


def test_source_that_gives_nothing(run: Run, model: Path, camera: StandIn) -> None:
    camera.interrupt_at = 0
    outcome = run("detect", "--video", 0, "--model", model, "--json")
    outcome.assert_refused("gave no picture")


def test_missing_extra_is_named(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    outcome = run("detect", "--video", 0, "--model", model)
    outcome.assert_refused("pip install rk3588-delegate[video]", code=1)


def test_files_are_opened_by_what_can_refuse_playlists(
    run: Run, model: Path, camera: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with a colon is a file's, not an address's; what the user sets is for streams."""
    monkeypatch.setenv(OPTIONS_VARIABLE, "rtsp_transport;tcp")
    monkeypatch.chdir(model.parent)
    Path("concat:a").touch()
    run("detect", "--video", "concat:a", "--model", model)
    run("detect", "--video", "rtsp://camera/1", "--model", model)
    path = str(Path("concat:a").absolute())
    assert camera.opened == [
        (path, StandIn.CAP_FFMPEG, FILE_OPTIONS),
        ("rtsp://camera/1", 0, "rtsp_transport;tcp"),
    ]
    address = f"file://{path}"
    run("detect", "--video", address, "--model", model).assert_refused("no such video file")
    assert not {"hls", "concat", "dash", "sdp", "image2", "lavfi"}.intersection(CONTAINERS)


def test_what_follows_playlists_opens_no_file(run: Run, model: Path, camera: StandIn) -> None:
    camera.__version__ = "4.11.0"
    outcome = run("detect", "--video", model, "--model", model)
    outcome.assert_refused("pip install 'opencv-python-headless!=4.11.*'", code=1)
    assert camera.opened == []
    assert run("detect", "--video", 0, "--model", model, "--frames", 1).code == 0


PLAYLISTS = {
    "list.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nreal.avi\n#EXT-X-ENDLIST\n",
    "script.mp4": "ffconcat version 1.0\nfile real.avi\n",
    "session.avi": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
    "m=video 5004 RTP/AVP 26\n",
}


@pytest.mark.parametrize("name", PLAYLISTS)
def test_files_that_name_others_are_not_followed(run: Run, model: Path, name: str) -> None:
    cv2 = pytest.importorskip("cv2", reason="the extra 'video' (OpenCV) is not installed")
    real = model.parent / "real.avi"
    writer = cv2.VideoWriter(str(real), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (W, H))
    for _ in range(3):
        writer.write(np.zeros((H, W, 3), np.uint8))
    writer.release()
    assert run("detect", "--video", real, "--model", model).code == 0
    path = model.parent / name
    path.write_text(PLAYLISTS[name])
    outcome = run("detect", "--video", path, "--model", model)
    outcome.assert_refused("not a video that this OpenCV can read")


def test_a_real_video_in_and_out(run: Run, model: Path, tmp_path: Path) -> None:
    """The picture's left half red, its right half blue: a swap of colours would show."""
    cv2 = pytest.importorskip("cv2", reason="the extra 'video' (OpenCV) is not installed")
    source, target = tmp_path / "source.avi", tmp_path / "boxes.avi"
    writer = cv2.VideoWriter(str(source), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (W, H))
    pixels = np.zeros((H, W, 3), np.uint8)
    pixels[:, : W // 2, 2] = pixels[:, W // 2 :, 0] = 255  # OpenCV has BGR
    for _ in range(5):
        writer.write(pixels)
    writer.release()
    outcome = run("detect", "--video", source, "--model", model, "--json", "--output", target)
    assert outcome.code == 0, outcome
    document = outcome.json
    assert document["frames_per_second"] == pytest.approx(RATE)
    assert len(document["frames"]) == 5
    assert all(len(frame["detections"]) == 1 for frame in document["frames"])
    folder = tmp_path / "frames"
    again = run("detect", "--video", target, "--model", model, "--output", folder)
    assert "5 frames" in again.out
    with Image.open(folder / "frame_000004.png") as picture:
        drawn = np.asarray(picture).astype(int)
    assert drawn.shape == (H, W, 3)
    assert drawn[H - 10, 20, 0] > 200 > 60 > drawn[H - 10, 20, 2]
    assert drawn[H - 10, W - 20, 2] > 200 > 60 > drawn[H - 10, W - 20, 0]
    assert run("detect", "--video", model, "--model", model).code == 2
