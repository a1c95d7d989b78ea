"""Rules of operators that the host's conversion does: QUANTIZE and DEQUANTIZE of float32."""

from __future__ import annotations

from delegate.lower.lowered import Affine
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.ops.operator import GraphFacts, constraint
from delegate.ops.shared.common import no_eight_bits, other_type


@constraint()
def quantised_input(facts: GraphFacts, node: Node) -> str | None:
    """The input must be quantised to int8 or uint8."""
    return no_eight_bits(facts.features(node)[0])


@constraint()
def quantised_or_float32_input(facts: GraphFacts, node: Node) -> str | None:
    """The input must be float32, or quantised to int8 or uint8."""
    source = facts.features(node)[0]
    return None if source.dtype is DType.FLOAT32 else no_eight_bits(source)


@constraint()
def quantised_output(facts: GraphFacts, node: Node) -> str | None:
    """The output must be quantised to int8 or uint8."""
    return no_eight_bits(facts.outputs(node)[0])


@constraint()
def float32_output(facts: GraphFacts, node: Node) -> str | None:
    """The output must be float32."""
    return other_type(facts.outputs(node), DType.FLOAT32)


def affine_of(tensor: Tensor) -> Affine:
    """Return how float32 stands for a quantised tensor."""
    assert tensor.quantization is not None
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    return Affine(scale, zero_point, tensor.dtype.element)


def is_float32(graph: Graph, node: Node) -> bool:
    """Return whether only the host can convert the node's tensors."""
    tensors = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    return any(tensor.dtype is DType.FLOAT32 for tensor in tensors)
