"""``supported-ops``: operators, and the rules that a node of one must meet to run on the NPU."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable

from delegate.cli.command import Command, print_json
from delegate.cli.table import WIDTH
from delegate.errors import UsageError
from delegate.partition.rules import SupportedOperator, supported_operators


def _chosen(names: list[str]) -> list[SupportedOperator]:
    operators = {operator.op: operator for operator in supported_operators()}
    for name in names:
        if name.upper() not in operators:
            raise UsageError(f"the NPU takes no {name}; supported-ops lists what it takes")
    return [operators[name.upper()] for name in names] if names else list(operators.values())


def _run(arguments: argparse.Namespace) -> int:
    operators = _chosen(arguments.operators)
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
    elif arguments.operators:
        for number, operator in enumerate(operators):
            print(operator.op if number == 0 else f"\n{operator.op}")
            _print_rules(rule.sentence for rule in operator.rules)
    else:
        _print_summary(operators)
    return 0


def _print_rules(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(textwrap.fill(sentence, WIDTH, initial_indent="  ", subsequent_indent="    "))


def _print_summary(operators: list[SupportedOperator]) -> None:
    """Prints the rules that all operators have, once, and the names."""
    shared = [
        rule.sentence
        for rule in operators[0].rules
        if all(rule in operator.rules for operator in operators)
    ]
    print(f"{len(operators)} operators, each with rules of its own: supported-ops OP shows them")
    names = ", ".join(sorted(operator.op for operator in operators))
    print(textwrap.fill(names, WIDTH, initial_indent="  ", subsequent_indent="  "))
    print("\nfor nodes of every operator")
    _print_rules(shared)


COMMAND = Command(
    _run,
    """
supported-ops: List the operators the NPU takes and the rules a node must meet.

operators OP*  operators whose rules to show, as CONV_2D (default: only the names of all)

supported-ops
supported-ops CONV_2D ADD
supported-ops --json
""",
)
