"""What a constraint is: a small function whose docstring is the sentence the user sees.

Comes from: the rules in ``constraints`` and the ``*_constraints`` modules. Goes to: ``ops``, which
groups them per operator, and the generated page of supported operators. A check gets the facts of
the graph and a node; it gives None, or the value that breaks the rule ("stride_h is 9").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from delegate.graph import Graph, Node, Tensor

ABSENT = -1


class GraphFacts:
    """A graph and what several rules derive from it, derived once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def inputs(self, node: Node) -> list[Tensor]:
        """The inputs that are there, in order."""
        return [self.graph.tensor(t) for t in node.inputs if t != ABSENT]

    def outputs(self, node: Node) -> list[Tensor]:
        return [self.graph.tensor(t) for t in node.outputs if t != ABSENT]

    def operand(self, node: Node, position: int) -> Tensor | None:
        """Input number ``position``; None if it is absent."""
        if position >= len(node.inputs) or node.inputs[position] == ABSENT:
            return None
        return self.graph.tensor(node.inputs[position])

    @cached_property
    def computed(self) -> frozenset[int]:
        """Tensors that a node writes."""
        return frozenset(t for node in self.graph.nodes for t in node.outputs if t != ABSENT)

    @cached_property
    def disorder(self) -> str | None:
        """What keeps the nodes from running one after the other as they stand; None: nothing.

        The runtime finds partitions by which results are ready, not by the order of the nodes, and
        writes out of bounds where an output of the model never gets ready.
        """
        done: set[int] = set()
        ends = frozenset(self.graph.inputs)
        for node in self.graph.nodes:
            where = f"node {node.index} ({node.op})"
            for tensor in self.inputs(node):
                if tensor.index in self.computed and tensor.index not in done:
                    return f"{where} reads {named(tensor)} before it is written"
            for tensor in self.outputs(node):
                if tensor.index in done:
                    return f"{where} writes {named(tensor)} again"
                if tensor.is_variable or tensor.index in ends:
                    kind = "a variable" if tensor.is_variable else "an input of the model"
                    return f"{where} writes {named(tensor)}, {kind}"
                done.add(tensor.index)
        return None

    @cached_property
    def changing_constants(self) -> tuple[npt.NDArray[np.generic], ...]:
        """Constants that the host or a node may write: inputs of the model and outputs of nodes."""
        indices = self.computed.union(self.graph.inputs)
        found = (self.graph.tensor(index).constant for index in sorted(indices))
        return tuple(constant for constant in found if constant is not None)

    @cached_property
    def behind_dynamic(self) -> frozenset[int]:
        """Tensors of dynamic shape (beyond the batch) and all that is computed from them."""
        found = {tensor.index for tensor in self.graph.tensors if not tensor.has_fixed_image}
        for node in self.graph.nodes:
            if any(tensor in found for tensor in node.inputs):
                found.update(t for t in node.outputs if t != ABSENT)
        return frozenset(found)


Check = Callable[[GraphFacts, Node], str | None]


@dataclass(frozen=True, slots=True)
class Constraint:
    """``rule`` is the identifier in reports, ``sentence`` the rule in words, ranges filled in."""

    rule: str
    sentence: str
    check: Check

    def violation(self, facts: GraphFacts, node: Node) -> str | None:
        """The sentence and the offending value, or None if the rule holds."""
        value = self.check(facts, node)
        return None if value is None else f"{self.sentence}: {value}"


def constraint(**ranges: object) -> Callable[[Check], Constraint]:
    """Makes a check a ``Constraint``; ``ranges`` are formatted into its docstring."""

    def wrap(check: Check) -> Constraint:
        # Python's -OO removes docstrings; the rule's name still says what is meant.
        text = check.__doc__ or check.__name__.replace("_", " ")
        sentence = " ".join(text.split()).rstrip(".").format(**ranges)
        return Constraint(check.__name__, sentence, check)

    return wrap


def named(tensor: Tensor) -> str:
    """How messages call a tensor."""
    return f"tensor {tensor.index} {tensor.name!r}"
