"""``evaluate``: accuracy on labelled pictures, the delegate beside the CPU."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from delegate.cli.command import Command, answer, options_from, warn
from delegate.cli.detect import DECODER_ROWS, ODD_DECODERS, hints_from, plan_from
from delegate.cli.table import format_table, print_pairs
from delegate.errors import ModelError
from delegate.model.files import MAX_MODEL_BYTES, read_file
from delegate.model.tflite_reader import model_details, read_graph
from delegate.progress import progress
from rk3588_vision.class_ranking import BACKGROUND, class_count, read_label_lines
from rk3588_vision.detection.objects import check_labels
from rk3588_vision.evaluation.evaluator import Record, Spec
from rk3588_vision.evaluation.ground_truth import class_map, classes_of, objects_of
from rk3588_vision.evaluation.metrics import (
    class_mismatch,
    classification_metrics,
    detection_metrics,
)
from rk3588_vision.evaluation.state import StateFile
from rk3588_vision.evaluation.workers import run_here, run_in_processes, run_on_cluster
from rk3588_vision.images import find_images


def _task(arguments: argparse.Namespace) -> str:
    if arguments.task is not None:
        return str(arguments.task)
    _, outputs = model_details(arguments.model)
    try:
        if len(outputs) == 1 and class_count(outputs[0]):
            return "classify"
    except ModelError:
        pass
    return "detect"


def _run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    task = _task(arguments)
    labels = read_label_lines(arguments.labels) if arguments.labels is not None else None
    truth_labels = (
        read_label_lines(arguments.truth_labels) if arguments.truth_labels is not None else None
    )
    paths = find_images(arguments.folder)[: arguments.limit]
    classes = len(labels) if labels is not None else None
    read_graph(arguments.model)  # its errors name what is wrong with a file
    content = read_file(arguments.model, "file", MAX_MODEL_BYTES)
    spec = Spec(
        task=task,
        model_sha256=hashlib.sha256(content).hexdigest(),
        options=tuple(sorted(options.to_strings().items())),
        with_cpu=not arguments.no_cpu,
        reference_kernels=arguments.reference == "reference",
        hints=hints_from(arguments, classes),
    )
    # Bad labels, models and outputs are refused before the work begins.
    if task == "classify":
        answers = classes_of(paths, arguments.truth)
        offset = _background(arguments.model, labels, truth_labels, max(answers.values()))
    else:
        objects = objects_of(paths, arguments.truth)
        plan = plan_from(arguments, classes)
        if labels is not None:
            check_labels(arguments.labels, labels, plan)
    with StateFile(arguments.state, spec.fingerprint(), has_boxes=task == "detect") as state:
        left = [path for path in paths if path.name not in state.records]
        with progress("evaluating", len(paths)) as bar:
            bar.advance(len(paths) - len(left))
            for record in _work(arguments, spec, left):
                state.add(record)
                bar.advance()
        records = [state.records[path.name] for path in paths]
    if task == "classify":
        metrics = classification_metrics(records, answers, offset)
    else:
        metrics = detection_metrics(
            records, objects, class_map(labels, truth_labels), plan.head.classes
        )
    document = {"task": task, "model": arguments.model.name, **metrics}
    answer(arguments, document, lambda: _print_tables(document))
    mismatch = None
    if task == "detect":
        mismatch = class_mismatch(records, objects, class_map(labels, truth_labels))
    if mismatch is not None:
        warn(
            f"of {mismatch[1]} objects that a box lies on only {mismatch[0]} have its class: model "
            "and truth number their classes otherwise, and the precision above is not the model's; "
            "name the model's with --labels and the truth's with --truth-labels"
        )
    return 0


def _background(
    model: Path, labels: Sequence[str] | None, truth_labels: Sequence[str] | None, highest: int
) -> int:
    """1 if the model's classes begin with a background that the truth does not count.

    Told by the model's labels; without labels by ImageNet's 1001 outputs for 1000 classes.
    """
    _, outputs = model_details(model)
    count = class_count(outputs[0])
    if labels is not None:
        counted = truth_labels is not None and truth_labels[0].lower() == BACKGROUND
        return int(labels[0].lower() == BACKGROUND and len(labels) == count and not counted)
    return int(count == 1001 and highest < 1000)


def _work(arguments: argparse.Namespace, spec: Spec, paths: Sequence[Path]) -> Iterator[Record]:
    if not paths:
        return iter(())
    if arguments.scheduler is not None:
        return run_on_cluster(arguments.model, spec, paths, arguments.scheduler)
    if arguments.jobs > 1:
        return run_in_processes(arguments.model, spec, paths, arguments.jobs)
    return run_here(arguments.model, spec, paths)


def _print_tables(document: dict[str, Any]) -> None:
    facts = ("model", "task", "images", "classes")
    print_pairs(*((name, document[name]) for name in facts if name in document))
    sides = [name for name in ("delegate", "cpu") if name in document]
    names = list(document[sides[0]])
    rows = [(side, *(f"{document[side][name]:.4f}" for name in names)) for side in sides]
    print()
    print(format_table(("", *names), rows, right=range(1, 1 + len(names))))
    if "top1_agreement" in document:
        print(f"\nbest class agrees for {100 * document['top1_agreement']:.2f} % of the pictures")
    if "ap50_difference" in document:
        print(f"\nAP50 of the delegate against the CPU: {document['ap50_difference']:+.4f}")


COMMAND = Command(
    _run,
    f"""
evaluate: Accuracy on labelled pictures: top-1 and top-5, or COCO's average precision.

folder FOLDER:path  a folder of pictures
--model M:path!  a .tflite file
--task classify|detect  default: classify if the outputs allow it
--truth FILE:path  classes as CSV (image,class; default: the number at the beginning of each name)
  or objects as COCO's JSON (default: YOLO's .txt beside each picture)
--labels L:path  the model's classes by name
--truth-labels L:path  the truth's classes by name, where they are numbered otherwise than the
  model's
--limit N:positive  only N pictures
--jobs N:positive=1  processes (default 1)
--scheduler ADDRESS  of a Dask cluster that does the work instead, as tcp://host:8786
--state FILE:path  keep results there, and go on from it
--no-cpu  only the delegate
--reference reference|builtin=builtin  kernels of what runs on the CPU, on both sides: TensorFlow
  Lite's fast ones (default) or its reference ones
{DECODER_ROWS}

evaluate imagenet/ --model mobilenet_v1_1.0_224_quant.tflite --jobs 4
evaluate coco/ --model yolov8n.tflite --state yolov8n.jsonl --json
evaluate coco/ --model ssd.tflite --labels coco90.txt --truth-labels coco80.txt
evaluate coco/ --model yolov8n.tflite --scheduler tcp://10.0.0.2:8786
""",
    odd=ODD_DECODERS,
    takes_options=True,
)
