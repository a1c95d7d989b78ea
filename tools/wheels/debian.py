"""A Debian package per machine from its wheels: one for every release whose Python is 3.10 to 3.13.

Wheels of one machine differ in the Python module's file only, whose name says for which Python it
is, so all of them lie side by side where Debian's Python looks for packages.
"""

from __future__ import annotations

import configparser
import tempfile
import zipfile
from pathlib import Path

from delegate import __version__
from tools.board.packages import run
from tools.wheels.build import PROJECT

NAME = "rk3588-delegate"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PACKAGES = Path("usr/lib/python3/dist-packages")
_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Section: libs
Priority: optional
Maintainer: {name} <{name}@localhost>
Depends: libc6 (>= 2.28), python3 (>= 3.10), python3 (<< 3.14), python3-numpy, python3-flatbuffers
Recommends: python3-pil
Installed-Size: {kilobytes}
Description: TensorFlow Lite external delegate for the NPUs of RK3588 and RK3576
 The library that TensorFlow Lite's hosts load, in C, C++, GStreamer, Frigate and
 Python, and the command rk3588-delegate. Commands that run models need a
 runtime, tflite-runtime or ai-edge-litert, which Debian does not have: install
 it with pip.
"""
_SCRIPT = """\
#!/usr/bin/python3
import sys

from {module} import {function}

sys.exit({function}())
"""
_MAINTAINER_SCRIPT = """\
#!/bin/sh
set -e
if command -v {program} > /dev/null; then {program} -p {name}; fi
"""


def build_deb(machine: str, wheels: list[Path], folder: Path) -> Path:
    """Writes the package of one machine's ``wheels`` into ``folder``."""
    architecture = ARCHITECTURES[machine]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        packages = root / _PACKAGES
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(packages)
        information = next(packages.glob("*.dist-info"))
        # Both are about one wheel, and what apt installed is not pip's to remove.
        for left_out in ("RECORD", "WHEEL"):
            (information / left_out).unlink()
        (information / "INSTALLER").write_text("debian\n")
        _write_scripts(information / "entry_points.txt", root / "usr/bin")
        documents = root / "usr/share/doc" / NAME
        documents.mkdir(parents=True)
        (documents / "copyright").write_bytes((PROJECT / "LICENSE").read_bytes())
        (documents / "changelog").write_bytes((PROJECT / "CHANGELOG.md").read_bytes())
        library = root / f"usr/lib/{machine}-linux-gnu/librk3588_delegate.so"
        library.parent.mkdir(parents=True)
        library.symlink_to(f"../python3/dist-packages/delegate/{library.name}")
        _write_control(root, architecture)
        for path in root.rglob("*"):
            if not path.is_symlink():
                is_run = path.is_dir() or path.parent.name in ("bin", "DEBIAN")
                # The keeper executes the library (docs/reliability.md).
                is_run = (is_run and path.name != "control") or path.suffix == ".so"
                path.chmod(0o755 if is_run else 0o644)
        root.chmod(0o755)
        target = folder / f"{NAME}_{__version__}_{architecture}.deb"
        run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(target)])
    return target


def _write_scripts(entry_points: Path, folder: Path) -> None:
    """Writes the commands of the wheel's metadata."""
    parser = configparser.ConfigParser()
    parser.read_string(entry_points.read_text())
    folder.mkdir(parents=True)
    for name, place in parser["console_scripts"].items():
        module, _, function = place.partition(":")
        (folder / name).write_text(_SCRIPT.format(module=module, function=function))


def _write_control(root: Path, architecture: str) -> None:
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    control = root / "DEBIAN"
    control.mkdir()
    (control / "control").write_text(
        _CONTROL.format(
            name=NAME, version=__version__, architecture=architecture, kilobytes=size // 1024
        )
    )
    for script, program in (("postinst", "py3compile"), ("prerm", "py3clean")):
        (control / script).write_text(_MAINTAINER_SCRIPT.format(program=program, name=NAME))
