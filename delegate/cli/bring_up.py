"""``bring-up``: cases on a board against the simulator, from the safest to the riskiest."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from delegate.cli.command import EXIT_MISMATCH, Command, answer, options_from
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import format_table
from delegate.errors import DeviceError, UsageError

if TYPE_CHECKING:
    from delegate.insight.doctor import BoardRecord
    from delegate.options import Options


def _device_name(options: Options) -> str:
    """Return the name of the device that the steps will open; the first of them says why there is
    none.
    """
    from delegate._native import open_device_name

    if options.device != "auto":
        return options.device
    try:
        return open_device_name(options.device, options.strict)
    except DeviceError:
        return options.device


def _run(arguments: argparse.Namespace) -> int:
    from delegate.host.chosen import chosen_chip
    from delegate.insight.doctor import board_record, examine
    from rk3588_conformance.bring_up import bring_up, diagnosis, total_steps
    from rk3588_conformance.self_test import Step, form_table

    options = options_from(arguments)
    if options.device == "null":
        raise UsageError("device 'null' computes nothing; choose rocket, rknpu or a node")
    check_writable(arguments.output)
    device = _device_name(options)
    if not arguments.json:
        print(f"device  {device}")
    chip = chosen_chip(options)
    total = total_steps(chip, arguments.captures)
    steps: list[Step] = []
    for step in bring_up(options, chip, arguments.captures):
        steps.append(step)
        if not arguments.json:
            mark = "passed" if step.passed else "FAILED"
            print(f"{mark}  {step.name}" + (f": {step.error}" if step.error else ""), flush=True)
    record = board_record(options)
    document = {
        "device": options.device,
        "chip": chip.name,
        "steps": [step.as_dict() for step in steps],
        "not_tried": total - len(steps),
        "verdict": diagnosis(steps, total, device),
        "forms": form_table(steps),
        "record": asdict(record) if record is not None else None,
    }
    if arguments.output is not None:
        with_system = {**document, "system": examine(options).as_dict()}
        write_file(arguments.output, (json.dumps(with_system, indent=2) + "\n").encode())
    answer(arguments, document, lambda: _print_summary(document, record))
    complete = len(steps) == total and all(step.passed for step in steps)
    return 0 if complete else EXIT_MISMATCH


def _print_summary(document: dict[str, Any], record: BoardRecord | None) -> None:
    from rk3588_conformance.bring_up import KINDS

    tried = {kind: [s["passed"] for s in document["steps"] if s["kind"] == kind] for kind in KINDS}
    rows = [(kind, sum(passed), len(passed)) for kind, passed in tried.items()]
    print(format_table(("kind", "passed", "tried"), rows, right=(1, 2)))
    for here in ("agreed", "suspect"):
        names = [row["form"] for row in document["forms"] if row["here"] == here]
        if names:
            print(f"forms {here}: {', '.join(names)}")
    if record is not None:
        print(f"board: {record.summary}")
    print(document["verdict"])


COMMAND = Command(
    _run,
    """
bring-up: Run cases on an NPU and the simulator, safest first; stop where it gets dangerous.

captures CAPTURE:path*  also npu-capture-1 files (.npz), after the built-in cases
-o --output FILE.json:path  write results and the facts about this system into one file to send

bring-up --device rocket -o results.json
bring-up --device rknpu dumps/*.npz -o results.json
""",
    takes_options=True,
)
