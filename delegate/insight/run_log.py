"""When the phases of the delegate's runs happened, as the native part logged them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_NODES = re.compile(r"nodes (\d+)\.\.(\d+)$")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one partition. Times in nanoseconds of ``time.monotonic_ns``.

    ``submitted_ns`` is None where the device does not tell handing over from waiting.
    """

    name: str
    start_ns: int
    converted_ns: int
    submitted_ns: int | None
    done_ns: int
    end_ns: int

    @property
    def first_node(self) -> int | None:
        """The partition's first node, which no other partition has; None for a foreign program."""
        match = _NODES.search(self.name)
        return int(match.group(1)) if match is not None else None


@contextmanager
def run_log(capacity: int) -> Iterator[list[Run]]:
    """Logs up to ``capacity`` runs of this process; the list is filled when the block ends.

    Only one log at a time: a second one ends the first.
    """
    from delegate._native import start_run_log, take_run_log

    runs: list[Run] = []
    start_run_log(capacity)
    try:
        yield runs
    finally:
        for name, start, converted, submitted, done, end in take_run_log():
            runs.append(Run(name, start, converted, submitted or None, done, end))
