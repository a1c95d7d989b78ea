"""What ``quantize`` and ``accuracy`` share: how pictures are given, and errors as text and JSON."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from delegate.cli.argument_types import positive_integer
from delegate.cli.detect import add_decoder_arguments
from delegate.cli.pictures import picture_paths
from delegate.cli.table import print_table
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.placement import Fit
from rk3588_vision.quantization.layer_errors import Accuracy, Distance
from rk3588_vision.quantization.picture_input import PictureInput, Wishes


def add_picture_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare PICTURES, ``what`` they are for, and how the model wants them."""
    parser.add_argument(
        "pictures", type=Path, nargs="+", metavar="PICTURES",
        help=f"pictures, or folders of them, {what}",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=positive_integer, metavar="N", help="only the first N pictures"
    )
    add_decoder_arguments(parser)


def pictures_from(arguments: argparse.Namespace) -> list[Path]:
    """Return the files that the arguments name. Raises UsageError where there are none."""
    return picture_paths(arguments.pictures)[: arguments.limit]


def preparation_from(arguments: argparse.Namespace, model: Path) -> PictureInput:
    """Return how pictures become the input of ``model``. Raises ModelError, UsageError."""
    wishes = Wishes(
        hints=Hints(arguments.decoder, None, arguments.anchors),
        fit=None if arguments.fit is None else Fit(arguments.fit),
        mean=arguments.mean,
        std=arguments.std,
        is_bgr=None if arguments.colours is None else arguments.colours == "bgr",
    )
    return PictureInput.of(model, wishes)


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
