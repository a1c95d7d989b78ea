"""The README is short, its links lead somewhere, and what runs is said on its page."""

import re
from pathlib import Path

import pytest

from delegate.chip.chips import DEFAULT
from delegate.insight.compile_report.whole_inference import NETWORKS
from delegate.ops import OPERATORS
from tests.docs.test_models_page import ROWS, TOLERANCE, numbers, row
from tests.shared_folder import needs_models

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_WORDS = 900
TIMES = re.findall(
    r"^\| (\w[\w ]*) \| ([\d.]+ to [\d.]+) \| ([\d.]+ to [\d.]+) \| ([\d. to]+),", README, re.M
)
"""Model, ms on rocket, ms on rknpu, ms that others measured."""
FILES = {
    "MobileNetV1 224": "mobilenet_v1_1.0_224_quant",
    "MobileNetV2 224": "mobilenet_v2_1.0_224_int8_per_channel",
    "SSDLite MobileDet 320": "ssdlite_mobiledet_coco_qat_postprocess",
    "YOLOv8n 640": "yolov8n_640_int8_per_channel",
    "YOLOv5n 640": "yolov5n_640_int8_per_channel",
}


def test_it_is_read_in_a_minute() -> None:
    assert len(README.split()) <= MOST_WORDS  # as wc -w counts


def test_it_says_what_is_not_known() -> None:
    evidence = README.partition("## State of evidence")[2].partition("\n## ")[0]
    assert len(re.findall(r"^- ", evidence, re.MULTILINE)) == 3
    assert "No NPU has run this code yet" in evidence


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def shell_lines(text: str) -> list[str]:
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines()]


def test_the_home_page_installs_as_the_readme_does() -> None:
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    steps = shell_lines(README.partition("## On a board")[2].partition("\n## ")[0])
    assert len(steps) == 6
    assert shell_lines(home) == steps


def test_the_picture_is_small() -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert (ROOT / picture).stat().st_size < 100_000


def ends(span: str) -> list[float]:
    return [float(end) for end in span.split(" to ")]


def test_all_models_have_times() -> None:
    assert [name for name, *_ in TIMES] == [*FILES]


@needs_models
@pytest.mark.usefixtures("weighs")
@pytest.mark.parametrize(("name", "rocket", "rknpu", "_"), TIMES)
def test_modelled_times_are_the_estimates(name: str, rocket: str, rknpu: str, _: str) -> None:
    """The numbers of docs/models.md, where it has the model, are held to the estimates."""
    page = dict(ROWS)
    cells = page.get(FILES[name])
    expected, rel = (numbers(cells), 0.0) if cells else (row(FILES[name]), TOLERANCE)
    assert [*ends(rocket), *ends(rknpu)] == pytest.approx(expected[:4], rel=rel, abs=0.06)


@pytest.mark.parametrize(("name", "measured"), [(name, last) for name, _, _, last in TIMES])
def test_times_of_others_are_those_of_the_list(name: str, measured: str) -> None:
    words = name.rsplit(" ", 1)
    (network,) = [n for n in NETWORKS if n.name.startswith(words[0]) and n.name.endswith(words[1])]
    (known,) = [m for m in DEFAULT.rates.measured if m.network == network.name]
    assert {round(known.ms.least, 1), round(known.ms.most, 1)} == set(ends(measured))


def test_every_operator_is_named_and_nothing_else() -> None:
    page = (ROOT / "docs" / "what_runs.md").read_text(encoding="utf-8")
    section = page.partition("## Operators")[2].partition("## ")[0]
    named = set(re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", section))
    with_others = {"BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "CAST"}  # none runs by itself
    assert named == {*OPERATORS, *with_others}
