"""The guest's kernel from the distribution's source package, where no ready image is.

The package comes from Debian's unstable suite where this machine's own has none new enough: the
rocket driver is in Linux from 6.18 on. Nothing is installed, no root.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tools.board.packages import UnavailableError, fetch, run, suite_sources, unpack

PROJECT = Path(__file__).resolve().parents[2]
CONFIGURATION = PROJECT / "tools/board/native/kernel.config"
KASAN_CONFIGURATION = PROJECT / "tools/board/native/kernel_kasan.config"
BUILD_TOOLS = ("flex", "bison", "m4", "bc")
"""Beside make and a C compiler."""
KNOWN = "7.2"
"""The version whose answers docs/driver_answers.md lists; else the newest is taken."""
_OLDEST = (6, 18)
_SUITE = "sid"
_MODULES = (
    "drivers/gpu/drm/drm_shmem_helper.ko", "drivers/gpu/drm/scheduler/gpu-sched.ko",
    "drivers/accel/rocket/rocket.ko",
)  # fmt: skip


def environment(cache: Path) -> dict[str, str]:
    """For make: the unpacked cross compiler, flex and bison before this machine's."""
    roots = [cache / "kernel-tools", cache / "tools"]
    libraries = [str(p) for root in roots for p in (root / "usr/lib").glob("*-linux-gnu")]
    found = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}
    found["PATH"] = ":".join([*(str(root / "usr/bin") for root in roots), os.environ["PATH"]])
    if (roots[0] / "usr/bin/bison").exists():
        found["BISON_PKGDATADIR"] = str(roots[0] / "usr/share/bison")
    if (roots[0] / "usr/bin/m4").exists():
        found["M4"] = str(roots[0] / "usr/bin/m4")
    return found


def make(cache: Path, folder: Path, *arguments: str) -> None:
    """``make`` for arm64 with as many jobs as processors, at the lowest priority."""
    cross = "" if os.uname().machine == "aarch64" else "aarch64-linux-gnu-"
    run(["nice", "-n", "19", "make", "-C", str(folder), f"-j{os.cpu_count()}", "ARCH=arm64",
         f"CROSS_COMPILE={cross}", *arguments], environment(cache))  # fmt: skip


def fetch_source(cache: Path) -> Path:
    """The unpacked source, as the distribution has it."""
    folder = cache / "linux"
    if folder.exists():
        return folder
    state = cache / "apt-kernel"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    configuration = [
        f'Dir::State "{state}/state";', f'Dir::Cache "{state}/cache";',
        f'Dir::State::status "{state}/status";', 'APT::Sandbox::User "";',
    ]  # fmt: skip
    sources = state / "sources.list"
    sources.write_text(suite_sources(_SUITE))
    configuration += [f'Dir::Etc::sourcelist "{sources}";', 'Dir::Etc::sourceparts "/dev/null";']
    (state / "apt.conf").write_text("\n".join(configuration) + "\n")
    apt = {**os.environ, "APT_CONFIG": str(state / "apt.conf")}
    fetch(["apt-get", "-qq", "update"], apt)
    name = _choose(run(["apt-cache", "pkgnames", "linux-source-"], apt).split())
    unpacked = cache / "kernel-source"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir(parents=True)
    done = subprocess.run(["apt-get", "-qq", "download", name], env=apt, cwd=unpacked,
                          capture_output=True, text=True, check=False)  # fmt: skip
    packages = list(unpacked.glob("*.deb"))
    if done.returncode != 0 or not packages:
        raise UnavailableError(f"{name} cannot be fetched: {done.stderr[-500:]}")
    run(["dpkg-deb", "-x", str(packages[0]), str(unpacked)])
    archive = next((unpacked / "usr/src").glob("linux-source-*.tar.*"))
    with tarfile.open(archive) as source:
        source.extractall(unpacked / "tree", filter="tar")
    next((unpacked / "tree").iterdir()).rename(folder)
    shutil.rmtree(unpacked)
    return folder


def _choose(names: list[str]) -> str:
    """``linux-source-7.2`` where that is, else the newest that has the driver."""
    found = {}
    for name in names:
        if match := re.fullmatch(r"linux-source-(\d+)\.(\d+)", name):
            found[int(match[1]), int(match[2])] = name
    known = tuple(map(int, KNOWN.split(".")))
    if known in found:
        return found[known]
    if not found or max(found) < _OLDEST:
        raise UnavailableError(f"no package linux-source from {_OLDEST[0]}.{_OLDEST[1]} on")
    return found[max(found)]


def build_module(cache: Path, kernel: Path, source: Path) -> Path:
    """The vendor's module for a kernel that was built here; ``source``: a folder or an archive with
    a Kbuild."""
    build = kernel / "build"
    if not build.exists():
        raise UnavailableError(f"{kernel} has no build to build the vendor's module with")
    folder = cache / "rknpu"
    shutil.rmtree(folder, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, folder)
    else:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
    place = next(folder.rglob("Kbuild")).parent
    make(cache, build, f"M={place}", "modules")
    return next(place.rglob("*.ko"))


def build_kernel(cache: Path, *, kasan: bool = False, tree: Path | None = None) -> Path:
    """Image, modules and the build's own folder (``build``), once per configuration. The cross
    compiler is in ``cache / "tools"`` or installed. ``tree``: somebody's own source, of which make
    knows what has changed.
    """
    text = CONFIGURATION.read_text() + (KASAN_CONFIGURATION.read_text() if kasan else "")
    folder = cache / ("kernel" + ("-own" if tree else "") + ("-kasan" if kasan else ""))
    mark = folder / ".complete"
    digest = hashlib.sha256(f"{tree or ''}{text}".encode()).hexdigest()
    is_made = mark.exists() and mark.read_text() == digest
    if is_made and tree is None:
        return folder
    missing = tuple(name for name in BUILD_TOOLS if shutil.which(name) is None)
    if missing:
        own = run(["dpkg", "--print-architecture"]).strip()
        unpack(missing, cache / "kernel-tools", cache / "apt-kernel-tools", own)
    source = tree or fetch_source(cache)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.config").write_text(text)
    build = folder / "build"
    build.mkdir(exist_ok=True)
    wanted = f"KCONFIG_ALLCONFIG={folder / 'all.config'}"
    if not is_made:
        make(cache, source, f"O={build}", wanted, "allnoconfig")
    make(cache, source, f"O={build}", "Image", "modules")
    shutil.copy(build / "arch/arm64/boot/Image", folder)
    for module in _MODULES:
        shutil.copy(build / module, folder)
    with contextlib.suppress(OSError):
        mark.write_text(digest)
    return folder
