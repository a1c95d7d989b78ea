"""Checks that the built files do what they should where no compiler is: the README's steps.

On this machine by every Python that has a wheel; for aarch64 in Debian's root file systems under
emulation. There, too: the Debian package, and the commands of the container file for Frigate.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from rk3588_vision.zoo import DownloadError, fetch, read_manifest
from tools.board.packages import UnavailableError, run
from tools.wheels.build import (
    PROJECT,
    environment_for,
    find_python,
    find_sdist,
    find_wheel,
    platform_tag,
)
from tools.wheels.debian import ARCHITECTURES
from tools.wheels.emulation import (
    CACHE,
    SUITES,
    fetch_root,
    find_qemu,
    fresh_root,
    run_steps,
)

README = PROJECT / "README.md"
DOCKERFILE = PROJECT / "packaging/frigate/Dockerfile"
LICENSED_BY_QEMU = "tools/board/native/qemu_npu.c"
PACKAGES = {"delegate", "rk3588_conformance", "rk3588_vision"}
LARGEST_BYTES = 3 << 20
LIBRARIES = {
    "delegate/librk3588_delegate.so",
    "delegate/litert/libLiteRtCompilerPlugin_rk3588.so",
    "delegate/litert/libLiteRtDispatch_rk3588.so",
}
SYSTEM_LIBRARIES = {"libc", "libm", "libdl", "libpthread", "librt"}
"""The libraries that those in a wheel may need: old images have an old libstdc++ or none."""
DEBIAN_NEEDS = ("python3-numpy", "python3-flatbuffers", "python3-pil")
"""The packages that the Debian package depends on and recommends."""
MODEL = "mobilenet_v1_1.0_224_quant"
Step = Callable[[str], AbstractContextManager[None]]


def check(folder: Path, machines: Sequence[str], pythons: Sequence[str], step: Step) -> None:
    """Checks the files in ``folder``; the first that is not right ends the process."""
    with step("names and contents"):
        check_sdist(folder)
        for machine in machines:
            for version in pythons:
                wheel = find_wheel(folder, machine, version)
                check_contents(wheel)
                check_needs(wheel)
                check_tag(wheel, platform_tag(machine))
        for package in folder.glob("*.deb"):
            check_modes(package)
    jobs = {}
    for version in pythons if os.uname().machine in machines else ():
        here = find_wheel(folder, os.uname().machine, version)
        jobs[f"README's steps, {os.uname().machine}, Python {version}"] = partial(
            install_here, here, version
        )
    if "aarch64" in machines:
        with step("packages and wheels for aarch64, qemu"):
            fetch_for_emulation(folder, pythons)
        jobs.update(emulated_jobs(folder, pythons))

    def run_job(title: str) -> None:
        with step(title):
            jobs[title]()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run_job, jobs))


def fetch_for_emulation(folder: Path, pythons: Sequence[str]) -> None:
    """Puts into the cache what ``emulated_jobs`` share."""
    find_qemu()
    for version in (version for version in pythons if version in SUITES):
        fetch_needed(find_wheel(folder, "aarch64", version), version)
        fetch_root(version)
    if "3.11" in pythons:
        fetch_root("3.11", DEBIAN_NEEDS)


def emulated_jobs(folder: Path, pythons: Sequence[str]) -> dict[str, Callable[[], None]]:
    """Returns what is to do in root file systems for aarch64, by its title."""
    jobs: dict[str, Callable[[], None]] = {}
    for version in (version for version in pythons if version in SUITES):
        wheel = find_wheel(folder, "aarch64", version)
        jobs[f"README's steps, aarch64 emulated, Debian {SUITES[version]}"] = partial(
            install_there, wheel, version
        )
    if "3.11" in pythons:
        wheel = find_wheel(folder, "aarch64", "3.11")
        jobs["Debian package, aarch64 emulated"] = partial(install_package, folder)
        jobs["container file for Frigate, its commands, aarch64 emulated"] = partial(
            check_container, wheel
        )
    return jobs


def check_sdist(folder: Path) -> None:
    """Ends the process if the source distribution has the file that is under QEMU's licence."""
    path = find_sdist(folder)
    with tarfile.open(path) as archive:
        names = archive.getnames()
    if any(name.endswith(LICENSED_BY_QEMU) for name in names):
        raise SystemExit(f"{path} has {LICENSED_BY_QEMU}")


