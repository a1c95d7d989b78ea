"""Pictures into inputs and boxes back: both ways, sizes that are not square."""

import numpy as np
import pytest

from rk3588_vision.detection.boxes import Detections, onto_image
from rk3588_vision.images import ImageInput
from rk3588_vision.placement import Fit, Placement, Preparation, place
from tests.loops import for_each

Image = pytest.importorskip("PIL.Image")


def target(h: int, w: int, c: int = 3) -> ImageInput:
    return ImageInput(h, w, c, np.dtype(np.uint8), 1 / 255, 0)


@pytest.mark.parametrize("fit", list(Fit))
@for_each("image_h, image_w", [(101, 333), (480, 270), (64, 64)])
def test_a_box_comes_back_to_where_its_pixels_were(fit: Fit, image_h: int, image_w: int) -> None:
    """A white rectangle is found in the input; its box there must be its box in the picture."""
    pixels = np.zeros((image_h, image_w, 3), np.uint8)
    y1, y2, x1, x2 = image_h // 4, image_h // 2, image_w // 5, image_w // 2
    pixels[y1:y2, x1:x2] = 255
    preparation = Preparation(fit, 0.0, 255.0)
    tensor, placement = place(Image.fromarray(pixels), target(160, 224), preparation)
    assert tensor.shape == (1, 160, 224, 3)
    rows, columns = np.nonzero(tensor[0, :, :, 0] > 200)
    box = np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]], float)
    back = placement.to_image(box)[0]
    step = max(image_w / placement.w, image_h / placement.h)
    assert np.abs(back - [x1, y1, x2, y2]).max() <= step + 1


def test_letterbox_keeps_the_aspect_and_is_centred_and_grey() -> None:
    picture = Image.new("RGB", (300, 100), (1, 2, 3))
    tensor, placement = place(picture, target(200, 200), Preparation(Fit.LETTERBOX, 0.0, 1.0))
    assert (placement.w, placement.h, placement.left, placement.top) == (200, 67, 0, 66)
    assert tensor[0, 0, 0].tolist() == [114, 114, 114]
    assert tensor[0, 100, 100].tolist() == [1, 2, 3]


def test_corner_and_bgr() -> None:
    picture = Image.new("RGB", (300, 100), (1, 2, 3))
    preparation = Preparation(Fit.CORNER, 0.0, 1.0, is_bgr=True)
    tensor, placement = place(picture, target(200, 200), preparation)
    assert (placement.left, placement.top) == (0, 0)
    assert tensor[0, 0, 0].tolist() == [3, 2, 1]
    assert tensor[0, 199, 0].tolist() == [114, 114, 114]


def test_grey_inputs() -> None:
    tensor, _ = place(Image.new("RGB", (9, 7)), target(32, 32, 1), Preparation(Fit.STRETCH, 0, 1))
    assert tensor.shape == (1, 32, 32, 1)


def test_boxes_outside_the_picture_are_dropped_or_cut() -> None:
    placement = Placement.of(100, 200, 100, 100, Fit.LETTERBOX)
    boxes = np.array([[0.0, 0, 100, 20], [-50, 30, 50, 200]])
    found = onto_image(Detections(boxes, np.array([0, 1]), np.array([0.9, 0.8])), placement)
    assert found.classes.tolist() == [1]
    assert found.boxes.tolist() == [[0, 10, 100, 100]]
