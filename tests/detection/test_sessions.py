"""Classifier and Detector stay loaded: every kind of picture, batches, streams, own tensors."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import delegate
from delegate.errors import DeviceError, UsageError
from delegate.host.runtimes import find_runtime
from rk3588_vision.detection.objects import Detector, FoundObject
from tests.cli.conftest import DIGITS, LABELS, MODEL
from tests.cli.odd_models import constant_detector

pictures = pytest.importorskip("PIL.Image")
IMAGES = sorted((DIGITS / "images").glob("*.png"))
Pixels = npt.NDArray[np.uint8]


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "simulator")


def pixels_of(path: Path) -> Pixels:
    with pictures.open(path) as image:
        return np.asarray(image.convert("RGB"))


@pytest.fixture(scope="module")
def classifier() -> Iterator[delegate.Classifier]:
    with delegate.Classifier(MODEL, labels=LABELS, workers=2, device="simulator") as made:
        yield made


@pytest.fixture
def detector(tmp_path: Path) -> Iterator[Detector]:
    path = tmp_path / "detector.tflite"
    path.write_bytes(constant_detector())
    with delegate.Detector(path, labels=["ant", "bee", "cat"], workers=2) as made:
        yield made


def test_paths_pictures_and_arrays_are_the_same_picture(classifier: delegate.Classifier) -> None:
    path = IMAGES[3]
    grey = np.asarray(pictures.open(path).convert("L"))
    with pictures.open(path) as image:
        results = [classifier(p) for p in (path, str(path), image, pixels_of(path), grey)]
    assert results == [results[0]] * 5
    assert results[0][0].label is not None
    assert results[0] == delegate.classify(path, MODEL, labels=LABELS)


def test_results_of_batches_and_streams_are_in_order(classifier: delegate.Classifier) -> None:
    expected = [classifier(path) for path in IMAGES]
    assert len({tuple(entry.index for entry in ranked) for ranked in expected}) > 3
    assert classifier.batch(IMAGES) == expected
    assert classifier.batch(np.stack([pixels_of(path) for path in IMAGES])) == expected
    assert list(classifier.stream(pixels_of(path) for path in IMAGES)) == expected
    futures = [classifier.run_async(path) for path in IMAGES[:4]]
    assert [future.result() for future in futures] == expected[:4]


def test_an_array_may_be_written_again(classifier: delegate.Classifier) -> None:
    first, second = pixels_of(IMAGES[1]).copy(), pixels_of(IMAGES[7])
    expected = classifier(first)
    future = classifier.run_async(first)
    first[:] = second
    assert future.result() == expected != classifier(second)


class Slow(delegate.Classifier):
    """Its pictures wait for ``go``."""

    def __init__(self, **more: Any) -> None:
        super().__init__(MODEL, **more)
        self.go, self.begun = threading.Event(), 0

    def prepare(self, picture: Any) -> Any:
        self.begun += 1
        assert self.go.wait(20)
        return super().prepare(picture)


def test_a_stream_reads_no_further_than_its_queue() -> None:
    read = []

    def frames() -> Iterator[Pixels]:
        for number in itertools.count():
            read.append(number)
            yield pixels_of(IMAGES[number % len(IMAGES)])

    with Slow(workers=2, queue=3) as slow:
        waiting = threading.Thread(target=lambda: next(slow.stream(frames())))
        waiting.start()
        until = time.monotonic() + 10
        while len(read) < 4 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(read) == 4  # three under way, one in the hand
        assert slow.begun == 2
        slow.go.set()
        waiting.join(20)
        assert not waiting.is_alive()
        assert len(read) <= 8


def test_what_the_source_raises_comes_through(classifier: delegate.Classifier) -> None:
    def frames() -> Iterator[Path]:
        yield IMAGES[0]
        raise OSError("the camera is gone")

    with pytest.raises(OSError, match="camera"):
        list(classifier.stream(frames()))
    assert classifier(IMAGES[0])


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((4, 4, 4), np.uint8), "RGBA"),
        (np.zeros((0, 4, 3), np.uint8), "no picture"),
        (np.zeros((4, 4, 3), np.float32), "uint8"),
        (np.zeros(4, np.uint8), "no picture"),
        (7, "int is no picture"),
        ("none.png", "none.png"),
    ],
)
def test_what_is_no_picture_is_refused(
    classifier: delegate.Classifier, picture: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        classifier(picture)
    with pytest.raises(UsageError, match=words):
        classifier.batch([IMAGES[0], picture])
    assert classifier(IMAGES[0])


def test_a_closed_session_says_so() -> None:
    with delegate.Classifier(MODEL) as closed:
        closed.batch(IMAGES[:2])
    for call in (closed, closed.run_async):
        with pytest.raises(UsageError, match="is closed"):
            call(IMAGES[0])
    with pytest.raises(UsageError, match="at least 1"):
        delegate.Classifier(MODEL, workers=0)
    with pytest.raises(UsageError, match="labels for"):
        delegate.Classifier(MODEL, labels=["one"])


def test_own_outputs_are_decoded_without_loading_anything(detector: Detector) -> None:
    fresh = Detector(detector.path, labels=detector.labels)
    tensor, placement = fresh.prepare(IMAGES[0])
    interpreter = find_runtime().interpreter(detector.path)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], tensor)
    interpreter.invoke()
    outputs = [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]
    found = fresh.decode(outputs, placement)
    assert found
    assert isinstance(found[0], FoundObject)
    assert found[0].label in ("ant", "bee", "cat")
    assert found == detector(IMAGES[0])
    assert fresh._first is None


def test_boxes_are_on_a_picture_of_any_size(detector: Detector) -> None:
    small, large = np.zeros((30, 40, 3), np.uint8), np.zeros((300, 400, 3), np.uint8)
    (first,), (second,) = (found[:1] for found in detector.batch([small, large]))
    assert np.allclose(np.array(first.box) * 10, second.box, rtol=0.05, atol=1.0)
    assert detector(large) == delegate.detect(large, detector.path, labels=detector.labels)


def test_strict_leaves_what_deny_ops_names() -> None:
    options = {"strict": True, "deny_ops": "ADD,MEAN,SOFTMAX", "device": "simulator"}
    with delegate.Classifier(MODEL, **options) as denied:
        assert denied(IMAGES[0])
        rules = {entry.rule for entry in denied.model.delegation.rejections}
    assert "not_denied" in rules


def test_strict_without_an_npu_says_so_in_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RK3588_DELEGATE_DEVICE")
    if any(one.is_npu for one in delegate.devices()):
        pytest.skip("this machine has an NPU")
    with pytest.raises(DeviceError, match=r"^strict: no NPU was found"):
        delegate.load_delegate(strict=True, deny_ops="ADD")
    assert delegate.load_delegate(strict=True, deny_ops="ADD", device="simulator")
