"""Runs programs in an aarch64 Debian root file system, on any Linux: qemu-user and namespaces.

Packages are fetched by apt and unpacked, nothing is installed and no root is needed. A kernel from
6.7 on lets a user's own namespace say which program runs aarch64 binaries; where it does not, the
machine's own setting serves, if there is one (Debian's qemu-user-static or an aarch64 machine).
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

from tools.board.packages import UnavailableError, unpack

PROJECT = Path(__file__).resolve().parents[2]
CACHE = PROJECT / ".cache/wheels"
PACKAGES = ("dash", "coreutils", "libstdc++6", "python3", "python3-pip", "python3-venv")
"""No compiler: what is not a wheel does not install. apt brings libstdc++6 to every Debian."""
SUITES = {"3.11": "bookworm", "3.13": "trixie"}
"""Debian's releases by their Python."""

# The magic number of an aarch64 ELF file of any kind; F: opened here, found behind chroot as well.
_FORMAT = (
    r":aarch64-of-wheels:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{qemu}:F"
)
_EMULATE = r"""
if mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2> /dev/null; then
  printf '%s' {format} > /proc/sys/fs/binfmt_misc/register
fi
"""
_ENTER = r"""
set -e
{emulate}
mount --rbind /proc {root}/proc
mount --rbind /dev {root}/dev
exec chroot {root} /usr/bin/env -i {environment} /bin/sh -e /work/steps.sh
"""


def fetch_root(version: str, more: tuple[str, ...] = ()) -> Path:
    """Returns a cached root file system: Debian's Python ``version`` for aarch64, and ``more``."""
    name = "-".join((version, *more))
    unpacked = CACHE / f"root-{name}"
    unpack((*PACKAGES, *more), unpacked, CACHE / f"apt-{name}", "arm64", suite=SUITES[version])
    return unpacked


def fresh_root(purpose: str, version: str, more: tuple[str, ...] = ()) -> Path:
    """Returns a new copy of such a root, with /work, in a folder named by its purpose."""
    unpacked, root = fetch_root(version, more), PROJECT / f"build/wheels/root-{purpose}"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(unpacked, root, symlinks=True)
    for folder in ("proc", "dev", "tmp", "root", "work", "opt"):
        (root / folder).mkdir(exist_ok=True)
    _complete(root)
    return root


def _complete(root: Path) -> None:
    """Makes what Debian's installer makes, and the packages' scripts: links, and one file of all
    certificates, without which trixie's pip does not start.
    """
    for name in ("bin", "sbin", "lib"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    bundle, given = root / "etc/ssl/certs/ca-certificates.crt", root / "usr/share/ca-certificates"
    if not bundle.exists():
        bundle.parent.mkdir(parents=True, exist_ok=True)
        bundle.write_bytes(b"".join(path.read_bytes() for path in sorted(given.rglob("*.crt"))))


def find_qemu() -> Path:
    """Returns the static qemu-aarch64 of this machine, or of its Debian package."""
    if found := shutil.which("qemu-aarch64-static"):
        return Path(found)
    tools = CACHE / "tools"
    unpack(("qemu-user-static",), tools, CACHE / "apt-tools", _own_architecture())
    return tools / "usr/bin/qemu-aarch64-static"


def _own_architecture() -> str:
    done = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def run_steps(root: Path, steps: str, environment: dict[str, str]) -> str:
    """Runs shell commands in ``root``, in its folder /work, and returns what they print."""
    (root / "work/steps.sh").write_text(f"cd /work\n{steps}\n")
    emulate = ""
    if platform.machine() != "aarch64":
        emulate = _EMULATE.format(format=shlex.quote(_FORMAT.format(qemu=find_qemu())))
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    words = [f"{key}={value}" for key, value in {**variables, **environment}.items()]
    script = _ENTER.format(
        emulate=emulate, root=shlex.quote(str(root)), environment=shlex.join(words)
    )
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if "Exec format error" in done.stderr:
        raise UnavailableError(
            "this kernel runs no aarch64 programs: it takes Linux 6.7, or Debian's package "
            "qemu-user-static installed"
        )
    if done.returncode != 0:
        raise SystemExit(f"in {root}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
