"""Generated files are what the modules say, and are written only into folders that exist."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.processes import python
from tools.generate.__main__ import FILES

ROOT = Path(__file__).resolve().parents[2]


def generate(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return python("-m", "tools.generate", *arguments, cwd=folder, timeout=120, env=environment)


@pytest.mark.parametrize("path", FILES)
def test_a_generated_file_is_fresh(path: str) -> None:
    stale = f"{path} is stale: run python -m tools.generate"
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path](), stale


def test_all_files_are_written(tmp_path: Path) -> None:
    done = generate(str(tmp_path), folder=ROOT)
    assert done.returncode == 0, done.stderr
    for path in FILES:
        assert (tmp_path / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code"), [(("--help",), 0), ((), 2), (("--tree",), 2), (("below",), 2)]
)
def test_no_folder_is_made_outside_of_a_source_tree(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    done = generate(*arguments, folder=tmp_path)
    assert done.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert code == 0 or "error: " in done.stderr
