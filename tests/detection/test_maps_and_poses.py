"""Segmentation, poses, landmarks and split heads read back what an encoder wrote from the models'
definitions; whoever gives a model to the wrong command is told the right one.
"""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from delegate.errors import ModelError
from rk3588_vision.class_ranking import embedded_labels
from rk3588_vision.classification import Classifier
from rk3588_vision.detection.boxes import Detections, onto_image, suppress
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import DetectorPlan
from rk3588_vision.detection.head import Head, OutputTensor
from rk3588_vision.detection.objects import Detector, known_names
from rk3588_vision.detection.recognise import recognise
from rk3588_vision.detection.segmentation import PASCAL
from rk3588_vision.kind import Kind, kind_of
from rk3588_vision.placement import Fit, Placement
from tests.cli.conftest import DIGITS, IMAGE, MODEL, Run, run
from tests.cli.odd_models import constant_detector
from tests.detection.test_heads import (
    BOX,
    CLASS,
    CLASSES,
    CX,
    CY,
    EMPTY,
    N_CELLS,
    SCORE,
    STRIDES,
    H,
    W,
    cell_number,
    logit,
    v8_grid,
    v8_rows,
)
from tests.loops import for_each
from tests.shared_folder import MODELS, needs_models

__all__ = ["run"]  # the fixture

pytest.importorskip("PIL")
Arrays = list[np.ndarray]
WHOLE = Placement.of(H, W, H, W, Fit.STRETCH)


def head_for(arrays: Arrays, size: tuple[int, int] = (H, W), decoder: str | None = None) -> Head:
    outputs = [OutputTensor("out", array.shape, None, None) for array in arrays]
    return recognise(EMPTY, outputs, *size, Hints(decoder))


def people_of(head: Head, arrays: Arrays) -> Detections:
    found = head.decode(arrays, 0.3)
    assert len(found) == 1
    assert found.points is not None
    assert known_names(Path("x.tflite"), SimpleNamespace(head=head)) == ("person",)  # type: ignore[arg-type]
    return found


def person() -> np.ndarray:
    """17 points in pixels of the input, and how sure each is."""
    points = np.stack([np.linspace(20, 200, 17), np.linspace(150, 30, 17)], axis=1)
    return np.concatenate([points, np.linspace(0.5, 0.9, 17)[:, None]], axis=1)


@pytest.mark.parametrize("shape", [(1, 1, 17, 3), (17, 3)])
def test_movenet(shape: tuple[int, ...]) -> None:
    wanted = person()
    array = (wanted / [W, H, 1])[:, [1, 0, 2]].reshape(shape)
    head = head_for([array])
    assert (head.name, head.preparation.mean, head.preparation.std) == ("movenet", 0.0, 1.0)
    found = people_of(head, [array])
    np.testing.assert_allclose(found.points[0], wanted)  # type: ignore[index]
    np.testing.assert_allclose(found.boxes[0], [20, 30, 200, 150])
    assert found.scores[0] == pytest.approx(wanted[:, 2].mean())


def test_movenet_for_several_people() -> None:
    wanted = person()
    rows = np.zeros((1, 6, 56))
    rows[0, 2, :51] = (wanted / [W, H, 1])[:, [1, 0, 2]].reshape(51)
    rows[0, 2, 51:] = [30 / H, 20 / W, 150 / H, 200 / W, 0.8]
    found = people_of(head_for([rows]), [rows])
    np.testing.assert_allclose(found.points[0], wanted)  # type: ignore[index]
    np.testing.assert_allclose(found.boxes[0], [20, 30, 200, 150])


