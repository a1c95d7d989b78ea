"""MediaPipe's float models on photographs of people, in fp16: how far outputs are from float32."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from delegate.host.delegation import collect_delegations
from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime
from rk3588_vision.images import open_image
from tests.shared_folder import MODELS, SHARED, needs_models

pytestmark = needs_models

FLOAT = MODELS / "float"
LEAST_PIXEL = {"mediapipe_face_detection_short_range": -1.0}
"""The input value of black; white is 1."""
NAMES = (
    "mediapipe_face_detection_short_range",
    "mediapipe_hand_landmark_lite",
    "mediapipe_palm_detection_lite",
)
MOST_OF_RANGE = 0.01
LEAST_COSINE = 0.9999
PERSON = "0"
FEW, MANY = 2, 20


def photographs(count: int) -> list[Path]:
    """The first ones that show a person."""
    folder = SHARED / "images"
    labelled = (
        path.with_suffix(".jpg")
        for path in sorted((folder / "coco").glob("*.txt"))
        if any(line.split()[:1] == [PERSON] for line in path.read_text().splitlines())
    )
    return [folder / "grace_hopper.bmp", *labelled][:count]


def pixels(path: Path, size: tuple[int, int], least: float) -> np.ndarray:
    height, width = size
    picture = open_image(path).convert("RGB").resize((width, height))
    return np.asarray(picture, np.float32)[np.newaxis] / 255 * (1 - least) + least


def cosine(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the cosine of the angle between two arrays."""
    return float((ours * theirs).sum() / np.sqrt((ours * ours).sum() * (theirs * theirs).sum()))


def outputs(name: str, count: int) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """In fp16 and by the runtime's kernels, of each photograph."""
    path, runtime = FLOAT / f"{name}.tflite", find_runtime()
    with collect_delegations() as found:
        plugin = runtime.load_delegate(library_path(), {"device": "simulator"})
        ours = runtime.interpreter(path, [plugin], threads=2)
    assert [one.partitions for one in found] == [1]
    theirs = runtime.interpreter(path, [], threads=2)
    size = tuple(int(n) for n in ours.get_input_details()[0]["shape"][1:3])
    for photograph in photographs(count):
        x = pixels(photograph, size, LEAST_PIXEL.get(name, 0.0))
        results = []
        for interpreter in (ours, theirs):
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
            interpreter.invoke()
            details = interpreter.get_output_details()
            results.append([interpreter.get_tensor(one["index"]).ravel() for one in details])
        yield results[0], results[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)])
def test_outputs_are_those_of_float32_within_a_hundredth(name: str, count: int) -> None:
    for results in outputs(name, count):
        for ours, theirs in zip(*results, strict=True):
            # Of one number, a probability, the range is 1.
            span = np.ptp(theirs) if theirs.size > 1 else 1.0
            assert np.abs(ours - theirs).max() <= MOST_OF_RANGE * span
            assert cosine(ours, theirs) >= LEAST_COSINE
