"""Runs tests in a copy of this tree that has no ``../shared`` beside it, as everybody's clone.

    python tools/alone.py [PYTEST OPTIONS]

The tests that read that folder, and those of rooms whose answers depend on it (commands, package,
documents, conformance), slow ones left out. The copy is what git would commit, with the native
library of this environment, in build/alone; its own environment is this one plus the copy, so that
child processes import the copy, too. Exit code: pytest's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "alone"
ROOMS = ("tests/cli", "tests/conformance", "tests/docs", "tests/package")
NATIVE = ("_native*.so", "librk3588_delegate.so")


def tracked_files() -> list[str]:
    """What git has or would add."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def native_folder() -> Path:
    """Where this environment's native library is: beside the package, or installed."""
    code = "import delegate; print(delegate.library_path())"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return Path(found.stdout.strip()).parent


def make_copy(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for name in tracked_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    native = native_folder()
    for pattern in NATIVE:
        for library in native.glob(pattern):
            shutil.copy(library, target / "delegate")


def make_environment(folder: Path, copy: Path) -> Path:
    """A Python that finds the copy and this environment's packages; returns its path."""
    venv.create(folder, clear=True, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    installed = Path(numpy.__file__).parents[1]
    (packages / "alone.pth").write_text(f"{copy}\n{installed}\n", encoding="utf-8")
    return folder / "bin" / "python"


def tests_of(copy: Path) -> list[str]:
    """Test files that read the folder beside the repository, and the rooms that depend on it."""
    readers = [
        str(path.relative_to(copy))
        for path in sorted((copy / "tests").rglob("test_*.py"))
        if "tests.shared_folder" in path.read_text(encoding="utf-8")
        and not str(path.relative_to(copy)).startswith(ROOMS)
    ]
    return [*ROOMS, *readers]


def main() -> int:
    """Returns pytest's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _, given = parser.parse_known_args()
    copy = FOLDER / "clone"
    make_copy(copy)
    python = make_environment(FOLDER / "environment", copy)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    selection = ["-m", "not slow and not exhaustive", *tests_of(copy)]
    command = [str(python), "-m", "pytest", *given, *selection]
    environment = {**os.environ, "PATH": tools}
    return subprocess.run(command, check=False, cwd=copy, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
