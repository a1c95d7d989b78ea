"""Runs pytest in a copy of this tree that has no ``../shared`` beside it, as everybody's clone.

    python tools/alone.py [PYTEST OPTIONS]

The copy is what git would commit, with the native library of this environment, in build/alone; its
own environment is this one plus the copy, so that child processes import the copy, too. What tests
compile is compiled here, once. Exit code: pytest's.
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
NATIVE = ("_native*.so", "librk3588_delegate.so", "litert/*.so")
BYTECODE = ROOT / "build" / "bytecode"


def tracked_files() -> list[str]:
    """Return what git has or would add."""
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
    """Return where this environment's native library is: beside the package, or installed."""
    code = "import delegate; print(delegate.library_path())"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return Path(found.stdout.strip()).parent


def make_copy(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for name in tracked_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)  # with its time, which bytecode has
    native = native_folder()
    for pattern in NATIVE:
        for library in native.glob(pattern):
            place = target / "delegate" / library.relative_to(native)
            place.parent.mkdir(exist_ok=True)
            shutil.copy2(library, place)


def make_environment(folder: Path, copy: Path) -> Path:
    """Return a Python that finds the copy and this environment's packages; returns its path."""
    venv.create(folder, clear=True, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    installed = Path(numpy.__file__).parents[1]
    (packages / "alone.pth").write_text(f"{copy}\n{installed}\n", encoding="utf-8")
    return folder / "bin" / "python"


def compiled() -> dict[str, str]:
    """Build what tests compile of the C++ sources here: the copy has the same. Nothing where there
    is no compiler: tests say so.
    """
    command = [sys.executable, "-m", "tests.builds"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if done.returncode == 0)


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
    command = [str(python), "-m", "pytest", *given]
    environment = {
        **os.environ, **compiled(), "PATH": tools, "PYTHONPYCACHEPREFIX": str(BYTECODE)
    }  # fmt: skip
    return subprocess.run(command, check=False, cwd=copy, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
