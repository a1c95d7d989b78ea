"""MediaPipe's float models on photographs of people, in fp16: how far outputs are from float32, and
from what fp16 lets them be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.host.delegation import collect_delegations
from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from delegate.partition.half import in_half
from delegate.vision.images import open_image
from tests.generated.exact_graph import exact_values
from tests.shared_folder import MODELS, SHARED, needs_models

pytestmark = needs_models

FLOAT = MODELS / "float"
LEAST_PIXEL = {"mediapipe_face_detection_short_range": -1.0}
"""What stands for black; white is 1."""
NAMES = (
    "mediapipe_face_detection_short_range",
    "mediapipe_hand_landmark_lite",
    "mediapipe_palm_detection_lite",
)
MOST_OF_RANGE = 0.01
LEAST_COSINE = 0.9999
MOST_OF_IDEAL = 1.25
"""The mean of the errors' ratios: tables and factors between tensors are rounded, too."""
DRAWS = 2.0
"""How far two draws of the same noise are apart on a single photograph."""
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
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_outputs_are_those_of_float32_within_a_hundredth(name: str, count: int) -> None:
    for results in outputs(name, count):
        for ours, theirs in zip(*results, strict=True):
            # Of one number, a probability, the range is 1.
            span = np.ptp(theirs) if theirs.size > 1 else 1.0
            assert np.abs(ours - theirs).max() <= MOST_OF_RANGE * span
            cosine = ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs))
            assert cosine >= LEAST_COSINE


def cosine(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float((ours * theirs).sum() / np.sqrt((ours**2).sum() * (theirs**2).sum()))


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_masks_are_as_near_as_a_rounding_of_each_tensor_lets_them_be(count: int) -> None:
    """No fp16 holds selfie segmentation's masks to a hundredth, and that of every photograph to the
    cosine (``python -m benchmarks.half_limits``): beside everything in float64 but for one rounding
    of each tensor to fp16, the errors are another draw of the same noise.
    """
    path = FLOAT / "mediapipe_selfie_segmentation.tflite"
    graph = in_half(read_graph(path), "fp16")
    (given,), (mask,) = graph.inputs, graph.outputs
    options = Options.from_mapping({"float": "fp16"}, {})
    (partition,) = compile_model(path, options).partitions
    npu = Executable(partition.program, "simulator")
    size = graph.tensor(given).shape[1], graph.tensor(given).shape[2]
    logarithms = []
    for photograph in photographs(count):
        inputs = {given: pixels(photograph, size, 0.0)}
        exact = exact_values(graph, inputs)[mask]
        ideal = exact_values(graph, inputs, lambda _, v: v.astype(np.float16).astype(np.float64))[
            mask
        ]
        (found,) = npu.run([inputs[given]])
        ours = found.astype(np.float64).reshape(exact.shape)
        errors, least = (np.sqrt(np.mean((values - exact) ** 2)) for values in (ours, ideal))
        logarithms.append(np.log(errors / least))
        worst = max(1 - LEAST_COSINE, DRAWS * (1 - cosine(ideal, exact)))
        assert 1 - cosine(ours, exact) <= worst, photograph
    assert np.exp(np.mean(logarithms)) <= MOST_OF_IDEAL
