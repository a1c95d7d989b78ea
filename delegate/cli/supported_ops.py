"""``supported-ops``: operators and the rules a node must meet to run on the NPU."""

from __future__ import annotations

import argparse
import textwrap

from delegate.cli.command import Command, print_json
from delegate.cli.table import WIDTH
from delegate.partition.supported import supported_operators


def _run(arguments: argparse.Namespace) -> int:
    operators = supported_operators()
    if arguments.json:
        print_json(
            {
                "operators": [
                    {
                        "op": operator.op,
                        "rules": [{"rule": r.name, "sentence": r.sentence} for r in operator.rules],
                    }
                    for operator in operators
                ]
            }
        )
        return 0
    for number, operator in enumerate(operators):
        print(operator.op if number == 0 else f"\n{operator.op}")
        for rule in operator.rules:
            print(
                textwrap.fill(rule.sentence, WIDTH, initial_indent="  ", subsequent_indent="    ")
            )
    return 0


COMMAND = Command(
    name="supported-ops",
    summary="List the operators the NPU takes and the rules a node must meet.",
    examples=("supported-ops", "supported-ops --json"),
    run=_run,
)
