"""Files of the source tree that follow from its modules: pages and headers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def rewrite(path: Path, text: Callable[[str], str]) -> None:
    """What the module of a generated file does as a program: writes what ``text`` gives from the
    file's old text to ``path`` below the folder named on the command line, by default the current
    one.
    """
    place = Path(*sys.argv[1:2]) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    old = place.read_text(encoding="utf-8") if place.exists() else ""
    place.write_text(text(old), encoding="utf-8")
