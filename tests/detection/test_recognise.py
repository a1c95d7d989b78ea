"""A head that is not certain is an error that lists the candidates; the graph's parts decide."""

from pathlib import Path

import numpy as np
import pytest

from delegate.errors import ModelError
from delegate.model.graph import DType, Graph, Node, Tensor
from rk3588_vision.detection.candidate import Hints, boundaries, output_parts
from rk3588_vision.detection.detector import DetectorPlan
from rk3588_vision.detection.head import OutputTensor
from rk3588_vision.detection.recognise import DECODERS, recognise
from tests.detection.test_heads import EMPTY, N_CELLS, H, W
from tests.shared_folder import MODELS, needs_models


def joined(parts: tuple[int, ...], cells: int = N_CELLS, *, nhwc: bool = False) -> Graph:
    """A graph that ends with a concatenation of tensors of these channels, and a DEQUANTIZE."""

    def shape(channels: int) -> tuple[int, ...]:
        return (1, H // 8, W // 8, channels) if nhwc else (1, channels, cells)

    tensors = [Tensor(i, f"t{i}", shape(c), DType.FLOAT32) for i, c in enumerate(parts)]
    whole = len(parts)
    tensors += [
        Tensor(whole + i, f"t{whole + i}", shape(sum(parts)), DType.FLOAT32) for i in range(2)
    ]
    nodes = (
        Node(0, "CONCATENATION", tuple(range(whole)), (whole,)),
        Node(1, "DEQUANTIZE", (whole,), (whole + 1,)),
    )
    return Graph(
        tensors=tuple(tensors), nodes=nodes, inputs=tuple(range(whole)), outputs=(whole + 1,)
    )


def head_of(shapes: list[tuple[int, ...]], graph: Graph = EMPTY, hints: Hints | None = None) -> str:
    outputs = [OutputTensor("out", shape, None, None) for shape in shapes]
    return recognise(graph, outputs, H, W, hints or Hints()).name


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ((2, 2, 52), "yolov8"),
        ((4, 52), "yolov8"),
        ((2, 2, 1, 51), "yolov8-pose"),
        ((4, 1, 12), "yolov8-pose"),
        ((4, 13), "yolov8"),
        ((2, 2, 15, 1), "yolov8-obb"),
        ((19, 1), "yolov8-obb"),
    ],
)
def test_parts_of_the_output_decide(parts: tuple[int, ...], name: str) -> None:
    """Without the graph, shapes of 56 and 17 channels fit several heads."""
    graph = joined(parts)
    assert head_of([(1, sum(parts), N_CELLS)], graph) == name


def test_parts_are_found_behind_other_operators() -> None:
    graph = joined((2, 2, 1, 51))
    assert output_parts(graph, graph.outputs[0], 56) == (2, 2, 1, 51)
    assert boundaries((2, 2, 1, 51)) == {2, 4, 5}
    assert output_parts(graph, graph.outputs[0], 55) == ()
    assert output_parts(graph, graph.inputs[0], 2) == ()


@pytest.mark.parametrize(
    ("shapes", "named"),
    [
        ([(1, 44, N_CELLS)], ["yolov8: ", "yolov8-pose: ", "13 key points"]),
        ([(1, 3 * N_CELLS, 16)], ["yolov5: ", "yolov5-face: "]),
        ([(1, H // s, W // s, 18) for s in (8, 16, 32)],
         ["yolov5-grids: ", "yolov7-grids: ", "st-yolox: ", "yolox-grids: "]),
        ([(1, H // s, W // s, 255) for s in (16, 32)],
         ["yolo-fastest: ", "yolov3-tiny: ", "which anchors"]),
    ],
)  # fmt: skip
def test_uncertain_heads_are_listed(shapes: list[tuple[int, ...]], named: list[str]) -> None:
    with pytest.raises(ModelError, match="--decoder NAME") as error:
        head_of(shapes)
    assert all(name in str(error.value) for name in named), error.value


def test_labels_that_do_not_fit_choose_no_other_head() -> None:
    """80 classes given as 20: not a pose model of 20 classes and 20 points."""
    graph = joined((4, 80))
    assert head_of([(1, 84, N_CELLS)], graph, Hints(classes=20)) == "yolov8"


def test_grouped_grids_are_those_of_st_yolox() -> None:
    shapes = [(1, H // s, W // s, 18) for s in (8, 16, 32)]
    assert head_of(shapes, joined((12, 3, 3), nhwc=True)) == "st-yolox"
    with pytest.raises(ModelError, match="--decoder"):
        head_of(shapes, joined((4, 5, 9), nhwc=True))


@needs_models
@pytest.mark.parametrize(
    ("file", "decoder"),
    [
        ("yolo_fastest_160_person_int8", "yolo-fastest-person"),
        ("yolo_lc_256_person_int8", "st-yolo-lc"),
        ("float/mediapipe_face_detection_short_range", "blazeface"),
        ("float/mediapipe_palm_detection_lite", "blazeface"),
        ("float/mediapipe_hand_landmark_lite", "hand-landmarks"),
        ("float/mediapipe_selfie_segmentation", "selfie"),
    ],
)
def test_public_models_are_known(file: str, decoder: str) -> None:
    assert DetectorPlan.read(MODELS / f"{file}.tflite", Hints()).head.name == decoder


@needs_models
@pytest.mark.parametrize("file", ["yolov8_tiny_silu_160_random", "mobilenet_v1_1.0_224_quant"])
def test_what_is_no_known_detector_is_refused(file: str) -> None:
    """The first gives undecoded bins: 64 of distances and 10 classes, not 70 classes."""
    with pytest.raises(ModelError, match="of no detector known here"):
        DetectorPlan.read(MODELS / f"{file}.tflite", Hints())


def test_a_changed_copy_of_a_known_model_is_not_known(tmp_path: Path) -> None:
    path = MODELS / "yolo_lc_256_person_int8.tflite"
    if not path.exists():
        pytest.skip("no public models")
    copy = tmp_path / "copy.tflite"
    copy.write_bytes(path.read_bytes() + bytes(16))
    with pytest.raises(ModelError, match="st-yolo-lc: 5 anchors"):
        DetectorPlan.read(copy, Hints())
    assert DetectorPlan.read(copy, Hints(decoder="st-yolo-lc")).head.name == "st-yolo-lc"


def test_every_decoder_can_be_named() -> None:
    assert len(set(DECODERS)) == len(DECODERS) == 31
    assert np.all([name == name.lower() for name in DECODERS])
