"""Files of the source tree that follow from its modules: pages and headers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def rewrite(path: Path, text: Callable[[str], str]) -> None:
    """Run the module of a generated file as a program: write what ``text`` gives from the file's
    old text to ``path`` below the folder named on the command line, by default the current one.
    Exits with a line on stderr and code 2 where there is no such folder, or the current one is no
    source tree.
    """
    parser = argparse.ArgumentParser(description=f"Writes {path} anew.")
    parser.add_argument("folder", nargs="?", type=Path, help="default: here, the source tree")
    folder = parser.parse_args().folder
    if folder is None and not Path("pyproject.toml").is_file():
        parser.error("the current folder is no source tree: it has no pyproject.toml")
    if folder is not None and not folder.is_dir():
        parser.error(f"{folder}: no such folder")
    place = (folder or Path()) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    old = place.read_text(encoding="utf-8") if place.exists() else ""
    place.write_text(text(old), encoding="utf-8")