def check_contents(wheel: Path) -> None:
    """Ends the process if a wheel lacks a part or has one that is not the product's."""
    with zipfile.ZipFile(wheel) as archive:
        names = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    folders = {name.split("/")[0] for name in names}
    information = {name for name in folders if name.endswith(".dist-info")}
    libraries = sorted(name for name in names if name.endswith(".so"))
    wrong = []
    if folders - information != PACKAGES:
        wrong.append(f"has the folders {', '.join(sorted(folders))}")
    if len(libraries) != 1 + len(LIBRARIES) or not LIBRARIES.issubset(libraries):
        wrong.append(f"has the libraries {libraries}")
    # The keeper of the driver's files executes them (docs/reliability.md).
    wrong += [f"{name} is not executable" for name in libraries if names[name] & 0o111 != 0o111]
    wrong += [
        f"has no {end}"
        for end in ("delegate/py.typed", "delegate/_native.pyi", "licenses/LICENSE")
        if not any(name.endswith(end) for name in names)
    ]
    if wheel.stat().st_size > LARGEST_BYTES:
        wrong.append(f"has {wheel.stat().st_size} bytes")
    if wrong:
        raise SystemExit(f"{wheel.name} {', '.join(wrong)}")


def check_modes(package: Path) -> None:
    """Ends the process if a library in a Debian package is not executable (``check_contents``)."""
    for line in run(["dpkg-deb", "--contents", str(package)]).splitlines():
        if line.endswith(".so") and line.startswith("-") and not line.startswith("-rwxr-xr-x"):
            raise SystemExit(f"{package.name} {line.split()[-1]} is not executable")


def check_needs(wheel: Path) -> None:
    """Ends the process if a library in a wheel needs another than the C library's."""
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        for library in (entry for entry in archive.namelist() if entry.endswith(".so")):
            dynamic = run(["readelf", "-d", archive.extract(library, name)])
            needed = set(re.findall(r"\(NEEDED\).*\[(?!ld-linux)([^].]+)\.so", dynamic))
            if needed - SYSTEM_LIBRARIES:
                raise SystemExit(f"{wheel.name}: {library} needs {', '.join(sorted(needed))}")


def check_tag(wheel: Path, tag: str) -> None:
    """Ends the process if auditwheel finds that a wheel is not what its name says."""
    said = " ".join(run([sys.executable, "-m", "auditwheel", "show", str(wheel)]).split())
    consistent = re.search(r'consistent with the following platform tag: "([^"]+)"', said)
    if consistent is None or not is_older_or_equal(consistent[1], tag):
        raise SystemExit(f"{wheel.name}: auditwheel says: {said}")


def is_older_or_equal(found: str, tag: str) -> bool:
    """Return whether a system that ``tag`` names has what ``found``, such a name, asks for."""
    pattern = r"manylinux_(\d+)_(\d+)_(\w+)"
    parts = [re.fullmatch(pattern, name) for name in (found, tag)]
    if parts[0] is None or parts[1] is None or parts[0][3] != parts[1][3]:
        return False
    return (int(parts[0][1]), int(parts[0][2])) <= (int(parts[1][1]), int(parts[1][2]))


def board_steps() -> str:
    """Returns the shell commands of the README's section for boards."""
    section = README.read_text(encoding="utf-8").partition("## On a board")[2].partition("\n## ")[0]
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    # Without an NPU doctor says so, with exit code 3.
    return "\n".join(f"{x} || test $? = 3" if x.endswith(" doctor") else x for x in lines)


def check_answer(printed: str) -> None:
    """Ends the process if the picture was not classified as the manifest says, on the delegate."""
    expected = read_manifest()[MODEL].expected
    assert expected is not None
    first = re.search(r"score +class +label\n(.*)", printed)
    nodes = f"{expected.delegated_nodes} of {expected.total_nodes} nodes"
    if first is None or not first[1].endswith(expected.top1) or nodes not in printed:
        raise SystemExit(f"the picture is not a {expected.top1} by {nodes}:\n{printed}")


