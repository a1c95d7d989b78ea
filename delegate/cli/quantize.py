"""``quantize``: an int8 model of a float model, calibrated by pictures."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.accuracy import (
    decibels,
    outputs_document,
    picture_rows,
    pictures_from,
    preparation_from,
    print_outputs,
)
from delegate.cli.command import Command, answer, options_from
from delegate.cli.detect import ODD_DECODERS
from delegate.cli.files import check_writable, refuse_overwriting, write_file
from delegate.cli.table import print_pairs, print_table, thousands
from delegate.errors import UsageError
from delegate.host.delegation import plural
from delegate.progress import progress
from rk3588_vision.quantization.calibration import calibrate, steps
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.layer_errors import Accuracy, compare_layers
from rk3588_vision.quantization.mixed import MixedModel, keep_worst_in_float, most_models
from rk3588_vision.quantization.picture_input import PictureInput
from rk3588_vision.quantization.quantizer_package import load, quantize

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult

_UNITS = 4


@dataclass(frozen=True)
class _Quantized:
    """A model that was made, and what is said of it. ``range_share``: of the pictures' extremes."""

    source: Path
    output: Path
    model: FloatModel
    prepared: PictureInput
    range_share: float
    accuracy: Accuracy
    mixed: MixedModel | None
    compiled: CompileResult


def _run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    load()
    check_writable(arguments.output)
    if arguments.output.exists() and not arguments.output.is_file():
        raise UsageError(f"cannot write {arguments.output}: it is no plain file")
    refuse_overwriting(arguments.model, arguments.output, "float model")
    pictures = pictures_from(arguments)
    model = FloatModel.read(arguments.model)
    prepared = preparation_from(arguments, arguments.model)
    with progress("calibrating", steps(len(pictures))) as bar:
        calibration = calibrate(model, pictures, prepared, done=bar.advance)
    ranges = calibration.ranges
    mixed = None
    if arguments.mixed is None:
        content = quantize(model, ranges)
    else:
        trials = min(arguments.trials, len(model.graph.nodes))
        with progress("trying layers in float", most_models(arguments.mixed, trials)) as bar:
            mixed = keep_worst_in_float(
                model, ranges, pictures, prepared, arguments.mixed, trials, done=bar.advance
            )
        content = mixed.content
    write_file(arguments.output, content)
    with progress("comparing", len(pictures)) as bar:
        found = compare_layers(
            model, arguments.output, pictures, prepared, with_layers=False, done=bar.advance
        )
    from delegate.compile.compiler import compile_model

    compiled = compile_model(arguments.output, options)
    made = _Quantized(
        arguments.model,
        arguments.output,
        model,
        prepared,
        calibration.share,
        found,
        mixed,
        compiled,
    )
    answer(arguments, _document(made), lambda: _print(made))
    return 0


def _left(compiled: CompileResult) -> list[tuple[int, str, str]]:
    """Return what the CPU keeps: how many nodes of which operator by which rule."""
    counted = Counter((rejection.op, rejection.rule) for rejection in compiled.rejections)
    return [(count, op, rule) for (op, rule), count in counted.most_common()]


def _document(made: _Quantized) -> dict[str, Any]:
    kept, mixed, compiled = None, made.mixed, made.compiled
    if mixed is not None:
        kept = {
            "int8_mean_snr_db": mixed.int8_db,
            "mixed_mean_snr_db": mixed.mixed_db,
            "tried": len(mixed.tried),
            "kept": [
                {"layer": unit.layer, "ops": _operators(made.model, unit.nodes)}
                for unit in mixed.kept
            ],
        }
    return {
        "output": str(made.output),
        "bytes": made.output.stat().st_size,
        "preparation": str(made.prepared),
        "range_share": made.range_share,
        **outputs_document(made.accuracy),
        "mixed": kept,
        "npu": {
            "delegated_nodes": compiled.delegated_nodes,
            "total_nodes": compiled.total_nodes,
            "partitions": len(compiled.partitions),
            "left_to_cpu": [
                {"nodes": count, "op": op, "rule": rule} for count, op, rule in _left(compiled)
            ],
        },
    }


def _operators(model: FloatModel, nodes: frozenset[int]) -> list[str]:
    return [model.graph.node(node).op for node in sorted(nodes)]


def _print(made: _Quantized) -> None:
    compiled = made.compiled
    whole = compiled.delegated_nodes == compiled.total_nodes and len(compiled.partitions) == 1
    sizes = [path.stat().st_size for path in (made.source, made.output)]
    print_pairs(
        ("float model", f"{made.source}, {thousands(sizes[0])} bytes"),
        ("pictures", f"{made.accuracy.pictures}: {made.prepared}"),
        ("ranges", f"of {made.range_share:.0%} of the pictures' extremes, the best of those tried"),
        ("int8 model", f"{made.output}, {thousands(sizes[1])} bytes"),
        (
            "on the NPU",
            f"{compiled.delegated_nodes} of {plural(compiled.total_nodes, 'node')} in "
            f"{plural(len(compiled.partitions), 'partition')}{': whole' if whole else ''}",
        ),
    )
    headings = ("nodes", "op", "rule (docs/supported_operators.md)")
    print_table("left to the CPU:", headings, _left(compiled), right=(0,))
    print_outputs(made.accuracy)
    if made.mixed is not None:
        _print_mixed(made.model, made.mixed)


def _print_mixed(model: FloatModel, mixed: MixedModel) -> None:
    print(
        f"\nin float: {len(mixed.kept)} of {len(mixed.tried)} results tried; mean SNR of the "
        f"outputs {decibels(mixed.int8_db)} dB in int8 alone, {decibels(mixed.mixed_db)} dB mixed"
    )
    rows = [
        (decibels(unit.mean_db), ", ".join(_operators(model, unit.nodes)), unit.layer)
        for unit in mixed.kept
    ]
    headings = ("alone dB", "operators", "result of layer")
    print_table("in float:", headings, rows, right=(0,), last="elide")


COMMAND = Command(
    _run,
    f"""
quantize: Make an int8 model of a float model, calibrated by pictures (ai-edge-quantizer).

model FLOAT.tflite:path  a float model
{picture_rows("like those that the model will see; 20 to 200 are enough")}
:
-o INT8.tflite:path!  write the int8 model there
--mixed N:positive?  keep up to N results of layers in float, with the layers that make and read
  them, which the NPU computes in fp16: those by which the outputs gain most (default {_UNITS})
--trials N:positive=48  how many results --mixed tries (default 48)

quantize float.tflite photographs/ -o int8.tflite
quantize float.tflite photographs/ -o int8.tflite --mean 0 --std 255
quantize float.tflite photographs/ -o mixed.tflite --mixed 2 --json
""",
    odd={**ODD_DECODERS, "-o": {"dest": "output"}, "--mixed": {"const": _UNITS}},
    takes_options=True,
)
