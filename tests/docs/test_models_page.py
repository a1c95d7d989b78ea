"""The numbers of docs/models.md are those that the compiler's estimate gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from delegate.compile.compiler import compile_model
from delegate.insight.compile_report.advice import costs
from delegate.insight.compile_report.whole_inference import whole_inference
from delegate.options import Options
from tests.shared_folder import MODELS, needs_models

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w[\w.]*)` \| (.*) \|$", PAGE, re.MULTILINE)
TOLERANCE = 0.05
"""Of a number of the page: a better tiling is no reason to write the page anew."""


def numbers(cells: str) -> list[float]:
    return [float(cell) for cell in cells.split(" | ")]


@needs_models
@pytest.mark.parametrize(("name", "cells"), ROWS, ids=[name for name, _ in ROWS])
def test_numbers_of_the_page_are_the_estimates(name: str, cells: str) -> None:
    result = compile_model(
        MODELS / f"{name}.tflite", Options.from_mapping({"numerics": "exact"}, {})
    )
    whole, found = whole_inference(result), costs(result)
    expected = [
        whole["total_us"] / 1e3, whole["cpu_us"] / 1e3, found["tasks"],
        found["without_macs"]["tasks"], found["without_macs"]["us"] / 1e3,
    ]  # fmt: skip
    assert numbers(cells) == pytest.approx(expected, rel=TOLERANCE, abs=0.011)


def test_what_the_page_says_follows_from_its_numbers() -> None:
    table = {name: numbers(cells) for name, cells in ROWS}
    yolo = table["yolov8n_640_int8_per_channel"]
    assert yolo[4] / yolo[0] > 0.2
    assert 0.2 < table["yolov8n_224_int8"][0] / yolo[0] < 0.3
    pair = [table[f"mobilenet_v2_1.0_224_{kind}"][0] for kind in ("quant", "int8_per_channel")]
    assert pair[0] == pytest.approx(pair[1], rel=0.02)
