"""Builds what the guest boots: a root file system with Python, a runtime and the product."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.board.packages import fetch

PROJECT = Path(__file__).resolve().parents[2]
_WHEELS = ("tflite-runtime==2.14.0", "numpy<2", "flatbuffers", "pillow")
_PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64",
              "manylinux_2_34_aarch64")  # fmt: skip
# Never needed in the guest, and large.
_LEFT_OUT = (
    "usr/share", "usr/include", "usr/lib/python3.11/test",
    "usr/lib/python3.11/config-3.11-aarch64-linux-gnu", "var",
)  # fmt: skip


def fetch_site(folder: Path) -> None:
    """Wheels for the guest's Python."""
    if (folder / ".complete").exists():
        return
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    fetch([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--target", str(folder), "--only-binary=:all:", "--python-version", "3.11",
         "--implementation", "cp", *platforms, *_WHEELS])  # fmt: skip
    (folder / ".complete").touch()


def make_root(
    folder: Path, packages: Path, site: Path, libraries: Path, modules: list[Path], c_host: Path
) -> None:
    """``packages``: unpacked; ``libraries``: the product's for aarch64; ``modules``: in the order
    of loading; ``c_host``: a folder with the host in C and its libraries, if there is one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(packages, folder, symlinks=True)
    for name in _LEFT_OUT:
        shutil.rmtree(folder / name, ignore_errors=True)
    for library in (folder / "usr/lib/aarch64-linux-gnu").glob("*.a"):
        library.unlink()
    for name in ("bin", "sbin", "lib"):  # one tree below usr, as the loader's path wants it
        own = folder / name
        if own.is_dir() and not own.is_symlink():
            shutil.copytree(own, folder / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(own)
        own.symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "tmp", "run", "root", "host", "app", "modules"):
        (folder / name).mkdir()
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\nrender:x:105:\n")
    (folder / "usr/bin/python3").unlink(missing_ok=True)
    (folder / "usr/bin/python3").symlink_to("python3.11")
    for position, module in enumerate(modules):
        shutil.copy(module, folder / "modules" / f"{position}-{module.name}")
    if c_host.exists():
        shutil.copytree(c_host, folder / "app/c_host")
    shutil.copytree(site, folder / "app/site")
    product = folder / "app/product"
    for name in ("delegate", "rk3588_conformance", "rk3588_vision", "models", "tests", "tools"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(PROJECT / name, product / name, ignore=ignored)
    for library in libraries.glob("*.so"):
        shutil.copy(library, product / "delegate")
    shutil.copy(Path(__file__).with_name("init"), folder / "init")
    (folder / "init").chmod(0o755)


def _entries(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(folders + files):
            yield Path(place) / name


def write_initrd(folder: Path, output: Path) -> None:
    """An archive for the kernel: cpio, format newc, compressed a little."""
    with gzip.open(output, "wb", compresslevel=1) as archive:
        for number, path in enumerate(_entries(folder), 1):
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path).encode()
            else:
                content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            _write_entry(archive, str(path.relative_to(folder)), status.st_mode, number, content)
        _write_entry(archive, "TRAILER!!!", 0, 0, b"")


def _write_entry(archive: gzip.GzipFile, name: str, mode: int, number: int, content: bytes) -> None:
    encoded = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    archive.write(header + b"\0" * (-len(header) % 4))
    archive.write(content + b"\0" * (-len(content) % 4))
