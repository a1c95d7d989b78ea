"""``accuracy``: a quantised model against its float model, layer by layer.

Time and error of layers as ai-edge-model-explorer reads them: "node data", by tensor names.

In: numbers by the name of the tensor that a layer writes. Out: one JSON document per quantity, with
colours from white (least) to red (most).

What ``quantize`` and ``accuracy`` share: how pictures are given, and errors as text and JSON.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.command import Command, answer, options_from
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import print_pairs, print_table
from delegate.errors import UsageError
from delegate.host.delegation import plural
from delegate.npu.perf import estimate_task
from delegate.npu.program_types import total
from delegate.progress import progress
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.layer_errors import BEST_DB, Accuracy, Layer, compare_layers
from rk3588_vision.quantization.picture_input import PictureInput

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult
from delegate.cli.detect import DECODER_ROWS, ODD_DECODERS, hints_from
from delegate.cli.files import picture_paths
from rk3588_vision.quantization.layer_errors import Distance

_SHOWN = 10
_QUANTITIES = ("snr_db", "cosine", "noise_added_percent", "npu_us")


def picture_rows(what: str) -> str:
    """Return the rows of PICTURES, ``what`` they are for, and of how the model wants them."""
    return f"""\
pictures PICTURES:path+  pictures, or folders of them, {what}
--limit N:positive  only the first N pictures
{DECODER_ROWS}"""


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
        from delegate.compile.compiler import compile_model

        times = time_data(compile_model(arguments.model, options))
        for what, content in {**error_data(found), "npu_us": times}.items():
            write_file(files[what], content)
    answer(
        arguments,
        _document(prepared, found, files),
        lambda: _print(arguments, prepared, found, files),
    )
    return 0


def _files(arguments: argparse.Namespace) -> dict[str, Path]:
    folder = arguments.node_data
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--node-data {folder}: no such folder")
    return {what: folder / f"{arguments.model.stem}.{what}.json" for what in _QUANTITIES}


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
    _run,
    f"""
accuracy: Compare a quantised model with its float model, layer by layer.

model MODEL:path  a quantised .tflite file
{picture_rows("that both models see")}
:
--reference FLOAT.tflite:path!  the float model that MODEL was made from
--layers N:positive={_SHOWN}  how many layers to show (default {_SHOWN}; --json has all)
--node-data DIR:path  write time and error of every layer for ai-edge-model-explorer:
  DIR/MODEL.<quantity>.json for {", ".join(_QUANTITIES)}

accuracy int8.tflite photographs/ --reference float.tflite
accuracy int8.tflite photographs/ --reference float.tflite --layers 30
accuracy int8.tflite photographs/ --reference float.tflite --node-data explorer/ --json
""",
    odd=ODD_DECODERS,
    takes_options=True,
)


_WORSE_IS_MORE = ("#ffffff", "#d93025")


def node_data(values: Mapping[str, float], *, more_is_worse: bool = True) -> bytes:
    """Return the document of one quantity."""
    colours = _WORSE_IS_MORE if more_is_worse else _WORSE_IS_MORE[::-1]
    document = {
        "results": {name: {"value": value} for name, value in values.items()},
        "gradient": [{"stop": stop, "bgColor": colour} for stop, colour in enumerate(colours)],
    }
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def error_data(found: Accuracy) -> dict[str, bytes]:
    """Return documents by name: signal to noise in dB, cosine, noise added in percent."""
    snr = {layer.name: max(min(layer.distance.snr_db, BEST_DB), -BEST_DB) for layer in found.layers}
    cosine = {layer.name: layer.distance.cosine for layer in found.layers}
    adds = {layer.name: 100.0 * layer.adds for layer in found.layers if math.isfinite(layer.adds)}
    return {
        "snr_db": node_data(snr, more_is_worse=False),
        "cosine": node_data(cosine, more_is_worse=False),
        "noise_added_percent": node_data(adds),
    }


def time_data(result: CompileResult) -> bytes:
    """Return the document of modelled microseconds on the NPU; what joins another's task has none
    of its own.
    """
    times: dict[str, float] = {}
    for compiled in result.partitions:
        for layer in compiled.layers:
            cycles = total(estimate_task(result.chip, task) for task in layer.tasks).cycles
            us = result.chip.rates.microseconds(cycles)
            name = result.graph.tensor(result.graph.node(layer.nodes[-1]).outputs[0]).name
            times[name] = times.get(name, 0.0) + us
    return node_data(times)


def pictures_from(arguments: argparse.Namespace) -> list[Path]:
    """Return the files that the arguments name. Raises UsageError where there are none."""
    return picture_paths(arguments.pictures)[: arguments.limit]


def preparation_from(arguments: argparse.Namespace, model: Path) -> PictureInput:
    """Return how pictures become the input of ``model``. Raises ModelError, UsageError."""
    return PictureInput.of(model, hints_from(arguments))


def decibels(level: float) -> str:
    """Return a signal to noise as text; without noise it is exact."""
    return f"{level:.1f}" if math.isfinite(level) else ("exact" if level > 0 else "no signal")


def distance_document(distance: Distance) -> dict[str, Any]:
    """Return the JSON of a distance: ``snr_db`` is null where there is no noise, or no signal."""
    level = distance.snr_db
    return {
        "snr_db": level if math.isfinite(level) else None,
        "cosine": distance.cosine,
        "max_abs_diff": distance.worst,
        "equal": distance.worst == 0.0,
    }


def outputs_document(found: Accuracy) -> dict[str, Any]:
    """Return the JSON of a comparison's outputs."""
    return {
        "pictures": found.pictures,
        "mean_snr_db": found.mean_db,
        "top1_agreement": None if found.top1 is None else found.top1 / found.pictures,
        "outputs": [{"name": name, **distance_document(d)} for name, d in found.outputs],
    }


def print_outputs(found: Accuracy) -> None:
    """Print how far the outputs are from the float model's."""
    rows = [
        (decibels(d.snr_db), f"{d.cosine:.5f}", f"{d.worst:.4g}", name) for name, d in found.outputs
    ]
    headings = ("SNR dB", "cosine", "max diff", "output")
    title = f"against the float model, {found.pictures} pictures, on the CPU:"
    print_table(title, headings, rows, right=(0, 1, 2), last="elide")
    if found.top1 is not None:
        print(f"best class agrees for {found.top1} of {found.pictures}")
