"""``doctor``: why an NPU does not work, or that it does."""

from __future__ import annotations

import argparse
import io
import json
import textwrap
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from delegate.cli.command import EXIT_MISMATCH, Command, options_from, print_json
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import WIDTH, format_table, print_pairs
from delegate.errors import DeviceError

if TYPE_CHECKING:
    from delegate.insight.doctor import Examination


def _run(arguments: argparse.Namespace) -> int:
    from delegate.insight.doctor import board_record, examine
    from rk3588_conformance.self_test import run_self_test

    options = options_from(arguments)
    check_writable(arguments.report)
    if arguments.forget:
        board_record(options, forgets=True)
    self_test = None if arguments.no_self_test else run_self_test(options)
    facts = examine(options, self_test=self_test)
    if arguments.report is not None:
        _write_report(facts, arguments.report)
    if arguments.json:
        print_json(facts.as_dict())
    else:
        _print(facts)
        if arguments.report is not None:
            print(f"report       {arguments.report}")
    if facts.is_healthy:
        return 0
    needs_npu = options.device not in ("auto", "simulator", "null")
    has_node = any(node.state not in ("foreign", "missing") for node in facts.nodes)
    return DeviceError.exit_code if needs_npu and not has_node else EXIT_MISMATCH


def _print(facts: Examination) -> None:
    memory = facts.memory_available_bytes
    print_pairs(
        ("version", facts.version),
        ("board", facts.board or "unknown"),
        ("kernel", f"{facts.kernel} ({facts.machine})"),
        ("python", facts.python),
        ("packages", ", ".join(f"{n} {v}" for n, v in facts.packages.items()) or "none"),
        ("memory", "unknown" if memory is None else f"{memory >> 20} MiB available"),
        ("clock", "unknown" if facts.clock_hz is None else f"{facts.clock_hz // 1_000_000} MHz"),
    )
    if facts.nodes:
        rows = [
            (n.path, n.driver or "-", n.version or "-", n.mode or "-", n.group or "-",
             "yes" if n.accessible else "no")
            for n in facts.nodes
        ]  # fmt: skip
        print(format_table(("node", "driver", "version", "mode", "group", "accessible"), rows))
    chosen = [
        (key, value or "-", origin)
        for key, (value, origin) in facts.options.items()
        if origin != "default" or key in ("device", "cores", "timeout_ms")
    ]
    print(format_table(("option", "value", "from"), chosen))
    for finding in facts.findings:
        print(_lines(finding.level, finding.text))
    print(_lines("verdict", facts.verdict))
    print(_lines("next", facts.next_step))


def _lines(head: str, text: str) -> str:
    """A text beside its heading, on as many lines as the width takes; commands stay whole words."""
    return textwrap.fill(
        text, WIDTH, initial_indent=f"{head:<8} ", subsequent_indent=" " * 9,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


# Readable without the NPU's rights; none names the user or the network.
_FILES = ("proc/version", "proc/meminfo", "proc/device-tree/compatible")
_MAX_FILE_BYTES = 1 << 16


def _write_report(facts: Examination, path: Path) -> None:
    """A zip file: the examination as JSON and a few files of the system, all or nothing."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("doctor.json", json.dumps(facts.as_dict(), indent=2))
        for name in _FILES:
            try:
                with open(Path("/") / name, "rb") as file:
                    archive.writestr(name, file.read(_MAX_FILE_BYTES))
            except OSError:
                continue
    write_file(path, content.getvalue())


COMMAND = Command(
    _run,
    """
doctor: Examine driver, permissions, clock and runtimes, and test the NPU for a second.

--report FILE.zip:path  write everything into a file for a report
--no-self-test  run nothing on the device
--forget  first forget what this board has shown, so that it is tried again

doctor
doctor --device rocket --report report.zip
""",
    takes_options=True,
)
