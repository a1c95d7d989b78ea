"""Which head a model has: from the shapes and ranges of its outputs, or as an option says.

Where shapes alone leave two readings, the number of labels decides, then COCO's 80 classes; where
nothing decides the error names the readings, and ``--decoder`` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegate.errors import ModelError, UsageError
from delegate.model.graph import Graph
from delegate.vision.detection.head import Head, OutputTensor
from delegate.vision.detection.ssd import PostProcessedHead, RawSsdHead, ssd_anchors
from delegate.vision.detection.yolo import (
    DARKNET_PREPARATION,
    YOLO_PREPARATION,
    EndToEndHead,
    YoloV5Head,
    YoloV8Head,
    YoloXHead,
)
from delegate.vision.detection.yolo_grids import (
    DFL_BINS,
    YOLOV5_ANCHORS,
    AnchorGridHead,
    Anchors,
    DflGridHead,
    GridOutput,
    YoloXGridHead,
    group_by_stride,
)

DECODERS = (
    "ssd", "ssd-raw", "yolov5", "yolov8", "yolox", "end-to-end",
    "yolov5-grids", "yolov8-grids", "yolox-grids", "yolo-fastest",
)  # fmt: skip

POST_PROCESS = "TFLite_Detection_PostProcess"

_COCO_CLASSES = 80
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (8, 16), (16, 32), (32,))
_GRID_STRIDES = (4, 8, 16, 32, 64)
_ANCHORS_PER_CELL = 3
_END_TO_END_COLUMNS = 6

# Yolo-Fastest 1.1 on COCO, for an input of 320 x 320 pixels: "anchors" in yolo-fastest-1.1.cfg of
# its authors' repository (dog-qiuqiu/Yolo-Fastest, ModelZoo/yolo-fastest-1.1_coco).
_YOLO_FASTEST_COCO = (
    320, ((12, 18), (37, 49), (52, 132), (115, 73), (119, 199), (242, 238))
)  # fmt: skip
# Its person detector on COCO, for 160 x 160 (HimaxSmartSensing/Yolo-Fastest): anchor2 and anchor1
# of COCO_DATASET in the maker's example (HimaxWiseEyePlus/WE_I_Plus_User_Examples,
# HIMAX_Yolo_Fastest_Person_Detection_Example/yolo_fastest/main_functions.cc).
_YOLO_FASTEST_PERSON = (
    160, ((4, 9), (10, 25), (23, 49), (32, 93), (62, 106), (113, 132))
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user knows better: the decoder's name, the number of classes, the anchors."""

    decoder: str | None = None
    classes: int | None = None
    anchors: Anchors = ()


def recognise(
    graph: Graph, outputs: Sequence[OutputTensor], input_h: int, input_w: int, hints: Hints
) -> Head:
    """The head of a model. Raises ModelError if there is none, UsageError if a hint cannot hold."""
    head = (
        _ssd(graph, outputs, input_h, input_w, hints)
        or _rows(outputs, input_h, input_w, hints)
        or _grids(outputs, input_h, input_w, hints)
    )
    if head is not None:
        return head
    shapes = ", ".join(str(list(output.shape)) for output in outputs)
    if hints.decoder is not None:
        raise UsageError(f"the outputs {shapes} do not fit the decoder {hints.decoder}")
    raise ModelError(
        f"outputs {shapes} for an input of {input_h} x {input_w} pixels are of no detector known "
        f"here (decoders: {', '.join(DECODERS)})"
    )


def _wanted(hints: Hints, name: str) -> bool:
    return hints.decoder is None or hints.decoder == name


def _ssd(
    graph: Graph, outputs: Sequence[OutputTensor], input_h: int, input_w: int, hints: Hints
) -> Head | None:
    for node in graph.nodes:
        if node.custom_name == POST_PROCESS and _wanted(hints, "ssd") and len(node.outputs) >= 4:
            try:
                order = [graph.outputs.index(tensor) for tensor in node.outputs[:4]]
            except ValueError:
                return None
            return PostProcessedHead(input_h, input_w, (order[0], order[1], order[2], order[3]))
    if len(outputs) != 2 or not _wanted(hints, "ssd-raw"):
        return None
    if any(len(output.shape) != 3 for output in outputs):
        return None
    boxes = next((i for i, output in enumerate(outputs) if output.shape[2] == 4), None)
    if boxes is None or outputs[0].shape[1] != outputs[1].shape[1]:
        return None
    anchors = ssd_anchors(input_h, input_w)
    if len(anchors) != outputs[boxes].shape[1]:
        return None
    scores = 1 - boxes
    return RawSsdHead(input_h, input_w, boxes, outputs[scores], scores, anchors)


