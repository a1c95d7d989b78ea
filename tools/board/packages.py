"""Debian packages without root: fetched by apt into a cache and unpacked there.

The package sources are those of this machine, or those in the file that ``BOARD_SOURCES`` names
(where this machine's have no arm64 packages, as on Ubuntu for x86-64).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HOST_TOOLS = ("qemu-system-arm", "device-tree-compiler")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CROSS_TOOLS = ("g++-aarch64-linux-gnu",)
GUEST_PYTHON = "3.11"
"""Debian 12's."""
GUEST = (
    f"python{GUEST_PYTHON}", f"libpython{GUEST_PYTHON}-dev", f"libpython{GUEST_PYTHON}",
    "busybox-static", "libstdc++6",
)  # fmt: skip


class UnavailableError(Exception):
    """A tool or package is missing; the message names it."""


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    """The output of a command; its whole output is in the error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def fetch(command: list[str], env: dict[str, str] | None = None) -> None:
    """As ``run``; raises UnavailableError if it fails."""
    try:
        run(command, env)
    except SystemExit as error:
        raise UnavailableError(f"what the guest needs cannot be fetched: {error}") from None


def suite_sources(suite: str) -> str:
    """Returns the lines of ``BOARD_SOURCES``, or a suite of the Debian mirror of this machine."""
    if sources := os.environ.get("BOARD_SOURCES"):
        return Path(sources).read_text()
    targets = run(["apt-get", "indextargets", "--format", "$(SITE) $(REPO_URI)"]).splitlines()
    mirrors = [line.split()[1] for line in targets if line.rstrip("/").endswith("/debian")]
    if not mirrors or not _KEYRING.exists():
        raise UnavailableError(
            f"no packages of Debian's {suite}: this machine uses no Debian mirror; BOARD_SOURCES "
            "names a list of package sources that has them"
        )
    return f"deb [signed-by={_KEYRING}] {mirrors[0]} {suite} main\n"


def unpack(
    names: tuple[str, ...], root: Path, state: Path, architecture: str, suite: str = ""
) -> None:
    """Unpacks packages and what they depend on into ``root``, once.

    For another architecture everything that they need comes too; for this machine's what is not
    installed. ``state``: apt's own files; ``suite``: of Debian, by default this machine's.
    """
    mark = root / ".complete"
    if mark.exists() and mark.read_text() == " ".join(names):
        return
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    is_own = architecture == run(["dpkg", "--print-architecture"]).strip()
    status = Path("/var/lib/dpkg/status") if is_own else state / "state/status"
    if not is_own:
        status.touch()
    lines = [
        f'Dir::State "{state}/state";', f'Dir::Cache "{state}/cache";',
        f'Dir::State::status "{status}";', f'APT::Architecture "{architecture}";',
        f'APT::Architectures {{"{architecture}";}};', 'APT::Sandbox::User "";',
    ]  # fmt: skip
    if suite or os.environ.get("BOARD_SOURCES"):
        (state / "sources.list").write_text(suite_sources(suite))
        lines += [
            f'Dir::Etc::sourcelist "{state.resolve() / "sources.list"}";',
            'Dir::Etc::sourceparts "/dev/null";',
        ]
    (state / "apt.conf").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "APT_CONFIG": str(state / "apt.conf")}
    if shutil.which("apt-get") is None:
        raise UnavailableError("the packages come from Debian: there is no apt-get here")
    fetch(["apt-get", "-qq", "update"], environment)
    fetch(["apt-get", "-qq", "-y", "-d", "--no-install-recommends", "install", *names], environment)
    root.mkdir(parents=True, exist_ok=True)
    for package in sorted((state / "cache/archives").glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(root)])
    mark.write_text(" ".join(names))


def relocate_linker_scripts(root: Path) -> None:
    """The cross compiler's libc.so is a script with absolute paths: the names are enough."""
    folder = "/usr/aarch64-linux-gnu/lib/"
    script = root / folder[1:] / "libc.so"
    if script.exists():
        script.write_text(script.read_text().replace(folder, ""))
