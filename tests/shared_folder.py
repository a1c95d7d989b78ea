"""Gives tests the folder beside the repository, or what stands in where it is absent.

Nothing else in ``tests`` knows where that folder is. ``make test`` runs the whole suite in a copy
of the tree that has none (``tools/alone.py``), and here the tests that read it (``-m shared``).
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.networks import mobilenet_v1, mobilenet_v2, yolo_like

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = SHARED / "models"
DIGITS = Path(__file__).resolve().parents[1] / "models" / "digits" / "digits_int8.tflite"
OWN = Path(__file__).resolve().parents[1] / "build" / "own_models"
RECORDED = Path(__file__).parent / "captures" / "recorded"

NETWORKS = {
    "own_mobilenet_v1": mobilenet_v1, "own_mobilenet_v2": mobilenet_v2, "own_yolo": yolo_like,
}  # fmt: skip

LARGE_BYTES = 2 << 20

needs_models = pytest.mark.skipif(
    not MODELS.is_dir(), reason=f"no public models: {MODELS} does not exist"
)


def model_files(*folders: str) -> list[Path]:
    """The .tflite files of ``folders`` below the models folder ("." for the whole models)."""
    return sorted(file for folder in folders for file in (MODELS / folder).glob("*.tflite"))


def small_first(paths: list[Path]) -> list[Any]:
    """The models, for ``parametrize``; ``make nightly`` runs the large ones. They have the same
    operators as the small ones, and more pixels and channels.
    """
    return [_parameter(path, path.stat().st_size <= LARGE_BYTES) for path in paths]


def some_of(paths: list[Path], every: int) -> list[Any]:
    """The models, for ``parametrize``; ``make nightly`` runs those between every so many."""
    return [_parameter(path, number % every == 0) for number, path in enumerate(paths)]


def _parameter(path: Path, is_ordinary: bool) -> Any:
    return pytest.param(path, id=path.stem, marks=() if is_ordinary else (pytest.mark.exhaustive,))


def stream_files() -> list[Path]:
    """Programs of tables, maxima and products with expected bytes; none without the folder."""
    return sorted((SHARED / "streams").glob("*.npz"))


def whole_models() -> list[Path]:
    """Public whole models; without them our own: a trained one, and random ones of real shapes."""
    return model_files(".") or [DIGITS, *_networks()]


def _networks() -> list[Path]:
    OWN.mkdir(parents=True, exist_ok=True)
    files = []
    for name, build in NETWORKS.items():
        content = build(np.random.default_rng(1), 64, 96, width=0.25, classes=7)
        files.append(OWN / f"{name}.tflite")
        if not files[-1].is_file() or files[-1].read_bytes() != content:
            own = files[-1].with_suffix(f".{os.getpid()}")  # several processes may do the same
            own.write_bytes(content)
            own.replace(files[-1])
    return files


def capture_files() -> list[Path]:
    """All captures of another driver; the selection of this repository where there is no other."""
    captures = sorted((SHARED / "captures").glob("*.npz")) or sorted(RECORDED.glob("*.npz"))
    assert captures, RECORDED
    return captures