def _rows(outputs: Sequence[OutputTensor], input_h: int, input_w: int, hints: Hints) -> Head | None:
    if len(outputs) != 1 or len(outputs[0].shape) != 3 or outputs[0].shape[0] != 1:
        return None
    output = outputs[0]
    for strides in _STRIDES:
        cells = sum((input_h // s) * (input_w // s) for s in strides)
        for axis in (1, 2):
            n, channels = output.shape[axis], output.shape[3 - axis]
            if channels < 5:
                continue
            if n == cells * _ANCHORS_PER_CELL and channels > 5 and _wanted(hints, "yolov5"):
                return YoloV5Head(input_h, input_w, output, axis == 2)
            if n == cells:
                name = _per_cell(output, channels, axis == 2, hints)
                if name == "yolov8":
                    return YoloV8Head(input_h, input_w, output, axis == 2)
                if name == "yolox":
                    return YoloXHead(input_h, input_w, output, axis == 2, strides)
    if output.shape[2] == _END_TO_END_COLUMNS and _wanted(hints, "end-to-end"):
        return EndToEndHead(input_h, input_w, output)
    return None


def _per_cell(
    output: OutputTensor, channels: int, channels_first: bool, hints: Hints
) -> str | None:
    """v8 has 4 + classes channels, YOLOX 5 + classes."""
    if hints.decoder is not None:
        return hints.decoder
    for classes in (hints.classes, _COCO_CLASSES):
        if channels - 4 == classes:
            return "yolov8"
        if channels - 5 == classes:
            return "yolox"
    if channels_first:  # the layout in which v8 and v11 are exported; YOLOX has cells first
        return "yolov8"
    if output.lowest is not None and output.lowest < -1.0:  # logarithms of sizes, not sizes
        return "yolox"
    raise ModelError(
        f"output {output.name!r} of shape {list(output.shape)} can be yolov8 with {channels - 4} "
        f"classes or yolox with {channels - 5}: give --labels or --decoder"
    )


def _grids(
    outputs: Sequence[OutputTensor], input_h: int, input_w: int, hints: Hints
) -> Head | None:
    grids = []
    for index, output in enumerate(outputs):
        grid = _grid(index, output, input_h, input_w)
        if grid is None:
            return None
        grids.append(grid)
    by_stride = group_by_stride(grids)
    forms = {tuple(sorted(member.channels for member in group)) for group in by_stride.values()}
    if len(forms) != 1:
        return None
    channels = forms.pop()
    name = hints.decoder or _grid_family(channels, len(by_stride), hints.classes)
    members = tuple(grids)
    has_bins = 4 * DFL_BINS in channels or channels[0] > 4 * DFL_BINS
    if name == "yolov8-grids" and has_bins:
        return DflGridHead(input_h, input_w, members)
    if name == "yolox-grids" and (len(channels) == 1 or channels[:2] == (1, 4)):
        return YoloXGridHead(input_h, input_w, members)
    if name in ("yolov5-grids", "yolo-fastest") and len(channels) == 1:
        return _anchored(name, members, len(by_stride), (input_h, input_w), hints.anchors)
    return None


def _grid(index: int, output: OutputTensor, input_h: int, input_w: int) -> GridOutput | None:
    """The output as a grid of cells; NHWC where both layouts would fit."""
    if len(output.shape) != 4 or output.shape[0] != 1:
        return None
    _, a, b, c = output.shape
    for stride in _GRID_STRIDES:
        size = (input_h // stride, input_w // stride)
        if (a, b) == size:
            return GridOutput(index, output, stride, c, False)
        if (b, c) == size:
            return GridOutput(index, output, stride, a, True)
    return None


def _grid_family(channels: tuple[int, ...], grids: int, classes: int | None) -> str | None:
    """The decoder for grids of these channels (ascending), or None."""
    if len(channels) > 1:
        if channels[:2] == (1, 4):
            return "yolox-grids"
        return "yolov8-grids" if 4 * DFL_BINS in channels else None
    anchored = "yolo-fastest" if grids == 2 else "yolov5-grids"
    for expected in (classes, _COCO_CLASSES):
        if expected is None:
            continue
        if channels[0] == _ANCHORS_PER_CELL * (5 + expected):
            return anchored
        if channels[0] == 4 * DFL_BINS + expected:
            return "yolov8-grids"
        if channels[0] == 5 + expected:
            return "yolox-grids"
    return anchored if channels[0] % _ANCHORS_PER_CELL == 0 and channels[0] > 15 else None


def _anchored(
    name: str,
    members: tuple[GridOutput, ...],
    grids: int,
    size: tuple[int, int],
    anchors: Anchors,
) -> Head:
    input_h, input_w = size
    if not anchors:
        if name == "yolov5-grids":
            anchors = YOLOV5_ANCHORS
        else:
            is_person = members[0].channels == _ANCHORS_PER_CELL * 6
            published_for, table = _YOLO_FASTEST_PERSON if is_person else _YOLO_FASTEST_COCO
            anchors = tuple(
                (w * input_w / published_for, h * input_h / published_for) for w, h in table
            )
    per_cell, rest = divmod(len(anchors), grids)
    if (
        rest
        or per_cell == 0
        or members[0].channels % per_cell
        or members[0].channels < 6 * per_cell
    ):
        raise UsageError(
            f"{len(anchors)} anchors do not fit {grids} grids of {members[0].channels} channels; "
            "give them with --anchors"
        )
    is_v5 = name == "yolov5-grids"
    preparation = YOLO_PREPARATION if is_v5 else DARKNET_PREPARATION
    return AnchorGridHead(input_h, input_w, members, anchors, is_v5, name, preparation)
