"""The site builds without a warning, and its generated pages are what the code says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from delegate.cli import command_page, option_pages

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


def test_the_page_of_commands_is_fresh() -> None:
    path = command_page.PAGE_PATH
    assert (ROOT / path).read_text(encoding="utf-8") == command_page.commands_page(), (
        f"{path} is stale: run python -m delegate.cli.command_page"
    )


@pytest.mark.parametrize("name", option_pages.PAGES)
def test_what_follows_from_the_options_is_fresh(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == option_pages.PAGES[name](text), (
        f"{name} is stale: run python -m delegate.cli.option_pages"
    )
    assert option_pages.options_table() in text or name.endswith(".h")


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in navigation]
    assert not missing
