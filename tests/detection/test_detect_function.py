"""``delegate.detect`` gives what the command gives, and refuses what it refuses."""

from pathlib import Path

import pytest

import delegate
from delegate.errors import ModelError, UsageError
from tests.cli.odd_models import constant_detector
from tests.shared_folder import MODELS, SHARED, needs_models

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "constant.tflite"
    path.write_bytes(constant_detector())
    return path


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.new("RGB", (200, 100), (90, 90, 90)).save(path)
    return path


def test_objects_have_labels_and_boxes(model: Path, picture: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("ant\nbee\ncat\n")
    (found,) = delegate.detect(picture, model, labels=labels, device="simulator")
    assert (found.index, found.label) == (1, "bee")
    assert found.score == pytest.approx(0.75, abs=0.01)
    assert found.box == pytest.approx((50, 0, 150, 25), abs=1.5)
    assert delegate.detect(picture, model, threshold=0.9, device="simulator") == ()


def test_what_cannot_be_is_refused(model: Path, picture: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("ant\n")
    with pytest.raises(UsageError, match="1 labels for 3 classes"):
        delegate.detect(picture, model, labels=labels)
    with pytest.raises(UsageError, match="no decoder 'yolo'"):
        delegate.detect(picture, model, decoder="yolo")
    with pytest.raises(UsageError, match="from 0 to 1"):
        delegate.detect(picture, model, threshold=2)
    digits = Path(__file__).parents[2] / "models" / "digits" / "digits_int8.tflite"
    with pytest.raises(ModelError, match="of no detector known here"):
        delegate.detect(picture, digits)


@needs_models
def test_a_face_has_its_points() -> None:
    model = MODELS / "float" / "mediapipe_face_detection_short_range.tflite"
    (face,) = delegate.detect(SHARED / "images" / "grace_hopper.bmp", model, device="simulator")
    x1, y1, x2, y2 = face.box
    assert 150 < x1 < 200
    assert 340 < x2 < 390
    eyes, nose = face.points[:2], face.points[2]
    assert all(x1 < x < x2 and y1 < y < nose[1] < y2 for x, y, _ in eyes)
