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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rk3588_vision.zoo import fetch, read_manifest
from tools.board.packages import UnavailableError, run
from tools.wheels.build import (
    PROJECT,
    environment_for,
    find_python,
    find_wheel,
    platform_tag,
)
from tools.wheels.debian import ARCHITECTURES
from tools.wheels.emulation import CACHE, SUITES, fresh_root, run_steps

README = PROJECT / "README.md"
DOCKERFILE = PROJECT / "packaging/frigate/Dockerfile"
LICENSED_BY_QEMU = "tools/board/native/qemu_npu.c"
MODEL = "mobilenet_v1_1.0_224_quant"
Step = Callable[[str], AbstractContextManager[None]]


def check(folder: Path, machines: Sequence[str], pythons: Sequence[str], step: Step) -> None:
    """Checks the files in ``folder``; the first that is not right ends the process."""
    with step("names and contents"):
        check_sdist(folder)
        for machine in machines:
            for version in pythons:
                check_wheel(find_wheel(folder, machine, version), platform_tag(machine))
    for version in pythons if os.uname().machine in machines else ():
        with step(f"README's steps, {os.uname().machine}, Python {version}"):
            check_answer(install_here(find_wheel(folder, os.uname().machine, version), version))
    if "aarch64" not in machines:
        return
    for version in [version for version in pythons if version in SUITES]:
        wheel = find_wheel(folder, "aarch64", version)
        with step(f"what pip needs there, Python {version}"):
            needed = fetch_needed(wheel, version)
        with step(f"README's steps, aarch64 emulated, Debian {SUITES[version]}"):
            check_answer(install_there(wheel, version, needed))
    if "3.11" in pythons:
        needed = fetch_needed(find_wheel(folder, "aarch64", "3.11"), "3.11")
        with step("Debian package, aarch64 emulated"):
            check_answer(install_package(folder, needed))
        with step("container file for Frigate, its commands, aarch64 emulated"):
            check_container(find_wheel(folder, "aarch64", "3.11"), needed)


def check_sdist(folder: Path) -> None:
    """Ends the process if the source distribution has the file that is under QEMU's licence."""
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = archive.getnames()
    if any(name.endswith(LICENSED_BY_QEMU) for name in names):
        raise SystemExit(f"{path} has {LICENSED_BY_QEMU}")


def check_wheel(wheel: Path, tag: str) -> None:
    """Ends the process if auditwheel finds that a wheel is not what its name says."""
    said = " ".join(run([sys.executable, "-m", "auditwheel", "show", str(wheel)]).split())
    consistent = re.search(r'consistent with the following platform tag: "([^"]+)"', said)
    if consistent is None or not is_older_or_equal(consistent[1], tag):
        raise SystemExit(f"{wheel.name}: auditwheel says: {said}")


def is_older_or_equal(found: str, tag: str) -> bool:
    """Whether a system that ``tag`` names has what ``found``, such a name, asks for."""
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


def install_here(wheel: Path, version: str) -> str:
    """Returns what the README's steps print on this machine, in a folder with a wheel."""
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
        return done.stdout


def provide_downloads(home: Path) -> None:
    """Puts what the steps download into the cache of a user whose home folder is ``home``."""
    cache = home / ".cache/rk3588-delegate/models"
    cache.mkdir(parents=True)
    entries = read_manifest()
    for name in re.findall(r"models fetch ([^-\n]*)", board_steps())[0].split():
        shutil.copy(fetch(entries[name]), cache)


def fetch_needed(wheel: Path, version: str) -> Path:
    """Returns a folder with the wheels that a board's pip would take from an index."""
    folder = CACHE / f"needed-{version}"
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
    return folder


def prepare_root(version: str, needed: Path, *packages: str) -> Path:
    """Returns a new root file system whose /work has what the steps find on the network."""
    root = fresh_root(version, packages)
    shutil.copytree(needed, root / "work/needed")
    provide_downloads(root / "root")
    return root


_OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/work/needed", "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "PIP_ROOT_USER_ACTION": "ignore"}  # fmt: skip


def install_there(wheel: Path, version: str, needed: Path) -> str:
    """Returns what the README's steps print in Debian for aarch64."""
    root = prepare_root(version, needed)
    shutil.copy(wheel, root / "work")
    return run_steps(root, board_steps(), _OFFLINE)


def install_package(folder: Path, needed: Path) -> str:
    """Returns what the Debian package's command prints in Debian for aarch64; dpkg is not there."""
    root = prepare_root("3.11", needed, "python3-numpy", "python3-flatbuffers", "python3-pil")
    (package,) = folder.glob(f"*_{ARCHITECTURES['aarch64']}.deb")
    run(["dpkg-deb", "-x", str(package), str(root)])
    # Links that the packages' scripts would make: nothing was installed, only unpacked.
    alternatives = ":".join(f"/usr/lib/aarch64-linux-gnu/{name}" for name in ("blas", "lapack"))
    fetch_and_classify = board_steps().partition("doctor")[2].partition("\n")[2]
    return run_steps(
        root,
        "python3 -c 'import ctypes; ctypes.CDLL(\"librk3588_delegate.so\")'\n"
        f"pip install --no-deps tflite-runtime\n{fetch_and_classify}",
        {**_OFFLINE, "LD_LIBRARY_PATH": alternatives},
    )


def check_container(wheel: Path, needed: Path) -> None:
    """Runs what the container file copies and runs; its link must lead to the library."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    root = prepare_root("3.11", needed)
    (root / "opt/frigate/frigate/detectors/plugins").mkdir(parents=True)
    shutil.copy(wheel, root / "tmp")
    commands = [f"export {words}" for words in re.findall(r"^ENV (.*)", text, re.MULTILINE)]
    commands += re.findall(r"^RUN (.*)", text, re.MULTILINE)
    commands.append("readlink -f /usr/lib/teflon/libteflon.so; wc -l opt/frigate/frigate/*/*/*")
    printed = run_steps(root, "cd /\n" + "\n".join(commands), _OFFLINE)
    if "/delegate/librk3588_delegate.so" not in printed or "rk3588.py" not in printed:
        raise SystemExit(f"{DOCKERFILE}: it does not install the library and the plugin: {printed}")
