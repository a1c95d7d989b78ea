"""The site builds without a warning, and its generated pages are what the code says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from delegate.cli.command_page import PAGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="MkDocs Material is not installed"
)
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert "WARNING" not in outcome.stderr
    assert (tmp_path / "site" / "tutorial.html").is_file()


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_fresh(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), (
        f"{name} is stale: run python -m delegate.cli.command_page"
    )
