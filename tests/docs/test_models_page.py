"""The numbers of docs/models.md are those that the compiler's estimate gives."""

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
"""The share by which a number of the page may be off: better tilings need no new page."""


def numbers(cells: str) -> list[float]:
    return [float(end) for cell in cells.split(" | ") for end in cell.split(" to ")]


def row(name: str) -> list[float]:
    """Return what the page says of a model: ms by driver, ms on the CPU, tasks."""
    result = compile_model(MODELS / f"{name}.tflite", Options.from_mapping({}, {}))
    whole, found = whole_inference(result), costs(result)
    ranges = [whole["by_driver"][driver]["range_us"] for driver in ("rocket", "rknpu")]
    return [
        *(us / 1e3 for pair in ranges for us in pair), whole["cpu_us"] / 1e3, found["tasks"],
        found["without_macs"]["tasks"],
    ]  # fmt: skip


@needs_models
@pytest.mark.parametrize(("name", "cells"), ROWS, ids=[name for name, _ in ROWS])
def test_numbers_of_the_page_are_the_estimates(name: str, cells: str, weighs: None) -> None:
    assert numbers(cells) == pytest.approx(row(name), rel=TOLERANCE, abs=0.011)


def test_what_the_page_says_follows_from_its_numbers() -> None:
    table = {name: numbers(cells) for name, cells in ROWS}
    yolo, small = table["yolov8n_640_int8_per_channel"], table["yolov8n_224_int8"]
    assert yolo[6] / yolo[5] < 0.2
    assert 0.2 < small[2] / yolo[2] < 0.3
    assert 0.3 < small[0] / yolo[0] < 0.5
    pair = [table[f"mobilenet_v2_1.0_224_{kind}"] for kind in ("quant", "int8_per_channel")]
    assert pair[0] == pytest.approx(pair[1], rel=0.02, abs=0.011)
