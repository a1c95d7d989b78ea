"""TensorFlow Lite's C library, as the npm package ``tfjs-tflite-node`` carries it (2.9, x86-64 and
arm64), and the test host built against it.

The package is fetched by name with ``npm pack`` once and kept in ``.cache``; without npm, network
or a C compiler the tests that need it skip and say what is missing.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "hosts"
SOURCE = Path(__file__).with_name("c_host.c")

PACKAGE = "tfjs-tflite-node@0.0.2"
SHA256 = "3be1632328a76a2475e5b6833253763c802c859433becb4d879ee1860e3b5284"
FETCH_SECONDS = 120

FOLDERS = {"x86_64": "linux_amd64", "aarch64": "linux_arm64"}


class UnavailableError(Exception):
    """A tool is missing; the message is for a skip."""


def library_folder() -> Path:
    """The package's ``cc_deps``: headers and a library by architecture. Raises UnavailableError."""
    target = CACHE / PACKAGE
    if not target.is_dir():
        _fetch(target)
    return target / "package" / "cc_deps"


def _fetch(target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError(
            f"the C library comes from npm's {PACKAGE}, and npm is not installed"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        try:
            done = subprocess.run(
                [npm, "pack", "--silent", "--fetch-retries=1", "--fetch-timeout=30000", PACKAGE],
                cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"npm does not answer for {PACKAGE}") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode != 0 or not archives:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UnavailableError(f"npm cannot fetch {PACKAGE}: {reason}")
        if hashlib.sha256(archives[0].read_bytes()).hexdigest() != SHA256:
            raise UnavailableError(f"npm's {PACKAGE} is not the file that these tests know")
        unpacked = Path(folder) / "unpacked"
        with tarfile.open(archives[0]) as archive:
            # Old patch releases of Python have no filters; the content is known by its checksum.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(unpacked, **safely)
        try:
            unpacked.rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise


def build_host(
    output: Path,
    *,
    machine: str = "",
    compiler: str = "",
    flags: tuple[str, ...] = (),
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """Builds the host for ``machine`` (default: this one). Raises UnavailableError."""
    machine = machine or platform.machine()
    if machine not in FOLDERS:
        raise UnavailableError(f"{PACKAGE} has no library for {machine}")
    command = compiler or os.environ.get("CC") or "cc"
    if shutil.which(command, path=environment["PATH"]) is None:
        raise UnavailableError(f"no C compiler: {command} is not installed")
    folder = library_folder()
    libraries = folder / FOLDERS[machine]
    subprocess.run(
        [command, "-O2", "-Wall", "-Werror", f"-I{folder / 'include'}", str(SOURCE), "-o",
         str(output), f"-L{libraries}", "-ltensorflowlite_c", "-lexternal_delegate_obj",
         "-lpthread", f"-Wl,-rpath,{libraries}", *flags],
        check=True, env=environment,
    )  # fmt: skip
    return output


if __name__ == "__main__":  # OUTPUT [FLAG ...]: the host with these flags of the compiler
    build_host(Path(sys.argv[1]), flags=tuple(sys.argv[2:]))
