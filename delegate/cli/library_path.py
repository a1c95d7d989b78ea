"""``library-path``: where the shared object is."""

from __future__ import annotations

import argparse

from delegate.cli.command import Command, print_json
from delegate.host.library import library_path


def _run(arguments: argparse.Namespace) -> int:
    path = library_path()
    if arguments.json:
        print_json({"library_path": path})
    else:
        print(path)
    return 0


COMMAND = Command(
    name="library-path",
    summary="Print the path of the delegate's shared object.",
    examples=(
        "library-path",
        "library-path --json",
    ),
    run=_run,
)
