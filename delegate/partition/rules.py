"""Drives the rules of operators: the first one that a node breaks is why it stays on the CPU.

The operators that the NPU takes and the rules a node must meet, as values.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.element import Element
from delegate.errors import DENIED, SLOWER, LoweringError, Rejection, Rule
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.model.graph import Node
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts, is_in_half

OPERATOR_SUPPORTED = Rule(
    "operator_supported", "The operator must be one that the NPU takes (command supported-ops)"
)
NOT_TAKEN_ALREADY = Rule(
    "not_taken_already",
    "No other delegate may take this part of the graph first; create the interpreter without "
    "default delegates (op resolver type BUILTIN_WITHOUT_DEFAULT_DELEGATES)",
)
NOT_DENIED = Rule(DENIED, "The option deny_ops must not name the node or its operator")
READERS_TAKEN = Rule(
    "readers_taken",
    "What follows from shapes alone is computed while the model is compiled, where only nodes of "
    "one partition read it",
)
SAID_TOGETHER = Rule(
    "said_together",
    "Nodes that the compiler says in other terms, such as dilated convolutions, means of groups "
    "and of channels first, run on the NPU together, or none does",
)
MEMORY_IS_KEPT = Rule(
    "memory_is_kept",
    "Beside nodes on the NPU the CPU must overwrite nothing that a node still reads, as runtimes "
    "let it behind a reshape of a reshape",
)
ALIAS_IS_FREE = Rule(
    "alias_is_free",
    "The tensors of a concatenation, split, slice or reshape must be parts of one another in "
    "memory, "
    "without a copy",
)
HOST_CONVERTS = Rule(
    "host_converts",
    "A float32 tensor must be an input of a partition that one QUANTIZE of it reads, or an output: "
    "the host converts there",
)
RESULT_USED = Rule("result_used", "Something must read the results of a partition")
RESULTS_DEFINED = Rule(
    "results_defined", "TensorFlow Lite must define the results of all 256 values of a function"
)
OF_ONE_VALUE = Rule(
    "of_one_value",
    "What a function between 8-bit tensors reads must follow from one value of its partition",
)
PARTITION_FASTER_ON_NPU = Rule(
    SLOWER,
    "By estimate a partition must be faster on the NPU than on the CPU, and no part of it much "
    "slower (SLOW of option deny_ops)",
)
PARTITION_COMPILES = Rule("partition_compiles", "The compiler must not fail")
REGISTERS_HOLD_VALUES = Rule(
    "registers_hold_values", "Every value must fit the register field that holds it"
)
BOARD_IS_RIGHT = Rule(
    "board_is_right", "The board must compute the operator's tasks as the simulator does"
)

RULES = (
    OPERATOR_SUPPORTED,
    NOT_TAKEN_ALREADY,
    NOT_DENIED,
    READERS_TAKEN,
    SAID_TOGETHER,
    MEMORY_IS_KEPT,
    ALIAS_IS_FREE,
    HOST_CONVERTS,
    RESULT_USED,
    RESULTS_DEFINED,
    OF_ONE_VALUE,
    PARTITION_FASTER_ON_NPU,
    PARTITION_COMPILES,
    REGISTERS_HOLD_VALUES,
    BOARD_IS_RIGHT,
)
"""The rules that speak of nodes in their partition, or of the user's options."""

TAKEN = "DELEGATE"
"""The runtime's name for a node that another delegate put in place of others."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why ``node`` cannot be, in its partition, as its operator's record says."""

    node: Node
    rule: Rule
    problem: str

    @property
    def error(self) -> LoweringError:
        """Return the error for a caller that goes on nevertheless."""
        return LoweringError(self.node.index, self.rule, self.problem)

    @property
    def rejection(self) -> Rejection:
        """Return why the node stays on the CPU."""
        return refused(self.node, self.rule, self.problem)


def check_node(facts: GraphFacts, node: Node) -> Rejection | None:
    """The first rule that ``node`` breaks, or None if the NPU takes it. A rule that meets what it
    does not know costs the node, not the model.
    """
    if node.op not in OPERATORS:
        return _no_operator(node)
    # An alias has no tasks, but its tensors are fp16.
    if Element.FP16 not in facts.chip.formats and is_in_half(facts.graph, node):
        return refused(node, FORM_IS_KNOWN, f"no known program of {facts.chip.name} has fp16")
    for rule in facts.operator(node).rules:
        try:
            value = rule.check(facts, node)
        except Exception as error:
            problem = f"rule {rule.name}: {type(error).__name__}: {error}"
            return refused(node, PARTITION_COMPILES, problem)
        if value is not None:
            violation = f"{rule.sentence_for(facts.chip)}: {value}"
            return Rejection(node.index, node.stored_op, rule.name, violation)
    return None


def _no_operator(node: Node) -> Rejection:
    if node.op.startswith(TAKEN):
        return refused(node, NOT_TAKEN_ALREADY, "one did")
    return refused(node, OPERATOR_SUPPORTED, f"it is {node.op}")


def refused(node: Node, rule: Rule, problem: str) -> Rejection:
    """Return why ``node`` stays on the CPU."""
    return Rejection(node.index, node.stored_op, rule.name, f"{rule.sentence}: {problem}")


@dataclass(frozen=True, slots=True)
class SupportedOperator:
    """A TensorFlow Lite operator and its rules, in the order in which they are checked."""

    op: str
    rules: tuple[Rule, ...]


def supported_operators() -> tuple[SupportedOperator, ...]:
    """All operators of this version."""
    from delegate.chip.chips import DEFAULT
    from delegate.ops import OPERATORS

    return tuple(
        SupportedOperator(op, tuple(Rule(r.name, r.sentence_for(DEFAULT)) for r in operator.rules))
        for op, operator in OPERATORS.items()
    )
