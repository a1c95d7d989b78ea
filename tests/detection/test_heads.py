"""Every head reads back boxes that an encoder written from the family's definition wrote.

One object in a known cell; everything else says "nothing here".
"""

from typing import Any

import numpy as np
import pytest

from delegate.errors import DelegateError, ModelError, UsageError
from delegate.model.graph import Graph
from rk3588_vision.detection.boxes import suppress
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.head import OutputTensor, real_outputs
from rk3588_vision.detection.recognise import recognise
from rk3588_vision.detection.ssd import ssd_anchors
from rk3588_vision.detection.yolo_grids import YOLOV5_ANCHORS, AnchorGridHead
from tests.loops import for_each

H, W = 160, 224  # not square
CLASSES = 7
CX, CY, BW, BH = 85.0, 43.0, 37.0, 29.0  # pixels of the input
CLASS = 5
SCORE = 0.9
BOX = [CX - BW / 2, CY - BH / 2, CX + BW / 2, CY + BH / 2]
STRIDES = (8, 16, 32)
EMPTY = Graph("", (), (), (), ())


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def details(array: np.ndarray, quantised: bool = False) -> tuple[np.ndarray, dict[str, Any]]:
    """The tensor and its description; quantised to int8 over its own range if asked for."""
    quantization, stored = (0.0, 0), array.astype(np.float32)
    if quantised:
        low, high = float(array.min()), float(array.max())
        scale = (high - low) / 255
        quantization = scale, round(-128 - low / scale)
        stored = np.clip(np.rint(array / scale) + quantization[1], -128, 127).astype(np.int8)
    kind = {"dtype": stored.dtype.type, "quantization": quantization}
    return stored, {"name": "out", "shape": array.shape, **kind}


def decoded(
    arrays: list[np.ndarray], hints: Hints, *, quantised: bool = False, graph: Graph = EMPTY
) -> tuple[str, list[float], int, float]:
    pairs = [details(array, quantised) for array in arrays]
    outputs = [OutputTensor.from_details(d) for _, d in pairs]
    head = recognise(graph, outputs, H, W, hints)
    values = real_outputs([array for array, _ in pairs], [d for _, d in pairs])
    found = suppress(head.decode(values, 0.3), 0.5, 10)
    assert len(found) == 1, found
    if hints.classes is not None and head.classes is not None:
        assert head.classes == hints.classes
    return head.name, found.boxes[0].tolist(), int(found.classes[0]), float(found.scores[0])


def assert_found(result: tuple[str, list[float], int, float], name: str, tolerance: float) -> None:
    assert result[0] == name
    assert np.abs(np.array(result[1]) - BOX).max() <= tolerance
    assert result[2] == CLASS
    assert result[3] == pytest.approx(SCORE, abs=0.02)


