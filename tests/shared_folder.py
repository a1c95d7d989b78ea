"""The folder of public models beside the repository; tests that need it skip where it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = SHARED / "models"

needs_models = pytest.mark.skipif(
    not MODELS.is_dir(), reason=f"no public models: {MODELS} does not exist"
)


def model_files(*folders: str) -> list[Path]:
    """The .tflite files of ``folders`` below the models folder ("." for the whole models)."""
    return sorted(file for folder in folders for file in (MODELS / folder).glob("*.tflite"))
