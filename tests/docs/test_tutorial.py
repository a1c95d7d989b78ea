"""Every command of the tutorial runs, in order, in a folder that holds what a clone holds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_folder import needs_models

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


@needs_models  # one of the commands fetches a public model
def test_every_command_of_the_tutorial_runs(tmp_path: Path) -> None:
    pictures = pytest.importorskip("PIL.Image")
    assert len(COMMANDS) >= 11
    (tmp_path / "models").symlink_to(ROOT / "models")
    program = tmp_path / "bin" / "rk3588-delegate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m delegate "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join(
            [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
    }
    for command in COMMANDS:
        outcome = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert outcome.returncode == 0, f"{command}\n{outcome.stdout}{outcome.stderr}"
    made = {path.name for path in (home / "tutorial").iterdir()}
    assert {"digits.csv", "boxes.png", "report.html", "bench.json", "trace.json"} <= made
    with pictures.open(home / "tutorial" / "boxes.png") as drawn:
        assert min(drawn.size) >= 400
    assert {path.name for path in tmp_path.iterdir()} == {"models", "bin", "home"}
