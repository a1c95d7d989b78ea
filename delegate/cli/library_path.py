"""``library-path``: where the shared object is."""

from __future__ import annotations

import argparse

from delegate.cli.command import Command, add_json_argument, print_json
from delegate.host.library import library_path


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


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
    add_arguments=_add_arguments,
    run=_run,
)