def test_posenet() -> None:
    """Heat maps as logits on a grid whose cells lie (side - 1) / (cells - 1) apart."""
    side, cells, wanted = 257, 9, person()
    heat, offsets = np.full((1, cells, cells, 17), -6.0), np.zeros((1, cells, cells, 34))
    step = (side - 1) / (cells - 1)
    for number, (x, y, sure) in enumerate(wanted):
        column, row = round(x / step), round(y / step)
        heat[0, row, column, number] = logit(sure)
        offsets[0, row, column, number] = y - row * step
        offsets[0, row, column, 17 + number] = x - column * step
    arrays = [heat, offsets, np.zeros((1, cells, cells, 32)), np.zeros((1, cells, cells, 32))]
    head = head_for(arrays, (side, side))
    assert head.name == "posenet"
    np.testing.assert_allclose(people_of(head, arrays).points[0], wanted, atol=1e-6)  # type: ignore[index]


def test_blazepose() -> None:
    values = np.zeros((39, 5))
    values[:, :2] = np.linspace(10, 240, 78).reshape(39, 2)
    values[:, 3] = logit(0.7)
    arrays = [
        values.reshape(1, 195), np.array([[0.9]]), np.zeros((1, 256, 256, 1)),
        np.zeros((1, 64, 64, 39)), np.zeros((1, 117)),
    ]  # fmt: skip
    head = head_for(arrays, (256, 256))
    found = people_of(head, arrays)
    assert head.name == "blazepose"
    assert found.points is not None
    assert found.points.shape == (1, 33, 3)
    np.testing.assert_allclose(found.points[0, :, :2], values[:33, :2])
    np.testing.assert_allclose(found.points[0, :, 2], 0.7)
    assert not len(head.decode([arrays[0], np.array([[0.1]]), *arrays[2:]], 0.3))


def test_face_landmarks() -> None:
    points = np.tile([30.0, 40.0, 5.0], 468).reshape(1, 1, 1, 1404)
    arrays = [points, np.full((1, 1, 1, 1), logit(0.8))]
    head = head_for(arrays, (192, 192))
    found = head.decode(arrays, 0.3)
    assert head.name == "face-landmarks"
    assert found.scores[0] == pytest.approx(0.8)
    np.testing.assert_allclose(found.boxes, [[30, 40, 30, 40]])


def square_of_cats(size: int, value: float) -> np.ndarray:
    """Logits of PASCAL's classes: a cat in rows and columns 20 to 39, background around it."""
    logits = np.zeros((1, size, size, 21))
    logits[0, :, :, 0] = value
    logits[0, 20:40, 20:40, [0, 8]] = [[[0.0]], [[value]]]
    return logits


@for_each("first", [False, True])
@for_each("shrunk", [1, 4])
def test_deeplab(first: bool, shrunk: int) -> None:
    arrays = [square_of_cats(64, 9.0)]
    if first:
        arrays = [np.moveaxis(arrays[0], -1, 1)]
    side = 64 * shrunk
    head = head_for(arrays, (side, side))
    placement = Placement.of(3 * side, 2 * side, side, side, Fit.STRETCH)
    found = onto_image(head.decode(arrays, 0.3), placement)
    assert found.classes.tolist() == [8]
    assert PASCAL[8] == "cat"
    np.testing.assert_allclose(found.boxes, [[40 * shrunk, 60 * shrunk, 80 * shrunk, 120 * shrunk]])
    (mask,) = head.with_masks(found, arrays, placement).masks or ()
    assert mask.pixels.mean() > 0.95
    assert not len(head.decode([square_of_cats(64, 0.1) * 0.01], 0.3))


def test_numbers_of_classes_are_a_label_map() -> None:
    array = np.zeros((1, H, W))
    array[0, 40:80, 100:160] = 15
    head = head_for([array])
    found = head.decode([array], 0.3)
    assert head.name == "label-map"
    assert found.classes.tolist() == [15]
    np.testing.assert_allclose(found.boxes, [[100, 40, 160, 80]])
    (mask,) = head.with_masks(found, [array], WHOLE).masks or ()
    assert mask.pixels.mean() > 0.9


def test_a_map_of_one_channel_may_be_depth() -> None:
    array = np.zeros((1, H, W, 1))
    array[0, 40:80, 100:160] = 1.0
    with pytest.raises(ModelError, match=r"depth and brightness.*mask: an object's mask \[50%\]"):
        head_for([array])
    found = head_for([array], decoder="mask").decode([array], 0.3)
    np.testing.assert_allclose(found.boxes, [[100, 40, 160, 80]])
    assert found.classes.tolist() == [0]


