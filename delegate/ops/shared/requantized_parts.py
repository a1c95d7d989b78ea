"""Parts of uint8 that CONCATENATION requantises."""

from __future__ import annotations

import numpy as np

from delegate.model.graph import DType, Graph, Node
from delegate.ops.operator import GraphFacts, constraint, named
from delegate.ops.shared.common import TYPE_RANGES
from delegate.ops.shared.fixed_point import INT32_MAX, UndefinedResultError, round_half_away
from delegate.ops.shared.links import Link


def part_requantized(graph: Graph, link: Link) -> bytes | None:
    """Return what the kernels of CONCATENATION make of the device's values -128 to 127 of a part,
    as int8: the product in float32, rounded half away from zero. None: nothing. Raises
    UndefinedResultError.
    """
    part, whole = graph.tensor(link.part), graph.tensor(link.whole)
    before, after = part.quantization, whole.quantization
    if part.dtype is DType.FLOAT32 or before == after:
        return None
    assert before is not None
    assert after is not None
    assert part.dtype is DType.UINT8
    low, high = TYPE_RANGES[part.dtype]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = np.float32(before.scale) * (np.float32(1.0) / np.float32(after.scale))
        bias = np.float32(-before.zero_point) * scale
        values = np.arange(low, high + 1).astype(np.float32) * scale + bias
        results = round_half_away(values) + after.zero_point
    if not (np.abs(results) <= INT32_MAX).all():
        raise UndefinedResultError("a result is no int32 in units of the output's scale")
    offset = whole.dtype.element.offset
    return (np.clip(results, low, high) - offset).astype(np.int8).tobytes()


@constraint()
def parts_defined(facts: GraphFacts, node: Node) -> str | None:
    """Requantised parts must be int32 in units of the output's scale: the kernels leave open what
    others become.
    """
    for link in facts.links(node):
        try:
            part_requantized(facts.graph, link)
        except UndefinedResultError as error:
            return f"{named(facts.graph.tensor(link.part))}: {error}"
    return None
