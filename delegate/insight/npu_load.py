"""Reads how busy the NPU is, as far as its driver tells: cores, interrupts, who has it open.

Drivers differ. Mainline's ``rocket`` tells nothing itself (no ``drm-engine`` lines in a file's
fdinfo, no debugfs): the kernel counts an interrupt per task and core (``/proc/interrupts``, named
after the core's device) and how long runtime power management kept a core on, which is 50 ms longer
than its last job. The vendor's ``rknpu`` gives the share of time in which each core worked
(``load`` in debugfs, or procfs where it was built so; both need root) and an interrupt per job.
No driver says which process a job was for, or which partition: ``delegate.stats()`` does, from
within the process.

``root`` is the directory that holds dev/, sys/ and proc/. Whatever stands there may be missing,
denied or malformed; that is a None in the result, never an error.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from delegate.host.host_facts import number_in, read_fact

_LOAD_FILES = ("sys/kernel/debug/rknpu/load", "proc/rknpu/load")
_CORE_LOAD = re.compile(r"Core(\d):\s*(\d{1,3})%")
_SINGLE_LOAD = re.compile(r"NPU load:\s*(\d{1,3})%")
_CORE_NAME = re.compile(r"[0-9a-f]{1,16}\.npu")


@dataclass(frozen=True, slots=True)
class CoreState:
    """One platform device of the NPU: a core of rocket, all cores of rknpu.

    ``interrupts``: since the kernel started. ``active_ms``: with its power on, since then.
    """

    name: str
    interrupts: int | None
    active_ms: int | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a node of the NPU open. ``command`` is its own choice: untrusted."""

    pid: int
    command: str
    files: int


@dataclass(frozen=True, slots=True)
class NpuState:
    """One moment. ``busy_percent``: by core, None where the driver does not tell."""

    time_s: float
    cores: tuple[CoreState, ...]
    busy_percent: tuple[int, ...] | None
    holders: tuple[Holder, ...]
    hidden_processes: int  # whose files this user may not see


@dataclass(frozen=True, slots=True)
class CoreLoad:
    """The load of a core between two moments. ``powered_percent`` is the most that the core can
    have worked.
    """

    name: str
    interrupts_per_s: float | None
    powered_percent: float | None


def npu_state(root: Path, nodes: frozenset[str]) -> NpuState:
    """Read the state. ``nodes``: paths of the NPU's device nodes, as processes call them."""
    holders, hidden = _holders(root, nodes)
    return NpuState(time.monotonic(), tuple(_cores(root)), _busy(root), holders, hidden)


def core_loads(before: NpuState, after: NpuState) -> tuple[CoreLoad, ...]:
    """Rates of the cores that are in both, from counters that did not start again."""
    seconds = after.time_s - before.time_s
    earlier = {core.name: core for core in before.cores}
    loads = []
    for core in after.cores:
        first = earlier.get(core.name)
        if first is None or seconds <= 0:
            continue
        interrupts = _growth(first.interrupts, core.interrupts)
        active = _growth(first.active_ms, core.active_ms)
        loads.append(
            CoreLoad(
                core.name,
                None if interrupts is None else interrupts / seconds,
                None if active is None else min(100.0, active / seconds / 10),
            )
        )
    return tuple(loads)


def _growth(before: int | None, after: int | None) -> int | None:
    return after - before if before is not None and after is not None and after >= before else None


def _cores(root: Path) -> Iterator[CoreState]:
    counts = _interrupts(root)
    for device in sorted((root / "sys/bus/platform/devices").glob("*.npu")):
        if not _CORE_NAME.fullmatch(device.name):
            continue
        active = number_in(read_fact(device / "power/runtime_active_time"))
        yield CoreState(device.name, counts.get(device.name), active)


def _interrupts(root: Path) -> dict[str, int]:
    """Count the interrupts of all processors together, by the name at the end of a line (several
    share none).
    """
    counts: dict[str, int] = {}
    for line in read_fact(root / "proc/interrupts").splitlines():
        words = line.split()
        if len(words) < 3 or not words[0].endswith(":"):
            continue
        name = words[-1].rstrip(",")
        numbers = []
        for word in words[1:]:
            if not re.fullmatch(r"\d{1,18}", word):
                break
            numbers.append(int(word))
        if _CORE_NAME.fullmatch(name):
            counts[name] = counts.get(name, 0) + sum(numbers)
    return counts


def _busy(root: Path) -> tuple[int, ...] | None:
    for name in _LOAD_FILES:
        text = read_fact(root / name)
        found = {int(core): min(int(load), 100) for core, load in _CORE_LOAD.findall(text)}
        if found and sorted(found) == list(range(len(found))):
            return tuple(found[core] for core in sorted(found))
        single = _SINGLE_LOAD.search(text)
        if single:
            return (min(int(single[1]), 100),)
    return None


def _holders(root: Path, nodes: frozenset[str]) -> tuple[tuple[Holder, ...], int]:
    """Processes with one of ``nodes`` open, and how many do not show their files."""
    holders, hidden = [], 0
    for process in sorted((root / "proc").glob("[0-9]*")):
        if not process.name.isdigit():
            continue
        try:
            entries = os.listdir(process / "fd")
        except PermissionError:
            hidden += 1
            continue
        except OSError:  # it ended
            continue
        files = sum(_target(process / "fd" / entry) in nodes for entry in entries)
        if files:
            command = read_fact(process / "comm").strip()
            holders.append(Holder(int(process.name), command, files))
    return tuple(holders), hidden


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
