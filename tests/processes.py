"""Python in a process of its own, as its users start it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def python(
    *words: object, cwd: Path = ROOT, timeout: float = 300, check: bool = False, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Its end, whatever that is, and what it wrote."""
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, timeout=timeout, check=check,
        capture_output=True, text=True, **more,
    )  # fmt: skip
