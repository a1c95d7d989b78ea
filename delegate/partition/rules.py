"""Drives the rules of operators: the first one that a node breaks is why it stays on the CPU."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts
from delegate.partition.types import Rejection

TAKEN = "DELEGATE"
"""How the runtime calls a node that another delegate put in place of others."""


def facts_of(graph: Graph) -> GraphFacts:
    """What rules ask of ``graph``."""
    return GraphFacts(graph, OPERATORS)


def check_node(facts: GraphFacts, node: Node) -> Rejection | None:
    """The first rule that ``node`` breaks, or None if the NPU takes it."""
    operator = facts.operators.get(node.op)
    if operator is None:
        return _no_operator(node)
    for rule in operator.rules:
        violation = rule.violation(facts, node)
        if violation is not None:
            return Rejection(node.index, node.op, rule.rule, violation)
    return None


def _no_operator(node: Node) -> Rejection:
    if node.op.startswith(TAKEN):
        detail = (
            "Another delegate took this part of the graph first; create the interpreter without "
            "default delegates (op resolver type BUILTIN_WITHOUT_DEFAULT_DELEGATES)"
        )
        return Rejection(node.index, node.op, "not_taken_already", detail)
    detail = f"The operator must be one that the NPU takes (command supported-ops): it is {node.op}"
    return Rejection(node.index, node.op, "operator_supported", detail)
