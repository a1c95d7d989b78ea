"""What tests read from the folder beside the repository, and what stands in where it is absent.

Nothing else in ``tests`` knows where that folder is: ``tools/alone.py`` runs the tests that import
this file again in a copy of the tree that has none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = SHARED / "models"
RECORDED = Path(__file__).parent / "captures" / "recorded"

needs_models = pytest.mark.skipif(
    not MODELS.is_dir(), reason=f"no public models: {MODELS} does not exist"
)


def model_files(*folders: str) -> list[Path]:
    """The .tflite files of ``folders`` below the models folder ("." for the whole models)."""
    return sorted(file for folder in folders for file in (MODELS / folder).glob("*.tflite"))


def stream_files() -> list[Path]:
    """Programs of tables, maxima and products with expected bytes; none without the folder."""
    return sorted((SHARED / "streams").glob("*.npz"))


def capture_files() -> list[Path]:
    """All captures of another driver; the selection of this repository where there is no other."""
    captures = sorted((SHARED / "captures").glob("*.npz")) or sorted(RECORDED.glob("*.npz"))
    assert captures, RECORDED
    return captures
