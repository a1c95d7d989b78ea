"""Wheels, the source distribution and Debian packages, compiled on this machine for each other one.

zig of PyPI's ziglang is compiler, linker and C library in one. Of each Python it needs the headers
only; those of one machine serve for the other (docs/hosts.md). Wheels are built from the source
distribution, so that it is known to hold all that a build needs. A folder per machine keeps what
does not depend on Python: of the second wheel only the module is compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tools.board.packages import UnavailableError, run

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "build/wheels/source"
"""The source distribution, unpacked."""
GLIBC = "2.28"
"""The oldest C library that wheels are for: Debian 10's, RHEL 8's."""


def environment_for(version: str) -> dict[str, str]:
    """Makes ``pythonX.Y`` start where it is one of pyenv's shims, which start what this names."""
    return {**os.environ, "PYENV_VERSION": version}


def find_python(version: str) -> str:
    """Returns the path of this machine's Python X.Y."""
    command = [f"python{version}", "-c", "import sys; print(sys.executable)"]
    try:
        done = subprocess.run(
            command, env=environment_for(version), capture_output=True, text=True, check=False
        )
    except OSError:
        done = None
    if done is None or done.returncode != 0:
        raise UnavailableError(
            f"a wheel for Python {version} needs its headers: install it (apt, pyenv or uv, so "
            f"that python{version} starts), or name other versions with --pythons"
        )
    return done.stdout.strip()


def find_headers(python: str) -> str:
    """Returns the folder of the headers of a Python: CMake looks for them in other places first."""
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    folder = run([python, "-c", code]).strip()
    if not (Path(folder) / "Python.h").exists():
        raise UnavailableError(f"{python} has no headers ({folder}/Python.h): install them")
    return folder


def platform_tag(machine: str) -> str:
    """Returns the last part of a wheel's name."""
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def python_tag(version: str) -> str:
    """Returns cp311 for 3.11."""
    return f"cp{version.replace('.', '')}"


def find_wheel(folder: Path, machine: str, version: str) -> Path:
    """Returns the wheel for a machine and a Python."""
    tag = python_tag(version)
    found = sorted(folder.glob(f"*-{tag}-{tag}-{platform_tag(machine)}.whl"))
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} wheels for {machine} and Python {version}")
    return found[0]


def find_sdist(folder: Path) -> Path:
    """Returns the source distribution."""
    found = sorted(folder.glob("*.tar.gz"))
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} source distributions")
    return found[0]


def unpack_sdist(archive: Path, folder: Path) -> None:
    """Makes ``folder`` what ``archive`` holds; files that are the same stay untouched for ninja."""
    held: set[Path] = set()
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is None:
                continue
            path = folder.joinpath(*Path(member.name).parts[1:])
            held.add(path)
            new = content.read()
            if not path.exists() or path.read_bytes() != new:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(new)
    for path in folder.rglob("*"):
        if path.is_file() and path not in held:
            path.unlink()


def build_wheel(machine: str, version: str, folder: Path) -> None:
    """Builds one wheel into ``folder`` from the source distribution that was built last."""
    import ziglang

    tag = python_tag(version)
    suffix = f".cpython-{tag.removeprefix('cp')}-{machine}-linux-gnu.so"
    python = find_python(version)
    # What CMake found of the Python before is forgotten; what it compiled for it is not used again.
    arguments = [
        "-U*Python*", "-U*PYTHON*", f"-DPython_EXECUTABLE={python}",
        f"-DPython_INCLUDE_DIR={find_headers(python)}",
        "-DPYBIND11_USE_CROSSCOMPILING=ON", f"-DPYTHON_MODULE_EXTENSION={suffix}",
        "-DPYTHON_MODULE_DEBUG_POSTFIX=", "-DPYTHON_IS_DEBUG=OFF",
        # The module would be compiled again with what all wheels share.
        "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF",
        f"-DRK3588_ZIG={Path(ziglang.__file__).with_name('zig')}",
        f"-DRK3588_TARGET={machine}-linux-gnu.{GLIBC}",
    ]  # fmt: skip
    settings = {
        "build-dir": SOURCE.with_name(machine),
        "cmake.toolchain-file": SOURCE / "tools/wheels/zig.cmake",
        # Those of the Python that runs this are not meant.
        "cmake.python-hints": "false",
        "cmake.args": ";".join(arguments),
        "wheel.tags": f"{tag}-{tag}-{platform_tag(machine)}",
    }
    words = [f"-C{key}={value}" for key, value in settings.items()]
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder),
         *words, str(SOURCE)])  # fmt: skip


def build_sdist(folder: Path) -> None:
    """Builds the source distribution into ``folder``, in the place of any other, and unpacks it."""
    for other in folder.glob("*.tar.gz"):
        other.unlink()
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder),
         str(PROJECT)])  # fmt: skip
    unpack_sdist(find_sdist(folder), SOURCE)
