"""``top``: how busy the NPU is, who has it open and which partitions run, every few seconds."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.command import Command, answer, positive_integer, print_json
from delegate.cli.table import format_table

if TYPE_CHECKING:
    from delegate.insight.npu_load import CoreLoad, NpuState
    from delegate.insight.published_stats import ProgramLoad, Published

_MOST_SECONDS = 3600
_CLEAR = "\x1b[H\x1b[2J"
_WHAT = {
    "rocket": "interrupts are tasks; powered is time with the core on, 50 ms longer than its jobs",
    "rknpu": "interrupts are jobs, of all cores together",
}


def _seconds(text: str) -> int:
    value = positive_integer(text)
    if value > _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"at most {_MOST_SECONDS}")
    return value


def _run(arguments: argparse.Namespace) -> int:
    from delegate.host.npu_presence import find_nodes
    from delegate.insight.npu_load import core_loads, npu_state
    from delegate.insight.published_stats import program_loads

    root = Path("/")
    folder = _stats_folder(arguments.stats_dir)
    nodes = [node for node in find_nodes(root) if node.state != "foreign"]
    paths = frozenset(node.path for node in nodes)
    drivers = sorted({node.driver for node in nodes if node.driver})
    left = arguments.count or (1 if arguments.json else None)
    before, counted_before = npu_state(root, paths), _published(folder)
    has_npu = bool(nodes or before.cores)
    if not has_npu and counted_before is None:
        answer(arguments, _document([], (), before, ()), "no NPU here; see: rk3588-delegate doctor")
        return 0
    while left is None or left > 0:
        time.sleep(arguments.seconds)
        after, counted = npu_state(root, paths), _published(folder)
        loads = core_loads(before, after)
        programs = program_loads(counted_before, counted) if counted_before and counted else ()
        if arguments.json:
            print_json(_document(drivers, loads, after, programs))
        else:
            clear = _CLEAR if left is None and sys.stdout.isatty() else ""
            npu = load_text(drivers, loads, after) if has_npu else "no NPU here\n"
            print(clear + npu + programs_text(folder, programs), end="", flush=True)
        before, counted_before = after, counted
        left = None if left is None else left - 1
    return 0


def _stats_folder(given: Path | None) -> Path | None:
    from delegate.options import Options

    if given is not None:
        return given
    folder = Options.from_mapping().stats_dir
    return None if folder == "off" else Path(folder)


def _published(folder: Path | None) -> Published | None:
    from delegate.insight.published_stats import published

    return None if folder is None else published(folder, time.time())


def _document(
    drivers: list[str],
    loads: tuple[CoreLoad, ...],
    state: NpuState,
    programs: tuple[ProgramLoad, ...],
) -> dict[str, Any]:
    return {
        "drivers": drivers,
        "cores": [asdict(load) for load in loads],
        "busy_percent": None if state.busy_percent is None else list(state.busy_percent),
        "processes": [asdict(holder) for holder in state.holders],
        "hidden_processes": state.hidden_processes,
        "programs": [{**(fields := asdict(load)).pop("program"), **fields} for load in programs],
    }


def _value(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _printable(text: str) -> str:
    """The name of a process may hold anything, escape sequences too."""
    return "".join(c if c.isprintable() else "?" for c in text)


def load_text(drivers: list[str], loads: tuple[CoreLoad, ...], state: NpuState) -> str:
    """Two tables, and what the driver does not tell."""
    rows = [
        (load.name, _value(load.interrupts_per_s), _value(load.powered_percent, " %"))
        for load in loads
    ]
    parts = [format_table(("core", "interrupts/s", "powered"), rows, right=(1, 2))]
    if state.busy_percent is not None:
        cores = enumerate(state.busy_percent)
        parts.append("load: " + ", ".join(f"core {core} {busy} %" for core, busy in cores))
    elif "rknpu" in drivers:
        parts.append("load: not to be read (/sys/kernel/debug/rknpu/load needs root)")
    parts += [f"{driver}: {_WHAT[driver]}" for driver in drivers if driver in _WHAT]
    table = [(holder.pid, holder.files, _printable(holder.command)) for holder in state.holders]
    if table:
        parts.append(format_table(("pid", "files", "process"), table, right=(0, 1), last="elide"))
    else:
        parts.append("no process seen that has the NPU open")
    if state.hidden_processes:
        parts.append(f"{state.hidden_processes} processes of other users do not show their files")
    return "\n".join(parts) + "\n"


def programs_text(folder: Path | None, programs: tuple[ProgramLoad, ...]) -> str:
    """A table of what ran, or why there is none."""
    if folder is None:
        return (
            "which partitions ran: from processes with option stats_dir, and --stats-dir here;\n"
            "within a process: delegate.stats()\n"
        )
    if not programs:
        return f"no partition ran of processes that keep counters in {folder}\n"
    rows = [
        (
            load.program.pid,
            _printable(load.program.device),
            f"{load.runs_per_s:.1f}",
            f"{load.errors_per_s:.1f}" if load.errors_per_s else "",
            f"{load.device_percent:.1f} %",
            f"{load.conversion_percent:.1f} %",
            _printable(f"{load.program.program} ({load.program.output})"),
        )
        for load in programs
    ]
    headings = ("pid", "on", "runs/s", "errors/s", "device", "conversion", "partition (output)")
    return format_table(headings, rows, right=(0, 2, 3, 4, 5), last="elide") + "\n"


COMMAND = Command(
    _run,
    """
top: Show how busy the NPU is, who has it open and which partitions run.

--seconds N=2  between two looks (default 2)
--count N:positive  how many times (default: until interrupted; with --json once)
--stats-dir DIR:path  where processes keep their counters (their option stats_dir; default:
  $RK3588_DELEGATE_STATS_DIR)

top
top --seconds 5 --stats-dir /run/npu
top --count 1 --json
""",
    odd={"--seconds": {"type": _seconds}},
)
