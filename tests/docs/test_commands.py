"""Every command that README and the pages show runs, or is at least one that the parser takes.

Commands run in this process, in a folder where small models and pictures have the names that the
pages use. What would take minutes runs with smaller numbers, and what needs a board, a network or a
cluster is parsed only; both are listed here.
"""

import glob
import importlib.util
import itertools
import os
import re
import shutil
from pathlib import Path

import pytest

from delegate.cli import COMMANDS, build_parser
from delegate.host.litert import litert_problem
from delegate.host.runtimes import find_runtime
from tests.cli.conftest import Run, run
from tests.docs.shown_commands import (
    PAGES,
    ROOT,
    furnish,
    mentioned,
    other_programs,
    shown,
    words_of,
)
from tests.loops import for_each
from tests.processes import python
from tests.shared_folder import MODELS, SHARED, needs_models

__all__ = ["run"]  # the fixture

pytest.importorskip("PIL")

EXAMPLES = [(page.name, command) for page in PAGES for command in shown(page)]

# What is run instead: the same command with less work, or with names that are at hand.
SMALLER = {
    "conformance --sample 1000": "conformance --sample 1000 --gtest_filter=AddQuant.Op/7",
    "conformance --gtest_filter='Conv2D.*:DepthwiseConv2D.*-*input_size_112*' --jobs 4": (
        "conformance --gtest_filter='Conv2D.*:DepthwiseConv2D.*-*input_size_112*' --jobs 1 "
        "--sample 2"
    ),
    "conformance --gtest_output=json:result.json --device rocket": (
        "conformance --gtest_output=json:result.json --device rocket --gtest_filter=AddQuant.Op/7"
    ),
    "explain captures/partition_0.npz --element 3,10,12": (
        "explain captures/partition_0.npz --element 0,0,7"
    ),
    "explain captures/partition_0.npz --element 3,10,12 --tensor expected_1 --registers": (
        "explain captures/partition_0.npz --element 0,0,7 --tensor expected_0 --registers"
    ),
    "compile ~/tutorial/detector.tflite -O deny_ops=NONE --html ~/tutorial/report.html": (
        "compile yolov8n.tflite --html ~/tutorial/report.html"
    ),
    "detect ~/tutorial/seven.png --model ~/tutorial/detector.tflite --decoder yolov5-grids "
    "--threshold 0.5 --max 3 -O deny_ops=NONE --output ~/tutorial/boxes.png": (
        "detect models/digits/images/digit_7.png --model yolov8n.tflite --threshold 0.5 --max 3 "
        "--output ~/tutorial/boxes.png"
    ),
}
# Elsewhere tested, or impossible here.
PARSED_ONLY = {
    "evaluate coco/ --model yolov8n.tflite --scheduler tcp://10.0.0.2:8786": "a cluster",
    "detect --video street.mp4 --model yolov8n.tflite --output boxes.mp4": "OpenCV",
    "detect --video 0 --model ssd_mobilenet_v1.tflite --every 5 --frames 100": "a camera",
}
HAS_QUANTIZER = importlib.util.find_spec("ai_edge_quantizer") is not None
# Exit codes of commands that ask for an NPU which is not there: nothing passed, or no device.
NPU = {("--device", "rocket"), ("--device", "rknpu")}
WITHOUT_NPU = {"bring-up": 1, "conformance": 1, "doctor": 3}


def parses(command: str) -> None:
    words, _ = words_of(command)
    if words in ([name] for name in COMMANDS):  # in running text: a command as such
        return
    try:
        build_parser().parse_args(words)
    except SystemExit as stop:
        assert stop.code == 0, command


@for_each("page", PAGES)
def test_every_command_is_one_that_the_parser_takes(page: Path) -> None:
    for command in [*shown(page), *mentioned(page)]:
        parses(command)


def test_lists_name_commands_that_are_shown() -> None:
    commands = {command for _, command in EXAMPLES}
    assert set(SMALLER) | set(PARSED_ONLY) <= commands
    assert len(commands) > 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    furnish(made)
    return made


def is_runnable(command: str) -> bool:
    missing = {
        "models fetch": not SHARED.is_dir(),
        "quantize": not HAS_QUANTIZER,
        "bench model.tflite --api compiled-model": bool(litert_problem()),
    }
    return command not in PARSED_ONLY and not any(
        is_missing and command.startswith(start) for start, is_missing in missing.items()
    )


def arguments_of(words: list[str]) -> list[str]:
    """As a shell gives them: patterns of files become the files."""
    return [
        name
        for word in words
        for name in (
            sorted(glob.glob(word))
            if re.search(r"[*?]", word) and "=" not in word
            else [os.path.expanduser(word)]
        )
    ]


