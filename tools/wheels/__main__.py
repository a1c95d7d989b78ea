"""``make wheels``: wheels for aarch64 and x86-64 and Python 3.10 to 3.13, a source distribution and
Debian packages in ``dist``, compiled here; ``make check-wheels``: whether they do what they should.

python -m tools.wheels [--machines NAME ...] [--pythons X.Y ...] [--check]

Each step says how long it took. Exit code 3: something that it needs is not to be had.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.board.packages import UnavailableError
from tools.script import ScriptParser

EXIT_UNAVAILABLE = 3


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Says how long something took."""
    start = time.monotonic()
    yield
    print(f"{time.monotonic() - start:7.1f} s  {title}", flush=True)


def make(machines: list[str], pythons: list[str], folder: Path) -> None:
    """Builds everything into ``folder``; machines side by side, as zig makes one C++ library for
    each, file by file.
    """
    from tools.wheels.build import build_sdist, build_wheel, find_wheel
    from tools.wheels.debian import build_deb

    def make_for(machine: str) -> None:
        for version in pythons:
            with step(f"wheel for {machine}, Python {version}"):
                build_wheel(machine, version, folder)
        with step(f"Debian package for {machine}"):
            build_deb(machine, [find_wheel(folder, machine, each) for each in pythons], folder)

    folder.mkdir(exist_ok=True)
    with step("source distribution"):
        build_sdist(folder)
    with ThreadPoolExecutor() as pool:
        list(pool.map(make_for, machines))


def main() -> int:
    """Builds or checks, and returns the exit code."""
    parser = ScriptParser(__doc__)
    machines, pythons = ("x86_64", "aarch64"), ("3.10", "3.11", "3.12", "3.13")
    parser.add_argument("--machines", nargs="+", choices=machines, default=machines)
    parser.add_argument("--pythons", nargs="+", choices=pythons, default=pythons)
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="FOLDER")
    parser.add_argument("--check", action="store_true", help="check what is there")
    arguments = parser.parse_args()
    start = time.monotonic()
    if arguments.check:
        from tools.wheels.check import check

        check(arguments.output.resolve(), arguments.machines, arguments.pythons, step)
    else:
        make(arguments.machines, arguments.pythons, arguments.output.resolve())
    print(f"{time.monotonic() - start:7.1f} s  in all")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UnavailableError as error:
        print(f"make wheels: {error}", file=sys.stderr)
        sys.exit(EXIT_UNAVAILABLE)
