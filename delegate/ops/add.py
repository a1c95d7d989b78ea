"""ADD: two feature maps, or one and a constant, in the DPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegate.lower.add import lower_add, surfaces_touched
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import view_of
from delegate.lower.operation import Memory, Operation, Planning
from delegate.lower.task import Layer
from delegate.model.graph import Activation, Graph, Node, Tensor
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.functions import activated, weighted_sum

MAX_RANK = 4


@dataclass(frozen=True, slots=True)
class AddOptions(Options):
    UNION_TYPE = 11

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


@constraint(most=MAX_RANK)
def operand_rank(facts: GraphFacts, node: Node) -> str | None:
    """Operands must have rank 0 to {most}."""
    for tensor in facts.features(node):
        if len(tensor.shape) > MAX_RANK:
            return f"{named(tensor)} is {list(tensor.shape)}"
    return None


@constraint()
def one_operand_computed(facts: GraphFacts, node: Node) -> str | None:
    """At least one operand must be computed by the model, not constant."""
    constant = all(tensor.constant is not None for tensor in facts.inputs(node))
    return "both are constants" if constant else None


@constraint()
def one_operand_has_output_shape(facts: GraphFacts, node: Node) -> str | None:
    """A computed operand must have the output's shape; the other may be per channel, or a constant
    that is broadcast to it.
    """
    shape = facts.outputs(node)[0].shape
    operands = facts.inputs(node)
    full = [t for t in operands if t.constant is None and _padded(t) == _pad(shape)]
    if not full:
        return ", ".join(str(list(tensor.shape)) for tensor in (*operands, *facts.outputs(node)))
    other = operands[1] if full[0] is operands[0] else operands[0]
    is_broadcast = all(d in (1, o) for d, o in zip(_padded(other), _pad(shape), strict=True))
    if is_broadcast and other.constant is not None:
        return None
    images, height, width, channels = _pad(shape)
    if _padded(other) in {
        (i, h, w, channels) for i in (1, images) for h, w in ((1, 1), (height, width))
    }:
        return None
    return f"{named(other)} of shape {list(other.shape)} is to be broadcast to {list(shape)}"


def _padded(tensor: Tensor) -> tuple[int, ...]:
    return _pad(tensor.shape)


def _pad(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (MAX_RANK - len(shape)) + shape


@dataclass(frozen=True, slots=True, eq=False)
class AddPlan:
    """An addition; its tasks follow from its shape."""

    planning: Planning
    operation: Operation

    @property
    def footprint(self) -> Footprint:
        operation, graph, chip = self.operation, self.planning.graph, self.planning.chip
        computed = [t for t in operation.operands if graph.tensor(t).constant is None]
        reads = tuple((t, surfaces_touched(chip, self._channels(t))) for t in computed)
        writes = surfaces_touched(chip, self._channels(operation.result))
        return Footprint(operation.node, reads, operation.result, writes)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        node = self.operation.node
        options = node.options_as(AddOptions)
        assert options is not None
        return lower_add(self.planning, node, options.activation, memory)

    def _channels(self, tensor: int) -> int:
        return view_of(self.planning.graph.tensor(tensor).shape).channels


def add(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """Of a value with a constant or a function of it: what the kernels give."""
    options = node.options_as(AddOptions)
    assert options is not None
    total = weighted_sum(graph, node, operands, (1, 1))
    return activated(graph, node, total, options.activation)


OPERATOR = Operator(
    name="ADD",
    options=AddOptions,
    plan=AddPlan,
    function=add,
    inputs=(Role.OPERAND, Role.OPERAND),
    rules=(
        *common.FIRST,
        *common.QUANTIZATION,
        operand_rank,
        one_operand_computed,
        one_operand_has_output_shape,
    ),
)
