"""Generated files are written into folders that exist: no word becomes one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "code"), [(("--help",), 0), ((), 2), (("--tree",), 2), (("below",), 2)]
)
def test_no_folder_is_made_outside_of_a_source_tree(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "delegate.chip.export", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert code == 0 or "error: " in done.stderr