def make_what_is_compared(words: list[str]) -> None:
    """bench --compare A B: measurements that an earlier command saved, one of them copied."""
    if "--compare" in words:
        first, second = words[words.index("--compare") + 1 :][:2]
        if Path(first).exists() and not Path(second).exists():
            shutil.copy(first, second)


def test_every_command_runs(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the pages: later commands read what earlier ones wrote."""
    pytest.importorskip("pycocotools")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    if run("doctor", "--device", "rocket", "--no-self-test").code != WITHOUT_NPU["doctor"]:
        pytest.skip("this machine has an NPU, and some of the commands would use it")
    (folder / "tutorial").mkdir(exist_ok=True)
    run("compile", "model.tflite", "--dump", "captures")
    run("compile", "model.tflite", "--dump", "dumps")
    assembled = run("disasm", "captures/partition_0.npz")
    Path("listing.txt").write_text(assembled.out)
    run("disasm", "listing.txt", "--assemble", "stream.bin")
    failures = []
    pages = {command: page for page, command in EXAMPLES}  # once each, in the order of the first
    for command, page in pages.items():
        if not is_runnable(command) or ("grace_hopper" in command and not SHARED.is_dir()):
            continue
        words, target = words_of(SMALLER.get(command, command))
        if "--runs" in words:
            words[words.index("--runs") + 1] = "2"
        if words[0] == "top" and "--count" not in words:
            words += ["--count", "1", "--seconds", "1"]  # and not until it is interrupted
        make_what_is_compared(words)
        outcome = run(*arguments_of(words))
        code = WITHOUT_NPU[words[0]] if NPU & set(itertools.pairwise(words)) else 0
        if outcome.code != code or "internal error" in outcome.err:
            failures.append(f"{page}: {command}: {outcome.code}: {outcome.err[-400:]}")
        if target is not None:
            Path(os.path.expanduser(target)).write_text(outcome.out)
    assert not failures, "\n".join(failures)


README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def output_shown(page: str, first_line: str) -> list[str]:
    """The lines of a page's block that begins so, but for cuts, times and paths."""
    (block,) = re.findall(
        rf"^```\n({re.escape(first_line)}.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    varying = ("...", "$ ", "compiled in", "image ", "model ")
    return [line for line in block.splitlines() if line and not line.startswith(varying)]


@pytest.mark.usefixtures("weighs")
def test_report_in_the_tutorial_is_todays(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("RK3588_DELEGATE_NUMERICS")  # README shows the default
    command = "compile models/digits/digits_int8.tflite"
    printed = run(*command.split()).out.splitlines()
    lines = output_shown(TUTORIAL, f"$ rk3588-delegate {command}")
    assert len(lines) > 6
    assert not [line for line in lines if line not in printed]


@needs_models
def test_classification_in_the_readme_is_todays(run: Run) -> None:
    outcome = run(
        "classify", SHARED / "images" / "grace_hopper.bmp", "--device", "simulator",
        "--model", MODELS / "mobilenet_v1_1.0_224_quant.tflite",
        "--labels", SHARED / "images" / "imagenet_labels.txt",
    )  # fmt: skip
    lines = output_shown(README, "image ")
    assert len(lines) > 8
    assert not [line for line in lines if line not in outcome.out.splitlines()]


def test_python_in_the_readme_runs(tmp_path: Path) -> None:
    """Each block as a program of its own, with whichever runtime is installed; in a folder of its
    own, for other pages fetch models into theirs.
    """
    folder = tmp_path / "pages"
    folder.mkdir()
    furnish(folder)
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    runtime = find_runtime().module.__name__
    printed = []
    for block in blocks:
        program = tmp_path / "program.py"
        program.write_text(block.replace("tflite_runtime.interpreter", runtime))
        outcome = python(
            program, cwd=folder, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert outcome.returncode == 0, outcome.stderr
        printed += outcome.stdout.splitlines()
    assert re.fullmatch(r"0\.\d{3}  7", printed[0])


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOXFILE = (ROOT / "noxfile.py").read_text(encoding="utf-8")


@for_each("page", PAGES)
def test_other_programs_are_given_what_exists(page: Path) -> None:
    """Targets of make, sessions of nox, files of pytest, modules of python, scripts."""
    for program, *words in other_programs(page):
        names = [word for word in words if not word.startswith("-")]
        if program == "make":
            assert all(re.search(rf"^{name}:", MAKEFILE, re.MULTILINE) for name in names), words
        elif program == "nox":
            assert all(f"def {name}(" in NOXFILE for name in names), words
        elif program == "pytest":
            assert names
            assert all((ROOT / name).exists() for name in names), words
        elif program == "python":
            assert importlib.util.find_spec(words[1]) is not None, words
        else:
            assert os.access(ROOT / program, os.X_OK), program
