"""DENSIFY of a sparse constant: its dense values, see ``Graph.folded``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph, Node, Tensor
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.ops.operator import GraphFacts, Operator, Role, constraint, named
from delegate.ops.shared import common


@constraint()
def sparse_constant(facts: GraphFacts, node: Node) -> str | None:
    """DENSIFY of a sparse constant is computed while the model is compiled; of others it stays on
    the CPU.
    """
    (source,) = facts.inputs(node)
    try:
        is_known = _dense(facts.graph, node) is not None
    except ValueError as error:
        return f"{named(source)} is corrupt: {error}"
    return (
        "it does"
        if is_known
        else f"{named(source)} is no sparse constant of a known kind, or may be written"
    )


def _dense(graph: Graph, node: Node) -> npt.NDArray[np.generic] | None:
    """Raises ValueError."""
    source, result = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    kind = NUMPY_TYPES.get(source.dtype)
    if source.sparsity is None or source.constant is None or kind is None:
        return None
    if source.dtype is not result.dtype or _may_change(graph, source, source.constant):
        return None
    from delegate.model.tensor_content import dense_values  # on demand: few models have any

    return dense_values(source.constant, kind, source.shape, source.sparsity)


def _may_change(graph: Graph, source: Tensor, content: npt.NDArray[np.generic]) -> bool:
    """Return whether a host or a node may write ``content``: it is that of an input, or of a dense
    tensor, which may be one as far as the runtime tells.
    """
    return source.index in graph.inputs or any(
        not tensor.is_sparse
        and tensor.constant is not None
        and np.may_share_memory(content, tensor.constant)
        for tensor in graph.tensors
    )


def _folds(graph: Graph, node: Node) -> npt.NDArray[np.generic] | None:
    try:
        return _dense(graph, node)
    except ValueError:
        return None


OPERATOR = Operator(
    name="DENSIFY",
    inputs=(Role.NUMBERS,),
    shapes=common.same_shape,
    folds=_folds,
    folds_once=True,
    rules=(common.tensors_as_defined, common.nodes_in_order, sparse_constant),
)
