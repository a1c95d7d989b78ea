"""``detect``: object detection through the runtime and the delegate, boxes drawn on pictures."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delegate.cli.command import Command, options_from, print_json
from delegate.cli.detect_video import (
    FORMATS,
    picture_document,
    print_detector,
    run_video,
    save_picture,
)
from delegate.cli.files import (
    check_writable,
    delegation_facts,
    picture_paths,
    warn_of_meaning,
    write_file,
)
from delegate.cli.table import format_table
from delegate.errors import UsageError
from delegate.host.delegated import DelegatedModel
from delegate.host.delegation import plural
from delegate.progress import progress
from rk3588_vision.class_ranking import read_label_lines
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.coco_results import coco_results
from rk3588_vision.detection.detector import (
    DEFAULT_IOU,
    DEFAULT_LIMIT,
    DEFAULT_THRESHOLD,
    DetectorPlan,
)
from rk3588_vision.detection.draw import draw
from rk3588_vision.detection.objects import Detector, FoundObject, check_labels
from rk3588_vision.detection.recognise import DECODERS
from rk3588_vision.images import open_image
from rk3588_vision.placement import Fit


def anchors_from(text: str) -> tuple[tuple[float, float], ...]:
    """ "10x13,16x30" as ((10, 13), (16, 30))."""
    pairs = []
    for item in text.split(","):
        try:
            w, h = map(float, item.split("x"))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{item!r} is not WIDTHxHEIGHT") from None
        if not (0 < w < math.inf and 0 < h < math.inf):
            raise argparse.ArgumentTypeError(f"{item!r} is no size")
        pairs.append((w, h))
    return tuple(pairs)


DECODER_ROWS = f"""\
detectors:
--decoder NAME  how to read the outputs (default: recognised): {", ".join(DECODERS)}
--anchors WxH,...  anchors of cut YOLO heads, in pixels of the input, small objects first (default:
  those that were published with the decoder's models)
--fit {"|".join(fit.value for fit in Fit)}  how a picture fills the input (default: as the family
  was trained)
--colours rgb|bgr  order of the channels (default: the family's)
--mean X:finite  subtracted from pixels, for float inputs
--std X:nonzero  divides pixels, for float inputs"""
"""The options for a model's picture and for the reading of its outputs; several commands share
them.
"""
ODD_DECODERS: Mapping[str, Mapping[str, Any]] = {
    "--decoder": {"choices": DECODERS},
    "--anchors": {"type": anchors_from, "default": ()},
}


def hints_from(arguments: argparse.Namespace, classes: int | None = None) -> Hints:
    """Return what the arguments of ``DECODER_ROWS`` say."""
    return Hints(
        arguments.decoder,
        classes,
        arguments.anchors,
        fit=Fit(arguments.fit) if arguments.fit is not None else None,
        mean=arguments.mean,
        std=arguments.std,
        is_bgr=None if arguments.colours is None else arguments.colours == "bgr",
    )


def plan_from(arguments: argparse.Namespace, classes: int | None) -> DetectorPlan:
    """The plan that the arguments of ``DECODER_ROWS`` describe."""
    return DetectorPlan.read(arguments.model, hints_from(arguments, classes))


def _run(arguments: argparse.Namespace) -> int:
    if bool(arguments.images) == (arguments.video is not None):
        raise UsageError("detect needs pictures or a --video, one of the two")
    if arguments.video is None and (arguments.frames is not None or arguments.every != 1):
        raise UsageError("--frames and --every are for a --video")
    options = options_from(arguments)
    check_writable(arguments.coco)
    labels = read_label_lines(arguments.labels) if arguments.labels is not None else None
    plan = plan_from(arguments, len(labels) if labels is not None else None)
    if labels is not None:
        check_labels(arguments.labels, labels, plan)
    detector = Detector(
        arguments.model,
        labels=labels,
        plan=plan,
        threshold=arguments.threshold,
        iou=arguments.iou,
        limit=arguments.limit,
        **dict[str, Any](options.given()),
    )
    if arguments.video is not None:
        if arguments.coco is not None:
            raise UsageError("--coco is for pictures")
        return run_video(arguments, detector)
    paths = picture_paths(arguments.images)
    targets = _targets(arguments.output, paths)
    made = sorted({str(target.parent) for target in targets if not target.parent.is_dir()})
    first = open_image(paths[0])
    results = []
    with detector, progress("detecting", len(paths)) as bar:
        model = detector.model
        for number, path in enumerate(paths):
            image = first if number == 0 else open_image(path)
            found = detector(image)
            if targets:
                save_picture(draw(image, found), targets[number])
            results.append((path, picture_document(image, found), found))
            bar.advance()
    if arguments.coco is not None:
        entries = [
            entry
            for path, size, found in results
            for entry in coco_results(found, path, size["height"], size["width"], plan.head.classes)
        ]
        write_file(arguments.coco, json.dumps(entries).encode())
    if arguments.json:
        documents = [{"image": str(path)} | document for path, document, _ in results]
        head = {"decoder": plan.head.name, **delegation_facts(model)}
        head |= {"made_folders": made} if made else {}
        print_json({**(documents[0] if len(documents) == 1 else {}), "images": documents, **head})
    else:
        _print_tables(arguments.model, plan, model, results)
        for folder in made:
            print(f"made the folder {folder}")
        for target in [*targets, *([arguments.coco] if arguments.coco is not None else [])]:
            print(f"wrote {target}")
    warn_of_meaning(arguments.model, model, "boxes")
    return 0


def _targets(output: Path | None, paths: list[Path]) -> list[Path]:
    """Return where the drawn pictures go; refused before any inference if that cannot be."""
    if output is None:
        return []
    if len(paths) > 1 or output.is_dir():
        if output.exists() and not output.is_dir():
            raise UsageError(f"{output}: several pictures need a folder")
        names = [f"{path.stem}.png" for path in paths]
        if len(set(names)) < len(names):
            names = [f"{number:04d}_{name}" for number, name in enumerate(names)]
        return [output / name for name in names]
    if output.suffix.lower() not in FORMATS:
        raise UsageError(f"{output}: the name must end in {', '.join(FORMATS)}")
    return [output]


def _print_tables(
    path: Path,
    plan: DetectorPlan,
    model: DelegatedModel,
    results: Sequence[tuple[Path, dict[str, Any], Sequence[FoundObject]]],
) -> None:
    print_detector(path, plan, model, ("partitions", model.delegation.partitions))
    for image, size, found in results:
        print(f"\n{image} ({size['width']} x {size['height']}): {plural(len(found), 'object')}")
        rows = [
            (f"{one.score:.3f}", *(f"{v:.0f}" for v in one.box), one.index, one.label or "")
            for one in found
        ]
        if rows:
            headings = ("score", "x1", "y1", "x2", "y2", "class", "label")
            print(format_table(headings, rows, right=(0, 1, 2, 3, 4, 5)))


COMMAND = Command(
    _run,
    f"""
detect: Find objects in pictures or videos (SSD, YOLO and face models) and draw them.

images IMAGE:path*  pictures, or folders of them
--model M:path!  a .tflite file
--labels L:path  one label per line, in order of the classes
--output OUT:path  draw the boxes: a file for one picture, a folder for several
--coco FILE:path  write COCO's results (JSON), with key points and masks
--threshold X:share={DEFAULT_THRESHOLD}  least score (default {DEFAULT_THRESHOLD})
--iou X:share={DEFAULT_IOU}  largest overlap of two boxes of a class (default {DEFAULT_IOU})
--max N:positive={DEFAULT_LIMIT}  most boxes per picture (default {DEFAULT_LIMIT})
videos (with the extra 'video'):
--video V  instead of pictures: a video file, the number of a camera, or a stream's address;
  --output is then a folder, or a video: .mp4 or .avi
--frames N:positive  stop after N frames (default: at the video's end, or when interrupted)
--every N:positive=1  look at every Nth frame only (default 1)
{DECODER_ROWS}

detect street.jpg --model ssd_mobilenet_v1.tflite --labels coco_labels.txt
detect street.jpg --model yolov8n.tflite --labels coco80.txt --output boxes.png
detect photographs/ --model yolov8n.tflite --output drawn/ --coco results.json
detect photographs/ --model yolox_nano.tflite --threshold 0.4 --json
detect --video street.mp4 --model yolov8n.tflite --output boxes.mp4
detect --video 0 --model ssd_mobilenet_v1.tflite --every 5 --frames 100
""",
    odd={**ODD_DECODERS, "--max": {"dest": "limit"}},
    takes_options=True,
)
