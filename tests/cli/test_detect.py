"""The command detect, and ``delegate.detect``, on a model made here, whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

import delegate
from delegate.cli.table import WIDTH
from delegate.errors import ModelError, UsageError
from tests.cli.conftest import Run
from tests.cli.odd_models import constant_detector
from tests.shared_folder import DIGITS, MODELS, SHARED, needs_models

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.new("RGB", (200, 100), (90, 90, 90)).save(path)
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.txt"
    path.write_text("ant\nbee\ncat\n")
    return path


def test_detect_json(run: Run, model: Path, picture: Path, labels: Path) -> None:
    outcome = run("detect", picture, "--model", model, "--labels", labels, "--json")
    assert outcome.code == 0, outcome
    document = outcome.json
    assert document["decoder"] == "yolov8"
    assert document["device"] == "simulator"
    assert (document["width"], document["height"]) == (200, 100)
    (found,) = document["detections"]
    assert (found["class"], found["label"]) == (1, "bee")
    assert found["score"] == pytest.approx(0.75, abs=0.01)
    # The input holds the picture between rows 16 and 48, so the box begins above the picture.
    assert found["box"] == pytest.approx([50, 0, 150, 25], abs=1.5)
    assert document["images"] == [
        {k: document[k] for k in ("image", "width", "height", "detections")}
    ]


def test_input_with_channels_first(run: Run, model: Path, picture: Path, tmp_path: Path) -> None:
    other = tmp_path / "nchw.tflite"
    other.write_bytes(constant_detector(channels_first=True))
    expected = run("detect", picture, "--model", model, "--json").json
    assert len(expected["detections"]) == 1
    found = run("detect", picture, "--model", other, "--json").json
    # The mean over rows and columns that lie last stays on the CPU.
    assert found.pop("delegated_nodes") < expected.pop("delegated_nodes")
    assert found == expected


def test_boxes_are_drawn(run: Run, model: Path, picture: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "boxes.png"
    outcome = run("detect", picture, "--model", model, "--output", target)
    assert outcome.code == 0, outcome
    assert f"wrote {target}" in outcome.out
    drawn = np.asarray(Image.open(target))
    assert drawn.shape == (100, 200, 3)
    changed = np.argwhere((drawn != 90).any(axis=2))
    assert changed[:, 1].min() in range(48, 53)
    assert changed[:, 0].max() in range(23, 29)


def test_several_pictures_go_into_a_folder(
    run: Run, model: Path, picture: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.png", "b.jpg"):
        Image.open(picture).save(folder / name)
    target = tmp_path / "out"
    outcome = run("detect", folder, picture, "--model", model, "--output", target, "--json")
    assert [Path(i["image"]).name for i in outcome.json["images"]] == [
        "a.png", "b.jpg", "picture.png",
    ]  # fmt: skip
    assert sorted(p.name for p in target.iterdir()) == ["a.png", "b.png", "picture.png"]


def test_options_that_change_what_is_found(run: Run, model: Path, picture: Path) -> None:
    def boxes(*more: object) -> list[list[float]]:
        document = run("detect", picture, "--model", model, "--json", *more).json
        return [found["box"] for found in document["detections"]]

    assert boxes("--threshold", 0.9) == []
    (stretched,) = boxes("--fit", "stretch")
    assert stretched == pytest.approx([50, 12.5, 150, 37.5], abs=1.5)


def test_table_fits_a_page(run: Run, model: Path, picture: Path, labels: Path) -> None:
    outcome = run("detect", picture, "--model", model, "--labels", labels)
    assert "1 object" in outcome.out
    assert "bee" in outcome.out
    assert max(len(line) for line in outcome.out.splitlines()) <= max(WIDTH, len(str(picture)) + 40)


def test_what_cannot_be_is_refused(run: Run, model: Path, picture: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("ant\n")
    start = ("detect", picture, "--model", model)
    run(*start, "--labels", short).assert_refused("1 labels for 3 classes")
    run(*start, "--output", tmp_path / "x.txt").assert_refused(".png")
    run(*start, "--decoder", "ssd").assert_refused("do not fit the decoder ssd")
    run(*start, "--anchors", "3y4").assert_refused("WIDTHxHEIGHT")
    run(*start, "--threshold", "2").assert_refused("from 0 to 1")
    run("detect", tmp_path / "none.png", "--model", model).assert_refused("no such image")


def test_the_function_gives_labels_and_boxes(model: Path, picture: Path, labels: Path) -> None:
    (found,) = delegate.detect(picture, model, labels=labels, device="simulator")
    assert (found.index, found.label) == (1, "bee")
    assert found.score == pytest.approx(0.75, abs=0.01)
    assert found.box == pytest.approx((50, 0, 150, 25), abs=1.5)
    assert delegate.detect(picture, model, threshold=0.9, device="simulator") == ()


def test_the_function_refuses_what_cannot_be(model: Path, picture: Path, labels: Path) -> None:
    labels.write_text("ant\n")
    with pytest.raises(UsageError, match="1 labels for 3 classes"):
        delegate.detect(picture, model, labels=labels)
    with pytest.raises(UsageError, match="no decoder 'yolo'"):
        delegate.detect(picture, model, decoder="yolo")
    with pytest.raises(UsageError, match="from 0 to 1"):
        delegate.detect(picture, model, threshold=2)
    with pytest.raises(ModelError, match="of no detector known here"):
        delegate.detect(picture, DIGITS)


@needs_models
def test_a_face_has_its_points() -> None:
    model = MODELS / "float" / "mediapipe_face_detection_short_range.tflite"
    (face,) = delegate.detect(SHARED / "images" / "grace_hopper.bmp", model, device="simulator")
    x1, y1, x2, y2 = face.box
    assert 150 < x1 < 200
    assert 340 < x2 < 390
    eyes, nose = face.points[:2], face.points[2]
    assert all(x1 < x < x2 and y1 < y < nose[1] < y2 for x, y, _ in eyes)
