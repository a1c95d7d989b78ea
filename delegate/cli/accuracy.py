"""``accuracy``: a quantised model against its float model, layer by layer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from delegate.cli.accuracy_text import (
    add_picture_arguments,
    decibels,
    distance_document,
    outputs_document,
    pictures_from,
    preparation_from,
    print_outputs,
)
from delegate.cli.argument_types import positive_integer
from delegate.cli.command import Command, options_from, print_json
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import print_pairs, print_table
from delegate.errors import UsageError
from delegate.host.delegation import plural
from delegate.insight.node_data import error_data, time_data
from delegate.options import Options
from delegate.progress import progress
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.layer_errors import Accuracy, Layer, compare_layers
from rk3588_vision.quantization.picture_input import PictureInput

_SHOWN = 10
_QUANTITIES = ("snr_db", "cosine", "noise_added_percent", "npu_us")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a quantised .tflite file")
    add_picture_arguments(parser, "that both models see")
    parser.add_argument(
        "--reference", type=Path, metavar="FLOAT.tflite", required=True,
        help="the float model that MODEL was made from",
    )  # fmt: skip
    parser.add_argument(
        "--layers", type=positive_integer, default=_SHOWN, metavar="N",
        help=f"how many layers to show (default {_SHOWN}; --json has all)",
    )  # fmt: skip
    parser.add_argument(
        "--node-data", type=Path, metavar="DIR",
        help="write time and error of every layer for ai-edge-model-explorer: "
        f"DIR/MODEL.<quantity>.json for {', '.join(_QUANTITIES)}",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    files = _files(arguments)
    check_writable(*files.values())
    pictures = pictures_from(arguments)
    reference = FloatModel.read(arguments.reference)
    prepared = preparation_from(arguments, arguments.reference)
    with progress("comparing", len(pictures)) as bar:
        found = compare_layers(reference, arguments.model, pictures, prepared, done=bar.advance)
    if files:
        _write_node_data(arguments.model, options, found, files)
    if arguments.json:
        print_json(_document(prepared, found, files))
    else:
        _print(arguments, prepared, found, files)
    return 0


def _files(arguments: argparse.Namespace) -> dict[str, Path]:
    folder = arguments.node_data
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--node-data {folder}: no such folder")
    return {what: folder / f"{arguments.model.stem}.{what}.json" for what in _QUANTITIES}


def _write_node_data(
    model: Path, options: Options, found: Accuracy, files: dict[str, Path]
) -> None:
    from delegate.compile.compiler import compile_model

    contents = {**error_data(found), "npu_us": time_data(compile_model(model, options))}
    for what, path in files.items():
        write_file(path, contents[what])


def _layer_document(layer: Layer) -> dict[str, Any]:
    return {
        "node": layer.node,
        "reference_node": layer.reference,
        "op": layer.op,
        "name": layer.name,
        "float": layer.is_float,
        **distance_document(layer.distance),
        "noise_added_percent": 100.0 * layer.adds,
    }


def _document(prepared: PictureInput, found: Accuracy, files: dict[str, Path]) -> dict[str, Any]:
    return {
        "preparation": str(prepared),
        **outputs_document(found),
        "layers": [_layer_document(layer) for layer in found.worst_first()],
        "unmatched": list(found.unmatched),
        "node_data": [str(path) for path in files.values()],
    }


def _print(
    arguments: argparse.Namespace,
    prepared: PictureInput,
    found: Accuracy,
    files: dict[str, Path],
) -> None:
    print_pairs(
        ("model", arguments.model),
        ("reference", arguments.reference),
        ("pictures", f"{found.pictures}: {prepared}"),
        ("layers", f"{len(found.layers)} compared, {len(found.unmatched)} without a counterpart"),
    )
    print_outputs(found)
    rows = [
        (
            layer.node, decibels(layer.distance.snr_db), decibels(layer.inputs_db),
            f"{layer.distance.cosine:.5f}", f"{100 * layer.adds:.2f} %", layer.op,
            "float" if layer.is_float else "int8", layer.name,
        )
        for layer in found.worst_first()[: arguments.layers]
    ]  # fmt: skip
    headings = ("node", "SNR dB", "inputs' dB", "cosine", "adds", "op", "type", "layer")
    title = (
        f"the {plural(len(rows), 'layer')} that add most noise, as a share of their result's power:"
    )
    print_table(title, headings, rows, right=(0, 1, 2, 3, 4), last="elide")
    for path in files.values():
        print(f"wrote {path}")


COMMAND = Command(
    name="accuracy",
    summary="Compare a quantised model with its float model, layer by layer.",
    examples=(
        "accuracy int8.tflite photographs/ --reference float.tflite",
        "accuracy int8.tflite photographs/ --reference float.tflite --layers 30",
        "accuracy int8.tflite photographs/ --reference float.tflite --node-data explorer/ --json",
    ),
    add_arguments=_add_arguments,
    run=_run,
    takes_options=True,
)
