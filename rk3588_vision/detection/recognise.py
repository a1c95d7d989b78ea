"""Finds the head of a model by its outputs' shapes and ranges, its graph and its labels, or by an
option.

All heads that can be are looked for. One that leads is taken; where two are as likely, or the
outputs cannot tell (cut heads do not hold their anchors), the error lists them, and ``--decoder``
chooses. A wrong head gives boxes that look right.
"""

import math
from collections.abc import Iterator, Sequence

from delegate.errors import ModelError, UsageError
from delegate.model.graph import Graph
from rk3588_vision.detection.candidate import USUAL, Candidate, Hints, Outputs, class_score
from rk3588_vision.detection.grid_candidates import grid_candidates
from rk3588_vision.detection.head import Head, OutputTensor
from rk3588_vision.detection.mediapipe import (
    BOX_VALUES,
    LANDMARKS,
    MODELS,
    SELFIE_SIZES,
    BlazeHead,
    LandmarkHead,
    SelfieHead,
)
from rk3588_vision.detection.pose import pose_candidates
from rk3588_vision.detection.row_candidates import row_candidates, split_candidates
from rk3588_vision.detection.segmentation import segmentation_candidates
from rk3588_vision.detection.ssd import PostProcessedHead, RawSsdHead, ssd_anchors
from rk3588_vision.detection.yolo_grids import ANCHOR_FAMILIES

DECODERS = (
    "ssd", "ssd-raw", "yolov5", "yolov8", "yolox", "end-to-end",
    "yolov8-seg", "yolov8-pose", "yolov8-obb", "yolov5-face", "blazeface",
    "hand-landmarks", "selfie", "blazepose", "face-landmarks",
    "movenet", "movenet-multipose", "posenet", "segmentation", "label-map", "mask",
    "yolov8-grids", "yolov8-seg-grids", "yolox-grids", *(family.name for family in ANCHOR_FAMILIES),
)  # fmt: skip

POST_PROCESS = "TFLite_Detection_PostProcess"


class UnknownHeadError(ModelError):
    """The outputs fit no head."""


def recognise(
    graph: Graph, outputs: Sequence[OutputTensor], input_h: int, input_w: int, hints: Hints
) -> Head:
    """The head of a model. Raises ModelError if there is none or none leads, UsageError if a hint
    cannot hold.
    """
    about = Outputs(graph, outputs, input_h, input_w, hints)
    found = sorted(_candidates(about), key=lambda candidate: -candidate.score)
    shapes = ", ".join(str(list(output.shape)) for output in outputs)
    if hints.decoder is not None:
        named = [candidate for candidate in found if candidate.head.name == hints.decoder]
        if not named:
            anchors = f" with {len(hints.anchors)} anchors" if hints.anchors else ""
            raise UsageError(
                f"the outputs {shapes} do not fit the decoder {hints.decoder}{anchors}"
            )
        return named[0].head
    if not found:
        raise UnknownHeadError(
            f"outputs {shapes} for an input of {input_h} x {input_w} pixels are of no detector "
            f"known here (decoders: {', '.join(DECODERS)})"
        )
    best = found[0]
    if best.doubt is None and (len(found) == 1 or found[1].score < best.score):
        return best.head
    doubt = best.doubt or "as likely as each other"
    choices = "; ".join(_offers(found))
    raise ModelError(
        f"outputs {shapes} for an input of {input_h} x {input_w} pixels fit more than one head, "
        f"and a wrong one gives wrong boxes ({doubt}): choose with --decoder NAME, or give "
        f"--labels. What fits, best first: {choices}"
    )


def _offers(found: Sequence[Candidate]) -> Iterator[str]:
    """Yield the candidates, each with how likely it is beside the others: a point more is twice as
    likely. One that is in doubt stands beside what is not known here.
    """
    weights = [2.0**candidate.score for candidate in found]
    whole = sum(weights) + (found[0].doubt is not None)
    for candidate, weight in zip(found, weights, strict=True):
        yield f"{candidate} [{weight / whole:.0%}]"


def _candidates(outputs: Outputs) -> Iterator[Candidate]:
    yield from _post_processed(outputs)
    yield from _raw_ssd(outputs)
    yield from _blaze(outputs)
    yield from _mediapipe(outputs)
    yield from pose_candidates(outputs)
    yield from segmentation_candidates(outputs)
    yield from split_candidates(outputs)
    yield from row_candidates(outputs)
    yield from grid_candidates(outputs)


def _post_processed(outputs: Outputs) -> Iterator[Candidate]:
    shown = outputs.graph.outputs
    found = (n.outputs[:4] for n in outputs.graph.nodes if n.custom_name == POST_PROCESS)
    made = next((tensors for tensors in found if len(tensors) == 4), None)
    if made is not None and set(made) <= set(shown):
        order = tuple(map(shown.index, made))
        head = PostProcessedHead(outputs.input_h, outputs.input_w, order)
        yield Candidate(head, f"the outputs of {POST_PROCESS}", USUAL)


def _raw_ssd(outputs: Outputs) -> Iterator[Candidate]:
    tensors = outputs.tensors
    if len(tensors) != 2 or any(len(output.shape) != 3 for output in tensors):
        return
    boxes = next((i for i, output in enumerate(tensors) if output.shape[2] == 4), None)
    if boxes is None or tensors[0].shape[1] != tensors[1].shape[1]:
        return
    scores = 1 - boxes
    anchors = ssd_anchors(outputs.input_h, outputs.input_w)
    if len(anchors) != tensors[boxes].shape[1] or tensors[scores].shape[2] < 2:
        return
    head = RawSsdHead(outputs.input_h, outputs.input_w, boxes, tensors[scores], scores, anchors)
    score, reasons = class_score(head.classes, outputs.hints)
    yield Candidate(head, f"boxes and {head.classes} classes per anchor", score, reasons)


def _blaze(outputs: Outputs) -> Iterator[Candidate]:
    """Tensors of boxes with points and of scores, of as many rows as a published model's grids."""
    tensors = outputs.tensors
    shapes: list[tuple[int, ...]] = [output.shape for output in tensors]
    for model in MODELS:
        size = outputs.input_h, outputs.input_w
        if size != (model.side, model.side):
            continue
        width = BOX_VALUES + 2 * model.points
        for counts in {(sum(model.anchors),), model.anchors}:
            boxes, scores = ([(1, count, c) for count in counts] for c in (width, 1))
            if sorted(shapes) == sorted([*boxes, *scores]):
                places = tuple(map(shapes.index, scores))
                likely = tuple(tensors[place] for place in places)
                head = BlazeHead(*size, model, tuple(map(shapes.index, boxes)), places, likely)
                yield Candidate(head, f"MediaPipe's detector of {model.what}", USUAL)


def _mediapipe(outputs: Outputs) -> Iterator[Candidate]:
    """Tensors of the shapes that the published models of landmarks and of selfies have."""
    size = outputs.input_h, outputs.input_w
    shapes = [output.shape for output in outputs.tensors]
    if shapes == [(1, *size, 1)] and size in SELFIE_SIZES:
        yield Candidate(SelfieHead(*size, 1, False), "MediaPipe's mask of a person", USUAL)
    sizes = [math.prod(shape) for shape in shapes]
    for model in LANDMARKS:
        if size == (model.side, model.side) and {1, model.values * model.points} <= {*sizes}:
            presence = sizes.index(1)
            places = sizes.index(model.values * model.points), presence
            head = LandmarkHead(*size, model, *places, outputs.tensors[presence])
            yield Candidate(head, f"MediaPipe's landmarks of a {model.what}", USUAL)
