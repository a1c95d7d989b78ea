"""``library-path``: where the shared object is, and the detector plugin for Frigate."""

from __future__ import annotations

import argparse

from delegate.cli.command import Command, answer
from delegate.host.library import library_path
from rk3588_vision import FRIGATE_PLUGIN


def _run(arguments: argparse.Namespace) -> int:
    path = str(FRIGATE_PLUGIN) if arguments.frigate else library_path()
    answer(arguments, {"frigate_plugin" if arguments.frigate else "library_path": path}, path)
    return 0


COMMAND = Command(
    _run,
    """
library-path: Print the path of the delegate's shared object.

--frigate  the file of Frigate's detector plugin instead

library-path
library-path --json
library-path --frigate
""",
)
