"""``top``: how busy the NPU is and who has it open, every few seconds."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.argument_types import positive_integer
from delegate.cli.command import Command, print_json
from delegate.cli.table import format_table

if TYPE_CHECKING:
    from delegate.insight.npu_load import CoreLoad, NpuState

_SECONDS = 2
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


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=_seconds, default=_SECONDS, metavar="N",
        help=f"between two looks (default {_SECONDS})",
    )  # fmt: skip
    parser.add_argument(
        "--count", type=positive_integer, metavar="N",
        help="how many times (default: until interrupted; with --json once)",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    from delegate.host.npu_presence import find_nodes
    from delegate.insight.npu_load import core_loads, npu_state

    root = Path("/")
    nodes = [node for node in find_nodes(root) if node.state != "foreign"]
    paths = frozenset(node.path for node in nodes)
    drivers = sorted({node.driver for node in nodes if node.driver})
    left = arguments.count or (1 if arguments.json else None)
    before = npu_state(root, paths)
    if not nodes and not before.cores:
        if arguments.json:
            print_json({"drivers": [], "cores": [], "busy_percent": None, "processes": []})
        else:
            print("no NPU here; see: rk3588-delegate doctor")
        return 0
    while left is None or left > 0:
        time.sleep(arguments.seconds)
        after = npu_state(root, paths)
        loads = core_loads(before, after)
        if arguments.json:
            print_json(_document(drivers, loads, after))
        else:
            clear = _CLEAR if left is None and sys.stdout.isatty() else ""
            print(clear + load_text(drivers, loads, after), flush=True)
        before = after
        left = None if left is None else left - 1
    return 0


def _document(drivers: list[str], loads: tuple[CoreLoad, ...], state: NpuState) -> dict[str, Any]:
    return {
        "drivers": drivers,
        "cores": [asdict(load) for load in loads],
        "busy_percent": None if state.busy_percent is None else list(state.busy_percent),
        "processes": [asdict(holder) for holder in state.holders],
        "hidden_processes": state.hidden_processes,
    }


def _value(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _printable(text: str) -> str:
    """What a process calls itself may hold anything, escape sequences too."""
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
    parts.append("which process and partition ran how long: delegate.stats() in that process")
    return "\n".join(parts) + "\n"


COMMAND = Command(
    name="top",
    summary="Show how busy the NPU is and who has it open, as far as its driver tells.",
    examples=("top", "top --seconds 5", "top --count 1 --json"),
    add_arguments=_add_arguments,
    run=_run,
)
