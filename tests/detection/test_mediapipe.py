"""MediaPipe's faces, palms, hands and masks: where heads put what they read, and on photographs the
delegate's beside the CPU's, and those of the mirrored photograph.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from delegate.host.delegated import DelegatedModel, ReferenceModel
from delegate.options import Options
from rk3588_vision.detection.boxes import Detections, iou, onto_image
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import DetectorPlan, Thresholds, detect
from rk3588_vision.detection.draw import draw
from rk3588_vision.detection.head import OutputTensor
from rk3588_vision.detection.mediapipe import HAND, HAND_POINTS, LandmarkHead, SelfieHead
from rk3588_vision.detection.objects import named_objects
from rk3588_vision.detection.recognise import recognise
from rk3588_vision.images import open_image
from rk3588_vision.placement import Fit, Placement
from tests.detection.test_heads import EMPTY
from tests.shared_folder import MODELS, SHARED, needs_models

FLOAT = MODELS / "float"
IMAGES = SHARED / "images"
PORTRAIT = IMAGES / "grace_hopper.bmp"
HANDS = {"000000000113": 3, "000000000110": 2, "000000000165": 3}
"""Photographs with palms, and how many are found, at the least."""
SIMULATOR = Options.from_mapping({"numerics": "exact", "device": "simulator"}, {})


def outputs_of(*shapes: tuple[int, ...]) -> list[OutputTensor]:
    return [OutputTensor("out", shape, None, None) for shape in shapes]


@pytest.mark.parametrize("points_first", [True, False])
def test_landmarks_lie_where_the_hand_is(points_first: bool) -> None:
    values = HAND.values * HAND.points
    shapes = [(1, values), (1, 1), (1, 1), (1, values)]
    if not points_first:
        shapes = shapes[1:] + shapes[:1]
    head = recognise(EMPTY, outputs_of(*shapes), HAND.side, HAND.side, Hints())
    assert isinstance(head, LandmarkHead)
    assert head.model is HAND
    places = np.stack([np.arange(HAND_POINTS) * 4.0 + 70, np.arange(HAND_POINTS) * 3.0 + 90], 1)
    arrays = [np.full(shape, -3.0) for shape in shapes]
    arrays[head.points] = np.concatenate([places, np.full((HAND_POINTS, 1), 7.0)], 1).reshape(1, -1)
    arrays[head.presence] = np.array([[0.8]])
    found = head.decode(arrays, 0.5)
    on_image = onto_image(found, Placement.of(112, 448, HAND.side, HAND.side, Fit.LETTERBOX))
    assert on_image.points is not None
    np.testing.assert_allclose(on_image.points[0, :, :2], (places - [0, 84]) * 2)
    np.testing.assert_allclose(on_image.boxes, [[140, 12, 300, 112]])  # cut at the edge
    np.testing.assert_allclose(on_image.points[0, :, 2], 0.8)
    assert len(head.decode(arrays, 0.9)) == 0


def test_masks_lie_where_the_person_is() -> None:
    h, w = 144, 256
    head = recognise(EMPTY, outputs_of((1, h, w, 1)), h, w, Hints())
    assert isinstance(head, SelfieHead)
    y, x = np.meshgrid(np.arange(h) + 0.5, np.arange(w) + 0.5, indexing="ij")
    likely = 1 / (1 + np.exp(np.hypot(x - 160, y - 70) - 40))
    arrays = [likely[np.newaxis, :, :, np.newaxis]]
    placement = Placement.of(3 * h, 2 * w, h, w, Fit.STRETCH)
    found = head.with_masks(onto_image(head.decode(arrays, 0.3), placement), arrays, placement)
    np.testing.assert_allclose(found.boxes, [[240, 90, 400, 330]], atol=3)
    (mask,) = found.masks or ()
    rows, columns = np.nonzero(mask.pixels)
    places = (columns + mask.left + 0.5) / 2, (rows + mask.top + 0.5) / 3
    assert np.hypot(places[0] - 160, places[1] - 70).max() < 41
    assert mask.pixels.sum() == pytest.approx(math.pi * 40**2 * 6, rel=0.02)
    assert len(head.decode([np.zeros((1, h, w, 1))], 0.1)) == 0


def test_other_sizes_are_no_selfies() -> None:
    with pytest.raises(Exception, match="of no detector known here"):
        recognise(EMPTY, outputs_of((1, 256, 256, 1)), 128, 128, Hints())
    with pytest.raises(Exception, match="mask: an object's mask"):
        recognise(EMPTY, outputs_of((1, 320, 320, 1)), 320, 320, Hints())


class Detector:
    """A model by the delegate and, where the runtime can, by the CPU."""

    def __init__(self, name: str, threshold: float = 0.5) -> None:
        path = FLOAT / f"mediapipe_{name}.tflite"
        self.plan = DetectorPlan.read(path, Hints())
        self.model = DelegatedModel.load(path, SIMULATOR)
        self.path = path
        self.thresholds = Thresholds(threshold)

    def __call__(self, image: Image.Image) -> Detections:
        return detect(self.plan, self.model, image, self.thresholds)

    def on_cpu(self, image: Image.Image) -> Detections:
        model = ReferenceModel.load(self.path, reference_kernels=False)
        return detect(self.plan, model, image, self.thresholds)


def mirrored_boxes(found: Detections, width: int) -> np.ndarray:
    boxes = found.boxes[:, [2, 1, 0, 3]].copy()
    boxes[:, [0, 2]] = width - boxes[:, [0, 2]]
    return boxes


def hand_crops(palms: Detector, path: Path) -> list[Image.Image]:
    """Upright squares around the hands of the palms, by MediaPipe's rule: the wrist (point 0) below
    the middle finger (point 2), 2.6 times the palm's box, half a box further towards the fingers.
    """
    image = open_image(path).convert("RGB")
    crops = []
    found = palms(image)
    assert found.points is not None
    for box, points in zip(found.boxes, found.points, strict=True):
        centre, size = (box[:2] + box[2:]) / 2, float((box[2:] - box[:2]).max())
        along = points[2, :2] - points[0, :2]
        along /= np.hypot(*along)
        centre = centre + 0.5 * size * along
        side = 2.6 * size
        # The axes of the crop in the picture: down is against the fingers.
        down, right = -along, np.array([-along[1], along[0]])
        first = centre - side / 2 * (down + right)
        pixels = HAND.side
        (a, d), (b, e) = right * side / pixels, down * side / pixels
        matrix = (a, b, first[0], d, e, first[1])
        crops.append(
            image.transform(
                (pixels, pixels), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
            )
        )
    return crops


@needs_models
def test_faces_are_those_of_the_cpu_and_of_the_mirror() -> None:
    faces = Detector("face_detection_short_range")
    image = open_image(PORTRAIT).convert("RGB")
    ours, theirs, mirrored = faces(image), faces.on_cpu(image), faces(ImageOps.mirror(image))
    assert len(ours) == len(theirs) == len(mirrored) == 1
    assert ours.points is not None
    assert theirs.points is not None
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1)
    np.testing.assert_allclose(ours.points, theirs.points, atol=1)
    assert iou(ours.boxes[0], mirrored_boxes(mirrored, image.width))[0] > 0.9


@needs_models
def test_a_selfie_is_that_of_the_mirror() -> None:
    selfies = Detector("selfie_segmentation")
    image = open_image(PORTRAIT).convert("RGB")
    masks = []
    for picture in (image, ImageOps.mirror(image)):
        found = selfies(picture)
        (mask,) = found.masks or ()
        whole = np.zeros((image.height, image.width), bool)
        h, w = mask.pixels.shape
        whole[mask.top : mask.top + h, mask.left : mask.left + w] = mask.pixels
        masks.append(whole)
    ours, theirs = masks[0], masks[1][:, ::-1]
    assert (ours & theirs).sum() > 0.98 * (ours | theirs).sum()
    # The face and the jacket, not the sky.
    assert ours[200, 260]
    assert ours[550, 250]
    assert not ours[100, 450]
    changed = np.asarray(draw(image, named_objects(selfies(image), None))) != np.asarray(image)
    assert changed[ours].any(axis=1).mean() > 0.95


@needs_models
@pytest.mark.parametrize("photograph", HANDS)
def test_hands_are_those_of_the_cpu_and_of_the_mirror(photograph: str) -> None:
    palms, hands = Detector("palm_detection_lite"), Detector("hand_landmark_lite")
    crops = hand_crops(palms, IMAGES / "coco" / f"{photograph}.jpg")
    assert len(crops) >= HANDS[photograph]
    ours, theirs = hands(crops[0]), hands.on_cpu(crops[0])
    mirrored = hands(ImageOps.mirror(crops[0]))
    assert len(ours) == len(theirs) == len(mirrored) == 1
    points, cpu, mirror = (f.points[0] for f in (ours, theirs, mirrored) if f.points is not None)
    np.testing.assert_allclose(points[:, :2], cpu[:, :2], atol=1.5)
    mirror = np.stack([HAND.side - mirror[:, 0], mirror[:, 1]], axis=1)
    size = np.ptp(points[:, :2], axis=0).max()
    apart = np.hypot(*(points[:, :2] - mirror).T)
    assert np.median(apart) < 0.1 * size
    # In an upright hand the wrist is below the middle finger's base.
    assert points[0, 1] > points[9, 1]