def cell_number(stride: int) -> int:
    """Return the number of the object's cell among the cells of all grids."""
    before = sum((H // s) * (W // s) for s in STRIDES if s < stride)
    return before + int(CY // stride) * (W // stride) + int(CX // stride)


N_CELLS = sum((H // s) * (W // s) for s in STRIDES)


def v8_rows(share: bool) -> np.ndarray:
    rows = np.zeros((N_CELLS, 4 + CLASSES))
    size = np.array([W, H, W, H]) if share else np.ones(4)
    rows[:, :4] = np.array([10, 10, 5, 5]) / size
    rows[cell_number(16), :4] = np.array([CX, CY, BW, BH]) / size
    rows[cell_number(16), 4 + CLASS] = SCORE
    return rows


@for_each("share", [True, False])
@for_each("first", [True, False])
def test_yolov8(share: bool, first: bool) -> None:
    rows = v8_rows(share)
    output = rows.T[None] if first else rows[None]
    result = decoded([output], Hints(classes=CLASSES), quantised=share)
    assert_found(result, "yolov8", 1.0 if share else 0.01)


@pytest.mark.parametrize("quantised", [False, True])
def test_yolov5(quantised: bool) -> None:
    rows = np.zeros((3 * N_CELLS, 5 + CLASSES))
    rows[:, :4] = [0.1, 0.1, 0.01, 0.01]
    rows[77] = 0
    rows[77, :5] = [CX / W, CY / H, BW / W, BH / H, 1.0]
    rows[77, 5 + CLASS] = SCORE
    assert_found(decoded([rows[None]], Hints(classes=CLASSES), quantised=quantised), "yolov5", 1.0)


def yolox_rows() -> np.ndarray:
    rows = np.zeros((N_CELLS, 5 + CLASSES))
    stride = 16
    rows[cell_number(stride), :5] = [
        CX / stride - CX // stride,
        CY / stride - CY // stride,
        np.log(BW / stride),
        np.log(BH / stride),
        1.0,
    ]
    rows[cell_number(stride), 5 + CLASS] = SCORE
    return rows


@pytest.mark.parametrize("quantised", [False, True])
def test_yolox(quantised: bool) -> None:
    rows = yolox_rows()
    result = decoded([rows[None]], Hints(classes=CLASSES), quantised=quantised)
    assert_found(result, "yolox", 0.01 if not quantised else 1.0)


def test_yolox_that_decodes_itself() -> None:
    rows = yolox_rows()
    rows[cell_number(16), :4] = [CX, CY, BW, BH]
    assert_found(decoded([rows[None]], Hints(decoder="yolox")), "yolox", 0.01)


def test_end_to_end() -> None:
    rows = np.zeros((1, 300, 6))
    rows[0, 0] = [*(np.array(BOX) / [W, H, W, H]), SCORE, CLASS]
    assert_found(decoded([rows], Hints()), "end-to-end", 0.01)


def grid_layout(grid: np.ndarray, first: bool) -> np.ndarray:
    return np.moveaxis(grid, -1, 0)[None] if first else grid[None]


@for_each("first", [True, False])
@for_each("activated", [True, False])
@for_each("quantised", [True, False])
def test_yolov5_grids(first: bool, activated: bool, quantised: bool) -> None:
    arrays = []
    for number, stride in enumerate(STRIDES):
        h, w = H // stride, W // stride
        grid = np.full((h, w, 3, 5 + CLASSES), 0.01)
        if stride == 16:
            aw, ah = YOLOV5_ANCHORS[3 * number + 1]
            x, y = int(CX // stride), int(CY // stride)
            cell = grid[y, x, 1]
            cell[:2] = (CX / stride - x + 0.5) / 2, (CY / stride - y + 0.5) / 2
            cell[2:5] = np.sqrt(BW / aw) / 2, np.sqrt(BH / ah) / 2, 0.995
            cell[5 + CLASS] = SCORE
        else:
            grid[0, 0, 0, 5] = 0.99  # the same range in every grid
        values = grid if activated else np.log(grid / (1 - grid))
        arrays.append(grid_layout(values.reshape(h, w, -1), first))
    hints = Hints(classes=CLASSES, decoder="yolov5-grids")
    result = decoded(arrays, hints, quantised=quantised)
    assert_found(result, "yolov5-grids", 2.5 if quantised else 0.01)


@pytest.mark.parametrize("first", [True, False])
def test_yolo_fastest_grids_in_any_order(first: bool) -> None:
    anchors = ((6, 9), (18, 24), (26, 66), (57, 36), (59, 99), (121, 119))
    arrays = []
    for number, stride in ((1, 32), (0, 16)):
        h, w = H // stride, W // stride
        grid = np.full((h, w, 3, 5 + CLASSES), -6.0)
        if stride == 32:
            aw, ah = anchors[3 * number + 2]
            x, y = int(CX // stride), int(CY // stride)
            cell = grid[y, x, 2]
            cell[:4] = [
                logit(CX / stride - x),
                logit(CY / stride - y),
                np.log(BW / aw),
                np.log(BH / ah),
            ]
            cell[4] = 8.0
            cell[5 + CLASS] = logit(SCORE)
        arrays.append(grid_layout(grid.reshape(h, w, -1), first))
    result = decoded(arrays, Hints(classes=CLASSES, anchors=anchors, decoder="yolo-fastest"))
    assert_found(result, "yolo-fastest", 0.01)


@pytest.mark.parametrize(
    ("decoder", "classes", "smallest", "largest"),
    [
        ("yolo-fastest", 80, (12 / 2, 18 / 2), (242 / 2, 238 / 2)),
        ("yolo-fastest-person", 1, (4, 9), (113, 132)),
    ],
)
def test_published_anchors_scale_with_the_input(
    decoder: str, classes: int, smallest: tuple[float, float], largest: tuple[float, float]
) -> None:
    """Published for 320 and for 160 pixels; asked for at 160 rows and 320 columns."""
    outputs = [
        OutputTensor("out", (1, 160 // stride, 320 // stride, 3 * (5 + classes)), None, None)
        for stride in (16, 32)
    ]
    head = recognise(EMPTY, outputs, 160, 320, Hints(classes=classes, decoder=decoder))
    assert isinstance(head, AnchorGridHead)
    assert head.name == decoder
    assert head.anchors[0] == (2 * smallest[0], smallest[1])
    assert head.anchors[-1] == (2 * largest[0], largest[1])


def v8_grid(stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Bins of the distances of a box's sides, and logits of classes, of every cell of a grid."""
    h, w = H // stride, W // stride
    bins, classes = np.zeros((h, w, 4, 16)), np.full((h, w, CLASSES), logit(0.01))
    if stride == 16:
        x, y = int(CX // stride), int(CY // stride)
        centre = np.array([x + 0.5, y + 0.5, x + 0.5, y + 0.5]) * stride
        for side, distance in enumerate(np.abs(np.array(BOX) - centre) / stride):
            low = int(distance)
            bins[y, x, side] = -40
            bins[y, x, side, low] = np.log(low + 1 - distance + 1e-12)
            bins[y, x, side, low + 1] = np.log(distance - low + 1e-12)
        classes[y, x, CLASS] = logit(SCORE)
    return bins.reshape(h, w, 64), classes


@for_each("first", [True, False])
@for_each("split", [1, 2, 3])
def test_yolov8_grids(first: bool, split: int) -> None:
    arrays = []
    for bins, classes in map(v8_grid, STRIDES):
        parts = [bins, classes, classes.sum(axis=2, keepdims=True)][:split]
        if split == 1:
            parts = [np.concatenate((bins, classes), axis=2)]
        arrays += [grid_layout(part, first) for part in parts]
    assert_found(decoded(arrays, Hints(classes=CLASSES)), "yolov8-grids", 0.01)


@for_each("first", [True, False])
@for_each("apart", [True, False])
def test_yolox_grids(first: bool, apart: bool) -> None:
    arrays = []
    rows = yolox_rows()
    done = 0
    for stride in STRIDES:
        h, w = H // stride, W // stride
        grid = rows[done : done + h * w].reshape(h, w, -1)
        done += h * w
        parts = [grid[..., :4], grid[..., 4:5], grid[..., 5:]] if apart else [grid]
        arrays += [grid_layout(part, first) for part in parts]
    assert_found(decoded(arrays, Hints(classes=CLASSES)), "yolox-grids", 0.01)


@pytest.mark.parametrize(
    ("others", "name", "classes"),
    [
        *(((64,), "yolov8-grids", classes) for classes in (1, 2, 64)),
        *(((4, 1), "yolox-grids", classes) for classes in (1, 2, 4)),
    ],
)
def test_parts_of_grids_are_told_apart_however_many_classes(
    others: tuple[int, ...], name: str, classes: int
) -> None:
    """The likeliest class is the last; with parts of as many channels, outputs' order tells."""
    arrays = []
    for h, w in ((H // stride, W // stride) for stride in STRIDES):
        arrays += [np.ones((1, h, w, channels)) for channels in others]
        arrays.append(np.where(np.arange(classes) == classes - 1, 0.9, 0.2) * np.ones((1, h, w, 1)))
    outputs = [OutputTensor("out", array.shape, None, None) for array in arrays]
    head = recognise(EMPTY, outputs, H, W, Hints())
    assert (head.name, head.classes) == (name, classes)
    found = head.decode(arrays, 0.3)
    assert {*found.classes} == {classes - 1}
    assert {*found.scores} == {0.9}


@pytest.mark.parametrize("scores_first", [True, False])
def test_raw_ssd(scores_first: bool) -> None:
    anchors = ssd_anchors(H, W)
    boxes = np.zeros((1, len(anchors), 4))
    scores = np.full((1, len(anchors), 1 + CLASSES), logit(0.01))
    y, x, h, w = anchors[500]
    boxes[0, 500] = [
        (CY / H - y) / h * 10,
        (CX / W - x) / w * 10,
        np.log(BH / H / h) * 5,
        np.log(BW / W / w) * 5,
    ]
    scores[0, 500, 1 + CLASS] = logit(SCORE)
    arrays = [scores, boxes] if scores_first else [boxes, scores]
    assert_found(decoded(arrays, Hints(classes=CLASSES)), "ssd-raw", 0.01)


@pytest.mark.parametrize(
    ("shapes", "hints", "error", "words"),
    [
        ([(1, N_CELLS, 44)], Hints(), ModelError, "--decoder"),
        ([(1, 10)], Hints(), ModelError, "no detector"),
        ([(1, N_CELLS, 44)], Hints(decoder="ssd"), UsageError, "do not fit the decoder ssd"),
        ([(1, H // 16, W // 16, 36)], Hints(decoder="st-yolo-lc", anchors=((1, 1),) * 5),
         UsageError, "with 5 anchors"),
        ([(1, H // 16, W // 16, 18), (1, 3, 3, 18)], Hints(), ModelError, "no detector"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    shapes: list[tuple[int, ...]], hints: Hints, error: type[DelegateError], words: str
) -> None:
    outputs = [OutputTensor("out", shape, None, None) for shape in shapes]
    with pytest.raises(error, match=words.replace("(", r"\(")):
        recognise(EMPTY, outputs, H, W, hints)


def test_coco_class_counts_decide_without_labels() -> None:
    for channels, name in ((84, "yolov8"), (85, "yolox")):
        output = OutputTensor("out", (1, N_CELLS, channels), None, None)
        assert recognise(EMPTY, [output], H, W, Hints()).name == name
