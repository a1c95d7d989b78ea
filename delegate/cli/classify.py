"""``classify``: image classification through the runtime and the delegate."""

from __future__ import annotations

import argparse
import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

from delegate.cli.command import Command, answer, options_from
from delegate.cli.files import (
    check_writable,
    delegation_facts,
    picture_paths,
    warn_of_meaning,
    write_file,
)
from delegate.cli.table import format_table, print_pairs
from delegate.host.delegated import DelegatedModel
from delegate.host.delegation import plural
from delegate.progress import progress
from rk3588_vision.class_ranking import Ranked
from rk3588_vision.classification import Classifier
from rk3588_vision.images import FLOAT_MEAN, FLOAT_STD, open_image
from rk3588_vision.placement import Fit, Preparation

Results = list[tuple[Path, tuple[Ranked, ...]]]


def _run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    check_writable(arguments.csv)
    paths = picture_paths(arguments.images)
    classifier = Classifier(
        arguments.model,
        labels=arguments.labels,
        top=arguments.top,
        preparation=Preparation(Fit.STRETCH, arguments.mean, arguments.std),
        **dict[str, Any](options.given()),
    )
    first = open_image(paths[0])  # a bad one fails before the model is loaded
    results = []
    with classifier, progress("classifying", len(paths)) as bar:
        for number, path in enumerate(paths):
            results.append((path, classifier(path if number else first)))
            bar.advance()
        model = classifier.model
    if arguments.csv is not None:
        write_file(arguments.csv, _csv(results).encode("utf-8"))
    answer(
        arguments, _document(model, results), lambda: _print_tables(arguments.model, model, results)
    )
    warn_of_meaning(arguments.model, model, "scores")
    return 0


def _document(model: DelegatedModel, results: Results) -> dict[str, Any]:
    """Return the JSON document: "top" for one picture, "images" with a "top" each for several."""
    facts = delegation_facts(model)
    tops = [[asdict(entry) for entry in ranked] for _, ranked in results]
    if len(results) == 1:
        return {"top": tops[0], **facts}
    images = [
        {"image": str(path), "top": top} for (path, _), top in zip(results, tops, strict=True)
    ]
    return {"images": images, **facts}


def _csv(results: Results) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "rank", "class", "label", "score"))
    for path, ranked in results:
        for place, entry in enumerate(ranked, start=1):
            writer.writerow((path, place, entry.index, entry.label or "", f"{entry.score:.6f}"))
    return text.getvalue()


def _print_tables(path: Path, model: DelegatedModel, results: Results) -> None:
    facts = model.delegation
    pairs: list[tuple[str, object]] = [
        ("model", path),
        ("device", model.device),
        ("delegated", f"{facts.delegated_nodes} of {plural(facts.total_nodes, 'node')}"),
        ("partitions", facts.partitions),
        ("submits", f"{model.submits_per_invoke} per invoke"),
    ]
    what = ("image", results[0][0]) if len(results) == 1 else ("images", len(results))
    print_pairs(what, *pairs)
    for image, ranked in results:
        print() if len(results) == 1 else print(f"\n{image}")
        rows = [(f"{e.score:.4f}", e.index, e.label or "") for e in ranked]
        print(format_table(("score", "class", "label"), rows, right=(0, 1)))


COMMAND = Command(
    _run,
    f"""
classify: Classify a picture through the TensorFlow Lite runtime and the delegate.

images IMAGE:path+  pictures, or folders of them
--model M:path!  a .tflite file
--labels L:path  one label per line, in order of the classes
--top N:positive=5  classes to show (default 5)
--mean X:finite={FLOAT_MEAN}  subtracted from pixels, for float inputs (default {FLOAT_MEAN})
--std X:nonzero={FLOAT_STD}  divides pixels, for float inputs (default {FLOAT_STD})
--csv FILE:path  also write image, rank, class, label, score there

classify cat.jpg --model mobilenet_v1_1.0_224_quant.tflite --labels labels.txt
classify cat.jpg --model m.tflite --top 3 --device simulator --json
classify photographs/ --model m.tflite --top 1 --csv results.csv
classify cat.jpg --model m.tflite -O deny_ops=ADD -O log_level=debug
""",
    takes_options=True,
)
