"""``classify``: image classification through the runtime and the delegate."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from delegate.classification import Ranked
from delegate.classifier import classify_image
from delegate.cli.argument_types import finite_float, nonzero_float, positive_integer
from delegate.cli.command import (
    Command,
    add_json_argument,
    add_option_arguments,
    options_from,
    print_json,
    warn,
)
from delegate.cli.table import format_pairs, format_table
from delegate.delegated import DelegatedModel
from delegate.images import FLOAT_MEAN, FLOAT_STD
from delegate.report import plural

_DEFAULT_TOP = 5


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", type=Path, metavar="IMAGE", help="a picture: PNG, JPEG, BMP, ...")
    parser.add_argument("--model", type=Path, required=True, metavar="M", help="a .tflite file")
    parser.add_argument(
        "--labels", type=Path, metavar="L", help="one label per line, in order of the classes"
    )
    parser.add_argument(
        "--top", type=positive_integer, default=_DEFAULT_TOP, metavar="N",
        help=f"classes to show (default {_DEFAULT_TOP})",
    )  # fmt: skip
    parser.add_argument(
        "--mean", type=finite_float, default=FLOAT_MEAN, metavar="X",
        help=f"subtracted from pixels, for float inputs (default {FLOAT_MEAN})",
    )  # fmt: skip
    parser.add_argument(
        "--std", type=nonzero_float, default=FLOAT_STD, metavar="X",
        help=f"divides pixels, for float inputs (default {FLOAT_STD})",
    )  # fmt: skip
    add_option_arguments(parser)
    add_json_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    result = classify_image(
        arguments.image,
        arguments.model,
        options,
        labels=arguments.labels,
        top=arguments.top,
        mean=arguments.mean,
        std=arguments.std,
    )
    model, ranked = result.model, result.ranked
    if arguments.json:
        print_json(
            {
                "device": model.device,
                "top": [asdict(entry) for entry in ranked],
                "delegated_nodes": model.delegation.delegated_nodes,
                "total_nodes": model.delegation.total_nodes,
                "partitions": model.delegation.partitions,
                "submits_per_invoke": model.submits_per_invoke,
            }
        )
    else:
        _print_table(arguments.image, arguments.model, model, ranked)
    if model.delegation.delegated_nodes == 0:
        warn(f"{arguments.model}: no operator of this model can run on the NPU; it ran on the CPU")
    if model.device == "null" and model.delegation.delegated_nodes:
        warn("the device null computes nothing: the scores mean nothing")
    return 0


def _print_table(image: Path, path: Path, model: DelegatedModel, ranked: Sequence[Ranked]) -> None:
    facts = model.delegation
    print(
        format_pairs(
            [
                ("image", image),
                ("model", path),
                ("device", model.device),
                ("delegated", f"{facts.delegated_nodes} of {plural(facts.total_nodes, 'node')}"),
                ("partitions", facts.partitions),
                ("submits", f"{model.submits_per_invoke} per invoke"),
            ]
        )
    )
    print()
    rows = [(f"{e.score:.4f}", e.index, e.label if e.label is not None else "") for e in ranked]
    print(format_table(("score", "class", "label"), rows, right=(0, 1)))


COMMAND = Command(
    name="classify",
    summary="Classify a picture through the TensorFlow Lite runtime and the delegate.",
    examples=(
        "classify cat.jpg --model mobilenet_v1_1.0_224_quant.tflite --labels labels.txt",
        "classify cat.jpg --model m.tflite --top 3 --device simulator --json",
        "classify cat.jpg --model m.tflite -O deny_ops=ADD -O log_level=debug",
    ),
    add_arguments=_add_arguments,
    run=_run,
)
