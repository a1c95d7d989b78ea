"""What a partition's nodes become: operations with tasks, PAD folded into them.

In: ``Graph`` and ``Partition``. Out: ``Operation``s in an order in which they can run.
Concatenations and slices have no operation: their tensors lie inside one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from delegate.errors import LoweringError
from delegate.graph import Graph, Node
from delegate.ops import OPERATORS
from delegate.ops.operator import Lowering, Role
from delegate.ops.pad import pad_amounts
from delegate.partition.types import Partition


@dataclass(frozen=True, slots=True)
class Operation:
    """A node to lower, with the PAD folded into it, if any."""

    node: Node
    padding: Node | None = None

    @property
    def result(self) -> int:
        return self.node.outputs[0]

    @property
    def operands(self) -> tuple[int, ...]:
        """Feature maps it reads from memory; those of an addition may be constants."""
        operator = OPERATORS[self.node.op]
        operands = (operator.role(i) is Role.OPERAND for i in range(len(self.node.inputs)))
        return self.node.inputs if all(operands) else (self.source,)

    @property
    def source(self) -> int:
        """The feature map a convolution reads: what PAD reads, if one is folded."""
        return (self.padding or self.node).inputs[0]

    @property
    def nodes(self) -> tuple[int, ...]:
        """All TFLite nodes it computes, in execution order."""
        return tuple(node.index for node in (self.padding, self.node) if node is not None)


def operations_of(graph: Graph, partition: Partition) -> tuple[Operation, ...]:
    """In execution order."""
    pads = _pads(graph, partition)
    operations = []
    for index in partition.nodes:
        node = graph.node(index)
        if OPERATORS[node.op].lowering is not Lowering.TASKS:
            continue
        operations.append(Operation(node, pads.get(node.inputs[0])))
    return tuple(operations)


def _pads(graph: Graph, partition: Partition) -> Mapping[int, Node]:
    """PAD nodes by their result, which no one may read but the convolutions of this partition."""
    pads = {}
    for index in partition.nodes:
        node = graph.node(index)
        if OPERATORS[node.op].lowering is not Lowering.NEIGHBOUR:
            continue
        if node.outputs[0] in partition.outputs:
            raise LoweringError(
                index, "pad_result_hidden", "a node outside the partition reads the padded image"
            )
        pads[node.outputs[0]] = node
    return pads


def padding_before(graph: Graph, operation: Operation) -> tuple[int, int] | None:
    """Rows above and columns left of the image that a folded PAD adds."""
    if operation.padding is None:
        return None
    _, (top, _), (left, _), _ = pad_amounts(graph, operation.padding)
    return top, left