def install_here(wheel: Path, version: str) -> None:
    """Does the README's steps on this machine, in a folder with a wheel."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(wheel, folder)
        (folder / "bin").mkdir()
        (folder / "bin/python3").symlink_to(find_python(version))
        provide_downloads(folder)
        environment = {
            **environment_for(version), "PATH": f"{folder}/bin", "HOME": name,
            "XDG_CACHE_HOME": str(folder / ".cache"), "PIP_ONLY_BINARY": ":all:",
        }  # fmt: skip
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(["/bin/sh", "-ec", board_steps()], cwd=folder, env=environment,
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{wheel.name}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        check_answer(done.stdout)


def provide_downloads(home: Path) -> None:
    """Puts what the steps download into the cache of a user whose home folder is ``home``."""
    cache = home / ".cache/rk3588-delegate/models"
    cache.mkdir(parents=True)
    entries = read_manifest()
    for name in re.findall(r"models fetch ([^-\n]*)", board_steps())[0].split():
        try:
            shutil.copy(fetch(entries[name]), cache)
        except DownloadError as error:
            raise UnavailableError(str(error)) from None


def fetch_needed(wheel: Path, version: str) -> None:
    """Fetches the wheels that a board's pip would take from an index."""
    folder = needed_folder(version)
    if not (folder / ".complete").exists():
        platforms = [f"manylinux_2_{n}_aarch64" for n in range(17, 37)] + ["manylinux2014_aarch64"]
        words = [word for name in platforms for word in ("--platform", name)]
        done = subprocess.run(
            [find_python(version), "-m", "pip", "download", "--quiet", "--only-binary=:all:",
             *words, "--dest", str(folder), str(wheel), "rk3588-delegate[runtime,cli]"],
            env=environment_for(version), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise UnavailableError(f"pip cannot fetch what the wheel needs: {done.stderr[-1000:]}")
        for path in folder.glob("rk3588_delegate-*.whl"):
            path.unlink()
        (folder / ".complete").touch()


def needed_folder(version: str) -> Path:
    """Returns the folder for the wheels that a board's Python needs beside ours."""
    return CACHE / f"needed-{version}"


def prepare_root(purpose: str, version: str, packages: tuple[str, ...] = ()) -> Path:
    """Returns a new root file system whose /work has what the steps find on the network."""
    root = fresh_root(purpose, version, packages)
    shutil.copytree(needed_folder(version), root / "work/needed")
    provide_downloads(root / "root")
    return root


_OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/work/needed", "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "PIP_ROOT_USER_ACTION": "ignore"}  # fmt: skip


def install_there(wheel: Path, version: str) -> None:
    """Does the README's steps in Debian for aarch64."""
    root = prepare_root(f"readme-{version}", version)
    shutil.copy(wheel, root / "work")
    check_answer(run_steps(root, board_steps(), _OFFLINE))


def install_package(folder: Path) -> None:
    """Classifies by the Debian package's command in Debian for aarch64; dpkg is not there."""
    root = prepare_root("package", "3.11", DEBIAN_NEEDS)
    (package,) = folder.glob(f"*_{ARCHITECTURES['aarch64']}.deb")
    run(["dpkg-deb", "-x", str(package), str(root)])
    # Links that the packages' scripts would make: nothing was installed, only unpacked.
    alternatives = ":".join(f"/usr/lib/aarch64-linux-gnu/{name}" for name in ("blas", "lapack"))
    fetch_and_classify = board_steps().partition("doctor")[2].partition("\n")[2]
    printed = run_steps(
        root,
        "python3 -c 'import ctypes; ctypes.CDLL(\"librk3588_delegate.so\")'\n"
        f"pip install --no-deps tflite-runtime\n{fetch_and_classify}",
        {**_OFFLINE, "LD_LIBRARY_PATH": alternatives},
    )
    check_answer(printed)


def check_container(wheel: Path) -> None:
    """Runs what the container file copies and runs; its link must lead to the library."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    root = prepare_root("container", "3.11")
    (root / "opt/frigate/frigate/detectors/plugins").mkdir(parents=True)
    shutil.copy(wheel, root / "tmp")
    commands = [f"export {words}" for words in re.findall(r"^ENV (.*)", text, re.MULTILINE)]
    commands += re.findall(r"^RUN (.*)", text, re.MULTILINE)
    commands.append("readlink -f /usr/lib/teflon/libteflon.so; wc -l opt/frigate/frigate/*/*/*")
    printed = run_steps(root, "cd /\n" + "\n".join(commands), _OFFLINE)
    if "/delegate/librk3588_delegate.so" not in printed or "rk3588.py" not in printed:
        raise SystemExit(f"{DOCKERFILE}: it does not install the library and the plugin: {printed}")
