"""CAST of a constant whose values both types hold: a constant, see ``Graph.folded``."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Graph, Node, read_only
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.ops.operator import GraphFacts, Operator, Role, constraint, named
from delegate.ops.shared import common

_KINDS: Final = (DType.FLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32, DType.INT64)


@constraint()
def cast_constant(facts: GraphFacts, node: Node) -> str | None:
    """CAST of a constant whose values both types hold is computed while the model is compiled; of
    others it stays on the CPU.
    """
    (source,) = facts.inputs(node)
    if _folds(facts.graph, node) is not None:
        return "it does"
    return f"{named(source)} is no constant, or the types are others"


def _folds(graph: Graph, node: Node) -> npt.NDArray[np.generic] | None:
    source, result = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    values = source.constant
    if (
        values is None
        or values.shape != source.shape
        or not {source.dtype, result.dtype} <= {*_KINDS}
    ):
        return None
    if result.dtype is DType.FLOAT32 and values.dtype == np.float16:
        return values  # as DEQUANTIZE of float16 has it
    with np.errstate(all="ignore"):
        found = values.astype(NUMPY_TYPES[result.dtype])
        is_same = np.array_equal(found.astype(values.dtype), values)
    return read_only(found) if is_same else None


OPERATOR = Operator(
    name="CAST",
    inputs=(Role.NUMBERS,),
    shapes=common.same_shape,
    folds=_folds,
    rules=(common.tensors_as_defined, common.nodes_in_order, cast_constant),
)
