"""``explain``: why one byte of an output has its value, stage by stage."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from delegate.cli.command import ODD_ORDERS, ORDER_ROWS, Command, natural_number, print_json
from delegate.errors import UsageError

if TYPE_CHECKING:
    pass


def _element(text: str) -> tuple[int, int, int]:
    """H,W,C"""
    parts = text.split(",")
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"{text} is not row,column,channel")
    h, w, c = (natural_number(part) for part in parts)
    return h, w, c


def _run(arguments: argparse.Namespace) -> int:
    from delegate.insight.capture import load_capture
    from delegate.insight.simulated_run import explain, explain_task

    if arguments.task is not None and arguments.tensor is not None:
        raise UsageError("--tensor names an output and --task a task; give one of them")
    capture = load_capture(arguments.capture)
    h, w, c = arguments.element
    if arguments.task is not None:
        explanation = explain_task(capture, arguments.task, (c, h, w), chained=arguments.chained)
        expected = None
    else:
        given = arguments.tensor or "0"
        tensor = int(given) if given.isdecimal() else given
        explanation = explain(capture, tensor, (c, h, w), chained=arguments.chained)
        key = tensor if isinstance(tensor, str) else capture.checks[tensor].expected
        expected = float(capture.expected[key][0, c, h, w])
    if arguments.json:
        print_json({**explanation.as_dict(), "expected": expected})
    else:
        print(explanation.text(registers=arguments.registers))
        if expected is not None:
            print(f"the capture expects {expected:.10g}")
    return 0


COMMAND = Command(
    _run,
    f"""
explain: Show how an output element of a capture got its value: every stage, task by task.

capture CAPTURE:path  an npu-capture-1 file (.npz), as compile --dump writes them
--element H,W,C!  row, column and channel, from 0
--tensor T  of this output: its number or the name of its expected array (default: the first)
--task N:natural  instead: of what this task writes, counted from 0 over all jobs; H,W,C count from
  the corner of the task's own output
{ORDER_ROWS}
--registers  show every register that the task has

explain captures/partition_0.npz --element 3,10,12
explain captures/partition_0.npz --element 3,10,12 --tensor expected_1 --registers
explain captures/partition_0.npz --task 4 --element 0,0,17 --json
""",
    odd={**ODD_ORDERS, "--element": {"type": _element}},
)
