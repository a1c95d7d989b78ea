"""Compiles what tests need of this tree's C++, once for all of them: the stand-in kernel and the
emulated board's NPU.

``python -m tests.builds`` builds both. tools/alone.py does so for its copy, which has the same
sources, and hands them over in the environment.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.board.__main__ import CACHE

ROOT = Path(__file__).resolve().parents[1]
STANDIN, NPU = "RK3588_STANDIN", "RK3588_NPU_PROCESS"
"""Folders that tools/alone.py has built."""


def build_standin(
    folder: Path = ROOT / "build" / "standin", target: str = "standin_kernel", **defines: str
) -> Path:
    """Builds the stand-in kernel and returns its folder."""
    sources = ROOT / "tests" / "kernel" / "standin"
    if not defines and STANDIN in os.environ:
        return Path(os.environ[STANDIN])
    return _build(sources, folder, target, **defines)


def build_npu() -> Path:
    """Builds what emulates the cores, where ``make board`` does, and returns its folder."""
    if NPU in os.environ:
        return Path(os.environ[NPU])
    options = {"RK3588_BOARD": "ON", "RK3588_PYTHON_MODULE": "OFF"}
    return _build(ROOT, CACHE / "build-npu", "npu_process", **options) / "tools/board/native"


def tool(name: str) -> str | None:
    """A build tool of this environment or of the system."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def _build(sources: Path, folder: Path, target: str, **defines: str) -> Path:
    """Skips the test where there is no compiler."""
    cmake, ninja = tool("cmake"), tool("ninja")
    if cmake is None or ninja is None or shutil.which("c++") is None:
        pytest.skip(f"no cmake, ninja or C++ compiler to build {target} with")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several pytest processes
        configure = [cmake, "-S", str(sources), "-B", str(folder), "-G", "Ninja"]
        configure.append(f"-DCMAKE_MAKE_PROGRAM={ninja}")
        configure += [f"-D{key}={value}" for key, value in defines.items()]
        for command in (configure, [cmake, "--build", str(folder), "--target", target]):
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


if __name__ == "__main__":
    for variable, build in ((STANDIN, build_standin), (NPU, build_npu)):
        print(f"{variable}={build()}")
