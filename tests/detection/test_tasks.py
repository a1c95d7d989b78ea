"""Heads with masks, key points, aslant boxes and faces read back what an encoder wrote, on a
picture that is not square; boxes, points and masks lie where the object is on the picture.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from delegate.model.graph import Graph
from rk3588_vision.detection.boxes import (
    Detections,
    Mask,
    around,
    onto_image,
    outline_iou,
    outlines_of,
    suppress,
)
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.coco_results import COCO_CATEGORIES, coco_results, run_lengths
from rk3588_vision.detection.head import MASK_WEIGHTS, OutputTensor
from rk3588_vision.detection.mediapipe import MODELS as BLAZE_MODELS
from rk3588_vision.detection.mediapipe import BlazeHead
from rk3588_vision.detection.objects import FoundObject
from rk3588_vision.detection.recognise import recognise
from rk3588_vision.detection.yolo_rows import RowsHead
from rk3588_vision.placement import Fit, Placement
from tests.detection.test_heads import CX, CY, EMPTY, N_CELLS, H, W, v8_rows
from tests.loops import for_each

CLASSES = 7
POINTS = 17


def read(arrays: list[np.ndarray], hints: Hints, graph: Graph = EMPTY) -> tuple[str, Detections]:
    outputs = [OutputTensor("out", array.shape, None, None) for array in arrays]
    head = recognise(graph, outputs, H, W, hints)
    return head.name, suppress(head.decode(arrays, 0.3), 0.5, 10)


@for_each("share", [True, False])
@for_each("first", [True, False])
def test_pose(share: bool, first: bool) -> None:
    place = np.arange(POINTS)[:, np.newaxis] * [3.0, 2.0] + [CX, CY - 20]
    size = np.array([W, H]) if share else np.ones(2)
    rows = np.zeros((N_CELLS, 5 + 3 * POINTS))
    rows[40, :4] = np.array([CX, CY, 37, 29]) / np.tile(size, 2)
    rows[40, 4] = 0.9
    rows[40, 5:] = np.concatenate([place / size, np.full((POINTS, 1), 0.75)], axis=1).reshape(-1)
    name, found = read([rows.T[None] if first else rows[None]], Hints(classes=1))
    assert name == "yolov8-pose"
    assert found.points is not None
    np.testing.assert_allclose(found.points[0, :, :2], place)
    np.testing.assert_allclose(found.points[0, :, 2], 0.75)
    on_image = onto_image(found, Placement.of(2 * H, 2 * W, H, W, Fit.LETTERBOX))
    assert on_image.points is not None
    np.testing.assert_allclose(on_image.points[0, :, :2], 2 * place)


@for_each("first", [True, False])
@for_each("rows_at", [0, 1])
def test_masks(first: bool, rows_at: int) -> None:
    """A prototype that is positive on a disc becomes that disc, cut by the box, on the picture."""
    rows = np.concatenate([v8_rows(True), np.zeros((N_CELLS, MASK_WEIGHTS))], axis=1)
    rows[:, -1] = (rows[:, 4 : 4 + CLASSES].max(axis=1) > 0) * 2.0
    y, x = np.meshgrid((np.arange(H // 4) + 0.5) * 4, (np.arange(W // 4) + 0.5) * 4, indexing="ij")
    prototypes = np.zeros((H // 4, W // 4, MASK_WEIGHTS))
    radius = 11.0
    prototypes[..., -1] = radius - np.hypot(x - CX, y - CY)
    protos = np.moveaxis(prototypes, -1, 0)[None] if first else prototypes[None]
    arrays = [rows.T[None], protos] if rows_at == 0 else [protos, rows.T[None]]
    outputs = [OutputTensor("out", array.shape, None, None) for array in arrays]
    head = recognise(EMPTY, outputs, H, W, Hints())
    assert isinstance(head, RowsHead)
    assert head.classes == CLASSES
    placement = Placement.of(3 * H, 3 * W, H, W, Fit.LETTERBOX)
    found = suppress(onto_image(head.decode(arrays, 0.3), placement), 0.5, 5)
    (mask,) = head.with_masks(found, arrays, placement).masks or ()
    rows_, columns = np.nonzero(mask.pixels)
    assert (columns + mask.left + 0.5).mean() == pytest.approx(3 * CX, abs=2)
    assert (rows_ + mask.top + 0.5).mean() == pytest.approx(3 * CY, abs=2)
    assert mask.pixels.sum() == pytest.approx(np.pi * (3 * radius) ** 2, rel=0.05)


def test_aslant_boxes_and_their_suppression() -> None:
    rows = np.zeros((N_CELLS, 5 + CLASSES))
    for row, score in ((40, 0.9), (41, 0.8)):
        rows[row] = [CX, CY, 60, 20, *np.eye(CLASSES)[5] * score, 0.5]
    rows[42] = [CX - 9.6, CY + 17.6, 60, 20, *np.eye(CLASSES)[5] * 0.7, 0.5]  # beside, along y
    name, found = read([rows.T[None]], Hints(classes=CLASSES, decoder="yolov8-obb"))
    assert name == "yolov8-obb"
    # The upright rectangles of the first and the third overlap by more than half; they do not.
    assert found.scores.tolist() == [0.9, 0.7]
    assert found.outlines is not None
    turn = np.array([[np.cos(0.5), np.sin(0.5)], [-np.sin(0.5), np.cos(0.5)]])
    corners = np.array([[-30, -10], [30, -10], [30, 10], [-30, 10]]) @ turn + [CX, CY]
    np.testing.assert_allclose(found.outlines[0], corners)
    np.testing.assert_allclose(found.boxes[0], around(corners[None])[0])


@for_each("seed", range(5))
def test_overlap_of_outlines_against_counted_pixels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = np.concatenate([rng.uniform(40, 60, (2, 2)), rng.uniform(10, 50, (2, 2))], axis=1)
    angles = rng.uniform(0, np.pi, 2)
    one, other = outlines_of(boxes, angles)
    y, x = np.mgrid[0:100:0.1, 0:100:0.1] + 0.05

    def inside(box: np.ndarray, angle: float) -> np.ndarray:
        across = (x - box[0]) * np.cos(angle) + (y - box[1]) * np.sin(angle)
        down = (y - box[1]) * np.cos(angle) - (x - box[0]) * np.sin(angle)
        return (np.abs(across) < box[2] / 2) & (np.abs(down) < box[3] / 2)

    a, b = (inside(box, angle) for box, angle in zip(boxes, angles, strict=True))
    assert outline_iou(one, other) == pytest.approx((a & b).sum() / (a | b).sum(), abs=0.005)


def test_yolov5_face_has_to_be_named() -> None:
    rows = np.zeros((3 * N_CELLS, 16))
    rows[50, :4] = [CX, CY, 40, 50]
    rows[50, 4] = 1.0
    rows[50, 5:15] = np.arange(10) * 3.0 + 30
    rows[50, 15] = 0.9
    name, found = read([rows[None]], Hints(decoder="yolov5-face"))
    assert name == "yolov5-face"
    assert found.points is not None
    np.testing.assert_allclose(found.points[0, :, :2].reshape(-1), np.arange(10) * 3.0 + 30)
    assert read([rows[None]], Hints(classes=1))[0] == "yolov5-face"


@pytest.mark.parametrize("model", BLAZE_MODELS, ids=lambda m: m.what)
@pytest.mark.parametrize("apart", [True, False])
def test_faces_and_palms(model: object, apart: bool) -> None:
    """Boxes of the first, a middle and the last anchor come back around their cells."""
    assert isinstance(model, type(BLAZE_MODELS[0]))
    per_grid = [(model.side // stride) ** 2 * each for stride, each in model.grids]
    count = sum(per_grid)
    stride, each = model.grids[-1]
    cell = count - 1 - sum(per_grid[:-1])
    column = (cell // each) % (model.side // stride)
    rows = np.zeros((1, count, 4 + 2 * model.points))
    rows[0, -1, :6] = [2, -3, 30, 20, 5, 6]
    scores = np.full((1, count, 1), -9.0)
    scores[0, -1] = 4.0
    arrays = [rows, scores]
    if apart and len(per_grid) > 1:
        cuts = np.cumsum(per_grid)[:-1]
        arrays = [*np.split(scores, cuts, axis=1), *np.split(rows, cuts, axis=1)]
    outputs = [OutputTensor("out", array.shape, None, None) for array in arrays]
    head = recognise(EMPTY, outputs, model.side, model.side, Hints())
    assert isinstance(head, BlazeHead)
    assert head.model == model
    found = head.decode(arrays, 0.5)
    centre = (column + 0.5) * stride
    x, y = centre + 2, model.side - stride / 2 - 3
    np.testing.assert_allclose(found.boxes, [[x - 15, y - 10, x + 15, y + 10]])
    assert found.points is not None
    np.testing.assert_allclose(found.points[0, 0, :2], [centre + 5, model.side - stride / 2 + 6])
    assert found.scores[0] == pytest.approx(1 / (1 + np.exp(-4.0)))


def test_coco_results_read_back() -> None:
    rng = np.random.default_rng(3)
    pixels = rng.random((5, 9)) > 0.4
    pixels[0, 0] = True
    for left, top in ((0, 0), (2, 3)):
        whole = np.zeros((11, 13), dtype=bool)
        whole[top : top + 5, left : left + 9] = pixels
        lengths = run_lengths(Mask(left, top, pixels), 11, 13)
        values = np.arange(len(lengths["counts"])) % 2 == 1
        read_back = np.repeat(values, lengths["counts"]).reshape(13, 11).T
        np.testing.assert_array_equal(read_back, whole)
    found = [FoundObject(79, None, 0.5, (1.0, 2.0, 5.0, 9.0))]
    (entry,) = coco_results(found, Path("a/000000000139.jpg"), 20, 20, 80)
    assert entry == {"image_id": 139, "category_id": 90, "bbox": [1, 2, 4, 7], "score": 0.5}
    assert len(COCO_CATEGORIES) == 80
    assert COCO_CATEGORIES[16] == 18  # the dog, in COCO's annotations
    json.dumps(entry)
