"""SUM over the pixels of uint8 images: sums by a convolution, requantised as the kernel does."""

from __future__ import annotations

from delegate.lower.numerics.image_sums import sum_target
from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import DType, Node
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import reductions
from delegate.ops.shared.common import other_type


@constraint()
def summed_type(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must be uint8: reference kernels, of ai-edge-litert 2.3 as of tflite-runtime
    2.14, take int8 for uint8.
    """
    return other_type(facts.features(node), DType.UINT8)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError."""
    return reductions.plan_sum(planning, operation, sum_target)


OPERATOR = Operator(
    name="SUM",
    options=reductions.ReducerOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reductions.shapes,
    rules=(*reductions.SUM_RULES, summed_type),
)
