"""Counters that other processes publish with option ``stats_dir``: which partition of which process
ran how long.

A file PID.prom per process, in Prometheus's text format, brought up to date at most once a second
while it runs models. Whoever may write the folder may have written anything: what is not as our
own processes write it is passed over, and names are untrusted. The number in a file's name is the
process's own, in a container that of its name space.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from delegate.errors import UsageError
from delegate.model.files import open_plain

_MOST_FILES = 1000
_LARGEST_FILE_BYTES = 4 << 20
_PERIOD_S = 1.0
"""The least time between two of a process's publications."""

_NAME = re.compile(r"([1-9]\d{0,9})\.prom")
_LABEL = r'[a-z]{1,20}="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(
    rf"rk3588_delegate_(runs_total|run_errors_total|phase_seconds_total)"
    rf"\{{({_LABEL}(?:,{_LABEL})*)\}} (\d{{1,18}}(?:\.\d{{1,9}})?)"
)
_PAIR = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, order=True)
class Program:
    """A partition of a process, as ``delegate.stats()`` names it there."""

    pid: int
    device: str
    program: str
    output: str


@dataclass(frozen=True, slots=True)
class Published:
    """One look at a folder. ``time_s`` is the look's, ``changed_s`` the files', by process.
    ``counters``: runs and errors by their metrics, seconds by phase.
    """

    time_s: float
    changed_s: Mapping[int, float]
    counters: Mapping[Program, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ProgramLoad:
    """The load of a program between two looks. Shares are of a second: several interpreters have
    more than 100 % of the device together.
    """

    program: Program
    runs_per_s: float
    errors_per_s: float
    device_percent: float
    conversion_percent: float


def published(folder: Path, time_s: float) -> Published:
    """Read what processes have published in ``folder``. ``time_s``: now, by the clock of files.

    Nothing where there is no such folder: the first process makes it. Raises UsageError if it
    cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))[:_MOST_FILES]
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}; it has to be what the processes' option stats_dir names"
        ) from None
    changed: dict[int, float] = {}
    counters: dict[Program, dict[str, float]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        found = None if match is None else _content(folder / name)
        if match is None or found is None:
            continue
        pid = int(match[1])
        changed[pid] = found[0]
        for program, counter, value in _samples(pid, found[1]):
            counters.setdefault(program, {})[counter] = value
    return Published(time_s, changed, counters)


def _content(path: Path) -> tuple[float, str] | None:
    try:
        with open_plain(path, flags=os.O_NOFOLLOW, most_bytes=_LARGEST_FILE_BYTES) as file:
            changed = os.fstat(file.fileno()).st_mtime
            return changed, file.read(_LARGEST_FILE_BYTES).decode("ascii", "replace")
    except (UsageError, OSError):  # its process ended, or it is none of ours
        return None


def _samples(pid: int, text: str) -> Iterator[tuple[Program, str, float]]:
    for line in text.split("\n"):
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        labels = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _PAIR.findall(match[2])}
        names = (labels.get(key, "") for key in ("device", "program", "output"))
        yield Program(pid, *names), labels.get("phase") or match[1], float(match[3])


def program_loads(before: Published, after: Published) -> tuple[ProgramLoad, ...]:
    """Return the programs that ran between two looks, those with most time on the device first.

    A file's age says since when nothing had run, but for the second in which a process waits with
    its next publication: shares are exact where runs go on all the time, and else of that second.
    """
    loads = []
    for program, now in after.counters.items():
        earlier = before.counters.get(program)
        if earlier is None:
            continue
        start = max(before.changed_s[program.pid], before.time_s - _PERIOD_S)
        seconds = after.changed_s[program.pid] - start
        grown = {name: value - earlier.get(name, 0.0) for name, value in now.items()}
        runs, errors = (grown.get(name, 0.0) for name in ("runs_total", "run_errors_total"))
        if seconds <= 0 or not (runs or errors) or min(grown.values()) < 0:
            continue
        conversion = sum(s for name, s in grown.items() if name.endswith("_conversion"))
        shares = (100 * part / seconds for part in (grown.get("device", 0.0), conversion))
        loads.append(ProgramLoad(program, runs / seconds, errors / seconds, *shares))
    return tuple(sorted(loads, key=lambda load: (-load.device_percent, load.program)))
