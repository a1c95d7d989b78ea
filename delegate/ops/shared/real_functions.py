"""Functions of float32 that converters leave between DEQUANTIZE and QUANTIZE, where an operator has
no kernel of 8 bits: all three are one function of an 8-bit value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.fixed_point import in_units
from delegate.ops.shared.functions import same_shapes, scales_of

Reals = npt.NDArray[np.float32]

ENTERS, LEAVES = "DEQUANTIZE", "QUANTIZE"


def neighbours(facts: GraphFacts, node: Node) -> tuple[Node, Node] | None:
    """Return the DEQUANTIZE of 8 bits before ``node`` and the QUANTIZE to 8 bits behind it, where
    nobody else reads what lies in between; None: they are not there.
    """
    source, result = node.inputs[0], node.outputs[0]
    before, behind = facts.makers.get(source), facts.readers.get(result, ())
    if before is None or before.op != ENTERS or facts.readers.get(source) != (node,):
        return None
    if len(behind) != 1 or behind[0].op != LEAVES:
        return None
    if not {source, result}.isdisjoint(facts.graph.outputs):
        return None
    ends = (facts.graph.tensor(t) for t in (before.inputs[0], behind[0].outputs[0]))
    return (before, behind[0]) if all(_has_8_bits(tensor) for tensor in ends) else None


def _has_8_bits(tensor: Tensor) -> bool:
    return tensor.dtype in FEATURE_TYPES and tensor.constant is None


@constraint()
def between_eight_bits(facts: GraphFacts, node: Node) -> str | None:
    """Such a function of float32 must lie between DEQUANTIZE and QUANTIZE of 8 bits, alone."""
    other = next((t for t in facts.inputs(node) if t.dtype is not DType.FLOAT32), None)
    if other is not None:
        return f"{named(other)} is {other.dtype.name}"
    if facts.graph.half:
        return "the model is computed in fp16"
    return None if neighbours(facts, node) is not None else "it does not"


def real_function(name: str, function: Callable[[Reals], Reals]) -> Operator:
    """Return the record of such an operator. Its own node reads and writes float32; the one that
    stands for all three has 8 bits on both sides.
    """

    def results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
        (scale, zero_point), (target, target_zero) = scales_of(graph, node)
        real = np.float32(scale) * (operands[0] - zero_point).astype(np.float32)
        with np.errstate(all="ignore"):
            return in_units(function(real) / np.float32(target), target_zero)

    return Operator(
        name=name,
        inputs=(Role.FEATURE,),
        function=results,
        is_real=True,
        shapes=common.same_shape,
        rules=(
            common.tensors_as_defined,
            common.nodes_in_order,
            between_eight_bits,
            *common.BEHIND_TYPES,
            common.rank_in_range,
            same_shapes,
        ),
    )
