"""The delegate's average precision on labelled photographs is the CPU's.

Both sides compute with TensorFlow Lite's reference kernels on the CPU, as in ``test_detectors``. By
default small models on a part of the photographs; with the marker ``exhaustive`` all on all 64.
"""

import hashlib
from pathlib import Path

import pytest

from rk3588_vision.class_ranking import read_label_lines
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.evaluation.evaluator import Evaluator, Spec
from rk3588_vision.evaluation.ground_truth import class_map, objects_of
from rk3588_vision.evaluation.metrics import detection_metrics
from rk3588_vision.images import find_images
from tests.shared_folder import MODELS, SHARED, needs_models

pytest.importorskip("pycocotools")
pytestmark = needs_models

IMAGES = SHARED / "images"
PHOTOGRAPHS = IMAGES / "coco"

# The classes that the model tells apart, by name; None: those of the labels.
LABELS = {
    "yolo_fastest_160_person_int8": ("person",),
    "yolo_lc_256_person_int8": ("person",),
    "ssd_mobilenet_v1_300_quant": IMAGES / "coco_labels.txt",
    "ssdlite_mobiledet_coco_qat_postprocess": IMAGES / "coco_labels.txt",
    "yolov8n_224_int8": None,
    "yolox_nano_320_int8_per_channel": None,
    "yolov5n_640_int8_per_channel": None,
    "yolov8n_640_int8_per_channel": None,
}


def average_precisions(
    name: str, photographs: list[Path]
) -> tuple[dict[str, float], dict[str, float]]:
    """AP, AP50 and AP75 of the delegate and of the CPU."""
    path = MODELS / f"{name}.tflite"
    labels = LABELS[name]
    names = read_label_lines(labels) if isinstance(labels, Path) else labels
    truth_names = read_label_lines(IMAGES / "coco80_labels.txt")
    spec = Spec(
        "detect", hashlib.sha256(path.read_bytes()).hexdigest(), (("device", "simulator"),),
        with_cpu=True, reference_kernels=True,
        hints=Hints(classes=len(truth_names if names is None else names)),
    )  # fmt: skip
    evaluator = Evaluator(path, spec)
    records = [evaluator.evaluate(p.name, p.read_bytes()) for p in photographs]
    mapping = class_map(list(names), truth_names) if names is not None else {}
    known = len(names) if names is not None else len(truth_names)
    result = detection_metrics(records, objects_of(photographs, None), mapping, known)
    return result["delegate"], result["cpu"]


@pytest.mark.parametrize(
    ("name", "step"), [("yolo_fastest_160_person_int8", 2), ("yolov8n_224_int8", 8)]
)
def test_average_precision_is_the_cpus(name: str, step: int) -> None:
    ours, theirs = average_precisions(name, find_images(PHOTOGRAPHS)[::step])
    assert theirs["ap50"] > 0.2
    assert ours == theirs


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LABELS)
def test_average_precision_is_the_cpus_everywhere(name: str) -> None:
    photographs = find_images(PHOTOGRAPHS)
    assert len(photographs) == 64
    ours, theirs = average_precisions(name, photographs)
    assert theirs["ap50"] > 0.2
    assert ours == theirs