def test_what_fits_best_is_named_first_with_its_confidence() -> None:
    with pytest.raises(ModelError, match=r"best first: yolov8[^;]* \[50%\]; yolov8-pose") as error:
        head_for([np.zeros((1, 44, N_CELLS))])
    assert str(error.value).count("%]") >= 2


def prototypes_with(weights: np.ndarray) -> np.ndarray:
    """Prototypes whose sum by ``weights`` is positive in the left half of the input alone."""
    half = np.where(np.arange(W // 4) < (BOX[0] + BOX[2]) / 8, 1.0, -1.0)
    plane = np.tile(half, (H // 4, 1))
    return (plane[:, :, np.newaxis] * np.sign(weights))[np.newaxis]


def check_masks(head: Head, arrays: Arrays) -> None:
    found = suppress(head.decode(arrays, 0.3), 0.5, 9)
    assert np.abs(found.boxes[0] - BOX).max() < 0.6
    assert (found.classes.tolist(), len(found)) == ([CLASS], 1)
    assert found.scores[0] == pytest.approx(SCORE, abs=0.02)
    (mask,) = head.with_masks(found, arrays, WHOLE).masks or ()
    half = mask.pixels.shape[1] // 2
    assert mask.pixels[:, : half - 4].all()
    assert not mask.pixels[:, half + 4 :].any()


@for_each("first", [False, True])
@for_each("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_yolo_seg_with_an_output_per_part(first: bool, order: tuple[int, ...]) -> None:
    rows, weights = v8_rows(False), np.zeros((N_CELLS, 32))
    weights[cell_number(16)] = np.linspace(-1, 1, 32)
    parts = [rows[:, :4], rows[:, 4:], weights]
    columns = [(part.T if first else part)[np.newaxis] for part in parts]
    every = [*columns, prototypes_with(weights[cell_number(16)])]
    arrays = [every[i] for i in order]
    head = head_for(arrays)
    assert (head.name, head.classes) == ("yolov8-seg", CLASSES)
    check_masks(head, arrays)


def test_yolo_with_boxes_and_classes_apart() -> None:
    rows = v8_rows(False)
    arrays = [rows[None, :, 4:], rows[None, :, :4]]
    head = head_for(arrays)
    assert head.name == "yolov8"
    found = suppress(head.decode(arrays, 0.3), 0.5, 9)
    np.testing.assert_allclose(found.boxes, [BOX], atol=0.01)


@pytest.mark.parametrize("with_sum", [False, True])
def test_yolo_seg_cut_before_the_decoding(with_sum: bool) -> None:
    """Per grid bins, classes, weights (and the classes' sum), as exporters for NPUs cut it."""
    arrays: Arrays = []
    weights = np.linspace(-1, 1, 32)
    for stride in STRIDES:
        bins, classes = (part[np.newaxis] for part in v8_grid(stride))
        more = np.zeros((*bins.shape[:3], 32))
        if stride == 16:
            more[0, int(CY // stride), int(CX // stride)] = weights
        arrays += [bins, classes, *([classes.max(axis=-1, keepdims=True)] * with_sum), more]
    arrays.append(prototypes_with(weights))
    head = head_for(arrays)
    assert (head.name, head.classes) == ("yolov8-seg-grids", CLASSES)
    check_masks(head, arrays)


def test_names_come_from_what_the_family_finds_or_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    path.write_bytes(constant_detector())
    assert Detector(path).labels is None
    for name, content, count in (
        ("labels.txt", "background\nant\nbee\ncat\n", 3),
        ("metadata.json", json.dumps({"names": {"0": "ant", "1": "bee", "2": "cat"}}), 3),
        ("temp_meta.txt", "{'names': {0: 'ant', 1: 'bee', 2: 'cat'}, 'stride': 32}", 3),
    ):
        copy = tmp_path / f"{name}.tflite"
        copy.write_bytes(path.read_bytes())
        with zipfile.ZipFile(copy, "a") as archive:
            archive.writestr(name, content)
        assert embedded_labels(copy, count) == ("ant", "bee", "cat")
        assert embedded_labels(copy, count + 4) is None
        with Detector(copy, device="simulator") as detector:
            assert {one.label for one in detector(IMAGE)} <= {"ant", "bee", "cat"}
    assert embedded_labels(tmp_path / "none.tflite", 3) is None


@needs_models
@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("yolo_fastest_160_person_int8", ("person",)),
        ("yolo_lc_256_person_int8", ("person",)),
        ("float/mediapipe_face_detection_short_range", ("face",)),
        ("float/mediapipe_palm_detection_lite", ("palm",)),
        ("float/mediapipe_hand_landmark_lite", ("hand",)),
        ("float/mediapipe_selfie_segmentation", ("person",)),
        ("graphs/lraspp_mnv3.int8", PASCAL),
        ("graphs/movenet_like.int8", ("person",)),
    ],
)
def test_public_models_have_names(file: str, names: tuple[str, ...]) -> None:
    assert Detector(MODELS / f"{file}.tflite").labels == names


@needs_models
@pytest.mark.parametrize(
    ("made", "file", "words"),
    [
        (Detector, "mobilenet_v1_1.0_224_quant", "classifier of 1001 classes: rk3588-.* classify "),
        (Detector, "graphs/kws_dscnn.int8", "of sound or of a sensor.* compare .*--input X.npy"),
        (Detector, "anomaly_autoencoder_int8", "does not take one image.*of sound"),
        (Detector, "graphs/style_transfer_in.int8", "gives a picture .*--images FOLDER"),
        (Classifier, "graphs/kws_dscnn.int8", "of sound or of a sensor"),
        (Classifier, "anomaly_autoencoder_int8", "of sound or of a sensor"),
        (Classifier, "yolov8n_224_int8", r"a detector \(yolov8\): rk3588-delegate detect "),
        (Classifier, "ssd_mobilenet_v1_300_quant", r"4 outputs; .*a detector \(ssd\): rk3588-"),
        (Classifier, "graphs/lraspp_mnv3.int8", r"a detector \(segmentation\)"),
    ],
)
def test_the_wrong_command_names_the_right_one(
    made: type[Classifier] | type[Detector], file: str, words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        made(MODELS / f"{file}.tflite")


def test_the_wrong_command_names_the_right_one_here_too(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"a classifier of .*classify PICTURE --model {MODEL}"):
        DetectorPlan.read(MODEL, Hints())
    path = tmp_path / "x.tflite"
    path.write_bytes(constant_detector())
    with pytest.raises(ModelError, match=r"a detector \(.*detect PICTURE --model "):
        Classifier(path)


def test_shapes_that_pictures_share_with_sound_are_pictures() -> None:
    def kind(taken: tuple[int, ...], given: tuple[int, ...]) -> Kind:
        return kind_of([{"shape": taken}], [{"shape": given}])

    assert kind((1, 28, 28, 1), (1, 10)) is Kind.CLASSIFIER
    assert kind((1, 49, 10, 3), (1, 12)) is Kind.CLASSIFIER
    assert kind((1, 15600), (1, 521)) is Kind.SOUND
    assert kind((1, 64), (1, 10)) is Kind.OTHER


def test_a_folder_that_was_made_is_told(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "x.tflite"
    model.write_bytes(constant_detector())
    target = tmp_path / "new" / "one.png"
    words = ("detect", DIGITS / "images" / "digit_3.png", "--model", model, "--output", target)
    first = run(*words).out
    assert f"made the folder {target.parent}\n" in first
    assert f"wrote {target}\n" in first
    assert "made the folder" not in run(*words).out
    document = run(*words[:-1], tmp_path / "other" / "one.png", "--json").json
    assert document["made_folders"] == [str(tmp_path / "other")]
