"""The commands that README and the pages show, and a folder in which they can run."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.cli.odd_models import constant_detector
from tests.quantization.float_models import chain

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PROGRAM = "rk3588-delegate "
DIGITS = ROOT / "models" / "digits"

# Names in the pages, by what stands in for them: a classifier, a detector of three classes, ...
CLASSIFIERS = (
    "model.tflite", "m.tflite", "MODEL", "mobilenet_v1_1.0_224_quant.tflite",
    "ssdlite_mobiledet_coco_qat_postprocess.tflite",
)  # fmt: skip
DETECTORS = ("ssd_mobilenet_v1.tflite", "ssd.tflite", "yolov8n.tflite", "yolox_nano.tflite")
PICTURES = ("cat.jpg", "street.jpg")
DETECTOR_LABELS = ("coco_labels.txt", "coco80.txt", "coco90.txt")


def blocks(page: Path) -> Iterator[str]:
    """Lines of the page's code blocks, continued lines joined, prompts and comments removed."""
    fenced = False
    joined = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            continue
        if not fenced and not line.startswith("    "):
            continue
        text = joined + line.strip().removeprefix("$ ")
        joined = text.removesuffix("\\") if text.endswith("\\") else ""
        if not joined:
            yield re.sub(r"\s+#\s.*$", "", text)


def shown(page: Path) -> list[str]:
    """The commands of this project in the page's code blocks, in order, without the program's name
    and without what is in square brackets: an optional part."""
    found = [line.removeprefix(PROGRAM) for line in blocks(page) if line.startswith(PROGRAM)]
    return [re.sub(r"\s*\[[^]]*\.\.\.\]$", "", line) for line in found]


def mentioned(page: Path) -> list[str]:
    """The commands in running text, as ``shown``; the bare word COMMAND is no command."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(rf"`{PROGRAM}([^`]+)`", text)
    return [re.sub(r"\s*\[[^]]*\]", "", line) for line in found if line != "COMMAND"]


def other_programs(page: Path) -> list[list[str]]:
    """Return what the page's code blocks call besides: make, pytest, nox, python -m, scripts."""
    starts = ("make ", "pytest ", "nox ", "python -m ", "tools/")
    return [line.split() for line in blocks(page) if line.startswith(starts)]


def words_of(command: str) -> tuple[list[str], str | None]:
    """Words as a shell makes them, patterns not yet replaced, and the file that > names."""
    words = shlex.split(command)
    if len(words) >= 2 and words[-2] == ">":
        return words[:-2], words[-1]
    return words, None


def furnish(folder: Path) -> None:
    """Makes the files that the pages name."""
    digit = DIGITS / "images" / "digit_7.png"
    for name in CLASSIFIERS:
        shutil.copy(DIGITS / "digits_int8.tflite", folder / name)
    for name in DETECTORS:
        (folder / name).write_bytes(constant_detector())
    from PIL import Image

    with Image.open(digit) as image:
        for name in PICTURES:
            image.convert("RGB").save(folder / name)
    shutil.copy(DIGITS / "labels.txt", folder / "labels.txt")
    shutil.copy(ROOT / "benchmarks/cpu_rates_x86.json", folder / "rates.json")
    for name in DETECTOR_LABELS:
        (folder / name).write_text("ant\nbee\ncat\n")
    for name in ("photographs", "imagenet", "coco"):
        (folder / name).mkdir()
        for number in (3, 7):
            shutil.copy(
                DIGITS / "images" / f"digit_{number}.png", folder / name / f"{number}_x.png"
            )
            if name == "coco":
                (folder / name / f"{number}_x.txt").write_text("1 0.5 0.25 0.5 0.25\n")
    for name in ("float.tflite", "int8.tflite"):  # of which the second stands for a quantised one
        (folder / name).write_bytes(chain())
    (folder / "explorer").mkdir()
    (folder / "config").mkdir()
    (folder / ".local/share/bash-completion/completions").mkdir(parents=True)
    (folder / "models").symlink_to(ROOT / "models")
    rng = np.random.default_rng(0)
    np.save(folder / "input.npy", rng.integers(-128, 128, (1, 32, 32, 1), np.int8))
