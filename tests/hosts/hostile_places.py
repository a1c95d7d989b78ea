"""Folders and environment variables that somebody chose to do harm.

The delegate may refuse each or do without it; it must not crash, wait, or take a program from it.
"""

import contextlib
import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from delegate.options import OPTIONS

OTHER_USER = 12345
SECRET = b"must not change"
TEXTS = (
    "", " ", "\n", "\x01\x7f", "off", "auto", "-1", "0", "1e9", "99999999999999999999", "%s%n%p",
    "\udcff\udcfe", "a" * 4096, "/" * 5000 + "dev/null", "x" * 200_000,
    "/proc/self/mem", "/dev/full", "/dev/zero", "rocket\x00null", "é\N{SNOWMAN}",
)  # fmt: skip
VARIABLES = ("XDG_CACHE_HOME", "HOME", "TMPDIR", "RK3588_KEEPER", "RK3588_LIBPYTHON", "LANG")


def _foreign(folder: Path) -> Path:
    made = folder / "foreign"
    made.mkdir()
    if os.getuid() == 0:
        os.chown(made, OTHER_USER, OTHER_USER)
    return made


def _link_of_others(folder: Path) -> Path:
    """A link in a folder as /tmp, of another user, to a folder of ours."""
    shared, own = folder / "everybodys", folder / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    own.mkdir(mode=0o700)
    link = shared / "link"
    link.symlink_to(own)
    if os.getuid() == 0:
        os.lchown(link, OTHER_USER, OTHER_USER)
    return link


def _loop(folder: Path) -> Path:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    return folder / "a"


def _link(folder: Path, target: str) -> Path:
    (folder / "link").symlink_to(target)
    return folder / "link"


def _file(folder: Path) -> Path:
    (folder / "file").write_bytes(SECRET)
    return folder / "file"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
        server.bind(str(folder / "socket"))
    return folder / "socket"


def _mode(folder: Path, mode: int) -> Path:
    (folder / "open").mkdir()
    (folder / "open").chmod(mode)
    return folder / "open"


FOLDERS: tuple[Callable[[Path], Path], ...] = (
    _foreign, _link_of_others, _loop, _file, _pipe, _socket,
    lambda folder: _foreign(folder) / "below",
    lambda folder: _link(folder, "/proc/self/fd"),
    lambda folder: _link(folder, "missing"),
    lambda folder: _link(folder, "."),
    lambda folder: _mode(folder, 0o777),
    lambda folder: _mode(folder, 0o1777) / "new",
    lambda folder: _mode(folder, 0),
    lambda folder: folder / ("n" * 255) / "x" / ".." / "y",
    lambda folder: folder / "line\nbreak\t",
    lambda folder: folder / "\udcff",
    lambda folder: folder.joinpath(*["deep"] * 300),
    lambda _: Path("/dev/null/x"),
    lambda _: Path("/proc/self"),
)  # fmt: skip


@contextlib.contextmanager
def places(folder: Path, number: int) -> Iterator[dict[str, str]]:
    """Give options for a load: hostile folders, or a hostile variable, as ``number`` says."""
    rng = random.Random(number)
    kept, before = dict(os.environ), Path.cwd()
    options: dict[str, str] = {}
    secret = folder / "secret"
    secret.write_bytes(SECRET)
    os.chdir(folder)
    try:
        if number % 2 == 0:
            key = rng.choice(("cache_dir", "stats_dir"))
            made = FOLDERS[number // 2 % len(FOLDERS)](folder)
            options[key] = str(made)
            entry = f"{os.getpid()}.prom"
            if key == "stats_dir" and made.is_dir() and not os.path.lexists(made / entry):
                with contextlib.suppress(OSError):
                    (made / entry).symlink_to(secret)
        else:
            rows = [option.environment for option in OPTIONS if option.key != "device"]
            name = rng.choice((*rows, *VARIABLES))
            text = TEXTS[number // 2 % len(TEXTS)]
            with contextlib.suppress(ValueError):  # no variable holds a NUL byte
                os.environ[name] = text
        yield options
        assert secret.read_bytes() == SECRET, "a file behind a link was written"
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)
