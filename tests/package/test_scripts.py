"""Tests what benchmarks and tools answer to ``--help``, to a missing and to a damaged file."""

import ast
import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fast_accuracy import Shaken
from delegate.errors import UsageError
from tests.kernel.fork_server import ForkServers
from tools.script import existing_file, existing_folder

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = "/nowhere/some.tflite"

ASKED_FOR_A_MISSING_FILE = {
    "benchmarks/boards.py": (NOWHERE,),
    "benchmarks/chips.py": (NOWHERE,),
    "benchmarks/conversion.py": (NOWHERE,),
    "benchmarks/cpu_kernels.py": ("--verify", NOWHERE),
    "benchmarks/digest.py": (NOWHERE,),
    "benchmarks/dynamic_range.py": (NOWHERE, NOWHERE, "."),
    "benchmarks/fast_accuracy.py": (NOWHERE, "."),
    "benchmarks/float_kernels.py": (NOWHERE,),
    "benchmarks/half_limits.py": (NOWHERE,),
    "benchmarks/run.py": ("--models", NOWHERE),
    "benchmarks/side_by_side.py": (NOWHERE,),
    "benchmarks/start_up.py": (NOWHERE,),
    "benchmarks/three_cores.py": (NOWHERE,),
    "benchmarks/throughput.py": (NOWHERE,),
    "benchmarks/visited.py": None,
    "tools/alone.py": None,
    "tools/board": None,
    "tools/form_page.py": None,
    "tools/generate": (NOWHERE,),
    "tools/known_forms.py": (NOWHERE,),
    "tools/used_forms.py": (NOWHERE,),
    "tools/fuzz_seeds.py": (NOWHERE, "seeds"),
    "tools/lines_for_models.py": (".", "ADD", NOWHERE),
    "tools/mutate_simulator.py": None,
    "tools/wheels": None,
}
"""By what is run by itself; None: it takes no files."""


@functools.cache
def _servers() -> ForkServers:
    return ForkServers(os.environ)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As users run it: benchmarks and packages as modules."""
    if script.startswith("benchmarks/") or not script.endswith(".py"):
        name = script.removesuffix(".py").replace("/", ".")
        return _servers().run(name, arguments, os.environ, 120)
    command = [sys.executable, script, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)


def is_run_by_itself(path: Path) -> bool:
    tests = (node.test for node in ast.parse(path.read_text()).body if isinstance(node, ast.If))
    return any("__name__" in ast.unparse(test) for test in tests)


def test_all_are_known() -> None:
    found = [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tools").glob("*.py")]
    names = {str(path.relative_to(ROOT)) for path in found if is_run_by_itself(path)}
    packages = {str(p.parent.relative_to(ROOT)) for p in (ROOT / "tools").glob("*/__main__.py")}
    assert names | packages == set(ASKED_FOR_A_MISSING_FILE)


@pytest.mark.parametrize("script", ASKED_FOR_A_MISSING_FILE)
def test_help_says_what_it_is_for(script: str) -> None:
    outcome = run(script, "--help")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    path = ROOT / script
    text = ast.get_docstring(
        ast.parse((path / "__main__.py" if path.is_dir() else path).read_text())
    )
    assert text is not None
    assert text in outcome.stdout


@pytest.mark.parametrize(
    "script", [name for name, given in ASKED_FOR_A_MISSING_FILE.items() if given is not None]
)
def test_a_missing_file_is_one_line(script: str) -> None:
    outcome = run(script, *(ASKED_FOR_A_MISSING_FILE[script] or ()))
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    line = outcome.stderr.splitlines()[-1]
    assert "error: " in line
    assert f"{NOWHERE}: no such f" in line
    assert "Traceback" not in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1 or script == "tools/lines_for_models.py"


@pytest.mark.parametrize("script", ["benchmarks/chips.py", "benchmarks/digest.py"])
def test_a_damaged_file_is_one_line(script: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.tflite"
    path.write_bytes(b"\x20\0\0\0TFL3" + bytes(20))
    outcome = run(script, str(path))
    assert outcome.returncode == 2
    assert "Traceback" not in outcome.stderr
    assert str(path) in outcome.stderr.splitlines()[-1]


def test_pictures_are_shaken_alike_by_one_step_at_most() -> None:
    """Both sides get the same, every draw others; no value leaves its type."""
    shaken = Shaken.__new__(Shaken)  # without a model
    for dtype in (np.uint8, np.int8):
        ends = np.iinfo(dtype)
        array = np.array([ends.min, ends.max, 3, 4] * 400, dtype)
        assert shaken._shaken(array) is array
        made = []
        for draw in (1, 2):
            shaken.draw = draw
            made.append(shaken._shaken(array).astype(int))
            assert (shaken._shaken(array.copy()) == made[-1]).all()
            moved = made[-1] - array
            assert {tuple(np.unique(moved[n::4])) for n in range(4)} == {
                (0, 1), (-1, 0), (-1, 0, 1),
            }  # fmt: skip
        assert (made[0] != made[1]).any()
        shaken.draw = 0
    with pytest.raises(UsageError, match="takes float32"):
        shaken._shaken(np.zeros(3, np.float32))


def test_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert existing_file(str(path)) == path
    assert existing_folder(str(tmp_path)) == tmp_path
    for kind, wrong, words in (
        (existing_file, tmp_path, "is a folder"),
        (existing_folder, path, "is no folder"),
        (existing_folder, path.with_name("none"), "no such folder"),
    ):
        with pytest.raises(Exception, match=words):
            kind(str(wrong))


OWN = ("benchmarks", "delegate", "models", "rk3588_conformance", "rk3588_vision", "tests", "tools")


def test_what_functions_import_is_there() -> None:
    """An import in a function fails only when that runs, in the emulated board after minutes."""
    wrong = []
    for path in sorted((ROOT / "tools").rglob("*.py")) + sorted((ROOT / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            if node.col_offset and node.module.split(".")[0] in OWN:
                found = importlib.import_module(node.module)
                lacks = [name.name for name in node.names if not hasattr(found, name.name)]
                wrong += [f"{path.relative_to(ROOT)}: {node.module} has no {n}" for n in lacks]
    assert not wrong
