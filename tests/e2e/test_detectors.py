"""Real detectors on labelled photographs: the delegate finds what the CPU finds.

The CPU computes with TensorFlow Lite's reference kernels, which the numeric contract is about: its
fast ones disagree with them (3 % of the outputs of yolov8n_224). By default one to four
photographs, with the marker ``exhaustive`` all of them.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from delegate.host.delegated import DelegatedModel, ReferenceModel
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_vision.detection.boxes import iou
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import DetectorPlan, Thresholds, detect
from rk3588_vision.detection.ssd import ssd_anchors
from rk3588_vision.evaluation.ground_truth import objects_of
from rk3588_vision.images import find_images, open_image
from tests.detection.agreement import found_again
from tests.shared_folder import MODELS, SHARED, needs_models

pytest.importorskip("PIL")
pytestmark = needs_models

PHOTOGRAPHS = SHARED / "images" / "coco"
SURE = 0.4
MARGIN = 0.05  # a detection just above the threshold on one side may be just below it on the other


@dataclass(frozen=True)
class Case:
    file: str
    decoder: str
    classes: int | None = None
    is_equal: bool = True
    """True if every detection of all photographs is the CPU's to the bit. In others one output of a
    hundred thousand is a step off, and with it a score or a side of a box.
    """
    step: int = 16
    """The step through the photographs by default; reference kernels take seconds a model."""


CASES = [
    Case("ssdlite_mobiledet_coco_qat_postprocess.tflite", "ssd", step=32),
    Case("ssd_mobilenet_v1_300_quant.tflite", "ssd"),
    Case("yolov8n_224_int8.tflite", "yolov8"),
    Case("yolov8n_640_int8_per_channel.tflite", "yolov8", is_equal=False, step=64),
    Case("yolov5n_640_int8_per_channel.tflite", "yolov5", is_equal=False, step=64),
    Case("yolox_nano_320_int8_per_channel.tflite", "yolox"),
    Case("yolo_fastest_160_person_int8.tflite", "yolo-fastest-person", 1),
    Case("yolo_lc_256_person_int8.tflite", "st-yolo-lc", 1),
]


def detections(case: Case, photographs: list[Path], *, is_equal: bool) -> int:
    """Return how many the CPU makes, after each was found to be the delegate's too."""
    path = MODELS / case.file
    plan = DetectorPlan.read(path, Hints(classes=case.classes))
    assert plan.head.name == case.decoder
    options = Options.from_mapping({"numerics": "exact", "device": "simulator"}, {})
    ours = DelegatedModel.load(path, options, reference_kernels=True)
    assert ours.delegation.delegated_nodes > 0
    theirs = ReferenceModel.load(path, reference_kernels=True)
    count = 0
    for photograph in photographs:
        image = open_image(photograph)
        mine = detect(plan, ours, image, Thresholds(SURE - MARGIN))
        other = detect(plan, theirs, image, Thresholds(SURE - MARGIN))
        if is_equal:
            for field in ("classes", "scores", "boxes"):
                np.testing.assert_array_equal(getattr(mine, field), getattr(other, field))
        for wanted, among in ((other, mine), (mine, other)):
            same, sure = found_again(wanted.above(SURE), among, image.height, image.width)
            assert same == sure, photograph.name
        count += len(other.above(SURE))
    return count


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.file)
def test_delegate_finds_what_the_cpu_finds(case: Case) -> None:
    photographs = find_images(PHOTOGRAPHS)[:: case.step]
    assert detections(case, photographs, is_equal=True) >= 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.file)
def test_delegate_finds_what_the_cpu_finds_everywhere(case: Case) -> None:
    photographs = find_images(PHOTOGRAPHS)
    assert len(photographs) == 64
    assert detections(case, photographs, is_equal=case.is_equal) >= 20


LEAST_FOUND = {
    "yolov8n_224_int8.tflite": 0.6,
    "yolov8n_640_int8_per_channel.tflite": 0.8,
    "yolov5n_640_int8_per_channel.tflite": 0.6,
    "yolox_nano_320_int8_per_channel.tflite": 0.6,
    "yolo_fastest_160_person_int8.tflite": 0.5,
    "yolo_lc_256_person_int8.tflite": 0.5,
}
"""The share of large objects to find, by the model's size; a wrong head finds hardly any."""
LARGE = 0.1
"""The share of the photograph's area from which an object is large."""


@pytest.mark.parametrize("file", LEAST_FOUND)
def test_objects_of_photographs_are_found(file: str) -> None:
    """By the labels beside the photographs: neither the CPU nor our own reading decides."""
    path = MODELS / file
    plan = DetectorPlan.read(path, Hints())
    model = DelegatedModel.load(
        path, Options.from_mapping({"numerics": "exact", "device": "simulator"}, {})
    )
    photographs = find_images(PHOTOGRAPHS)[:20]
    truth = objects_of(photographs, None)
    wanted = matched = 0
    for photograph in photographs:
        image = open_image(photograph)
        found = detect(plan, model, image, Thresholds(0.25))
        size = np.array([image.width, image.height] * 2)
        for index, *box in truth[photograph.name]:
            if (box[2] - box[0]) * (box[3] - box[1]) < LARGE or index >= (plan.head.classes or 0):
                continue
            wanted += 1
            same = found.take(found.classes == index)
            overlaps = iou(np.array(box) * size, same.boxes)
            matched += bool(overlaps.max(initial=0.0) >= 0.5)
    assert wanted >= 2
    assert matched / wanted >= LEAST_FOUND[file], (matched, wanted)


@pytest.mark.parametrize("case", CASES[:2], ids=lambda c: c.file)
def test_anchors_of_cut_ssd_models_are_the_post_processors(case: Case) -> None:
    """The anchors that this project computes are the ones that the model's operator holds."""
    graph = read_graph(MODELS / case.file)
    node = next(node for node in graph.nodes if node.op == "CUSTOM:TFLite_Detection_PostProcess")
    tensor = graph.tensor(node.inputs[2])
    assert tensor.constant is not None
    assert tensor.quantization is not None
    held = tensor.quantization.scale * (
        tensor.constant.astype(np.float64) - tensor.quantization.zero_point
    )
    _, h, w, _ = graph.tensor(graph.inputs[0]).shape
    ours = ssd_anchors(h, w)
    assert ours.shape == held.shape
    assert np.abs(ours - held).max() <= tensor.quantization.scale * 1.5
