"""TensorFlow Lite's integer arithmetic in NumPy: exact, for models too large for its own
kernels.

Written from the definition of the reference kernels, independently of ``lower``. A seeded sample of
the suite proves it equal to the kernels themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from delegate.model.graph import DType, Graph, Node
from delegate.partition.partitioner import node_macs
from rk3588_conformance.reference import averaging, elementwise, exponential, selecting, weighted
from rk3588_conformance.reference.arithmetic import Array, Call, clamp


@dataclass(frozen=True, slots=True)
class Reference:
    """An operator's result, in integers. ``is_covered``: whether a node is among those it takes;
    ``is_undefined``: whether the kernels do not define what they take. ``carries_errors``: operands
    that are a step off show in the result, scaled. ``selects``: results are values of operands,
    perhaps clamped, or constants around them. ``steps_together``: a row's results depend on one
    number, so that all of them may be a step off at once.
    """

    compute: Callable[[Call], Array]
    is_covered: Callable[[Call], bool] = lambda _: True
    is_undefined: Callable[[Call], bool] = lambda _: False
    carries_errors: bool = False
    selects: bool = False
    steps_together: bool = False


_SELECTING = (
    selecting.maximum,
    selecting.minimum,
    selecting.reduce_max,
    selecting.max_pool_2d,
    selecting.pad,
    selecting.padv2,
    selecting.mirror_pad,
    selecting.reshape,
    selecting.tile,
    selecting.gather,
    selecting.reverse_v2,
    selecting.space_to_depth,
    selecting.depth_to_space,
    selecting.resize_nearest_neighbor,
)
REFERENCES = {
    **{compute.__name__.upper(): Reference(compute, selects=True) for compute in _SELECTING},
    "CONV_2D": Reference(weighted.conv_2d, is_covered=weighted.is_not_grouped),
    "DEPTHWISE_CONV_2D": Reference(weighted.depthwise_conv_2d),
    "FULLY_CONNECTED": Reference(
        weighted.fully_connected, is_undefined=weighted.has_unwritten_rows
    ),
    "BATCH_MATMUL": Reference(weighted.batch_matmul),
    "TRANSPOSE_CONV": Reference(weighted.transpose_conv),
    "ADD": Reference(elementwise.add, carries_errors=True),
    "SUB": Reference(elementwise.sub, carries_errors=True),
    "MUL": Reference(elementwise.mul),
    "SQUARED_DIFFERENCE": Reference(elementwise.squared_difference),
    "QUANTIZE": Reference(elementwise.quantize),
    "DEQUANTIZE": Reference(elementwise.dequantize),
    "AVERAGE_POOL_2D": Reference(averaging.average_pool_2d),
    "MEAN": Reference(averaging.mean),
    "SUM": Reference(averaging.total, is_covered=averaging.is_uint8),
    "SOFTMAX": Reference(
        exponential.softmax, is_undefined=exponential.has_too_many_classes, steps_together=True
    ),
    "RESIZE_BILINEAR": Reference(averaging.resize_bilinear),
}


_NONE: Mapping[str, Reference] = MappingProxyType({})
_OTHER = Reference(lambda call: call.value())
"""The facts of operators without a reference."""


def of(op: str) -> Reference | None:
    """The reference of an operator, if there is one."""
    return REFERENCES.get(op)


def supports(graph: Graph, others: Mapping[str, Reference] = _NONE) -> bool:
    """Return whether ``compute`` can run every node of ``graph``. ``others``: references beside
    these, by operator.
    """
    known = {**others, **REFERENCES}
    return all(
        node.op in known and known[node.op].is_covered(Call(graph, node, {}))
        for node in graph.nodes
    )


def is_undefined(graph: Graph) -> bool:
    """Return whether a reference kernel does not define what a node of ``graph`` gives."""
    known = ((node, of(node.op)) for node in graph.nodes)
    return any(one and one.is_undefined(Call(graph, node, {})) for node, one in known)


def carries_errors(node: Node) -> bool:
    return (of(node.op) or _OTHER).carries_errors


def selects(node: Node) -> bool:
    return (of(node.op) or _OTHER).selects


def macs(graph: Graph) -> int:
    """Multiplications of all convolutions and fully connected layers."""
    return sum(node_macs(graph, node) for node in graph.nodes)


def compute(
    graph: Graph, inputs: Mapping[int, Array], others: Mapping[str, Reference] = _NONE
) -> list[Array]:
    """The outputs of ``graph``, all of whose nodes ``supports`` takes, for arrays by tensor."""
    values = compute_all(graph, inputs, others)
    return [values[index] for index in graph.outputs]


def compute_all(
    graph: Graph, inputs: Mapping[int, Array], others: Mapping[str, Reference] = _NONE
) -> dict[int, Array]:
    """All tensors that are not constant, the inputs too, by index."""
    known = {**others, **REFERENCES}
    values = dict(inputs)
    for node in graph.nodes:
        output = graph.tensor(node.outputs[0])
        call = Call(graph, node, values)
        wide = known[node.op].compute(call)
        if output.dtype is DType.FLOAT32:
            values[node.outputs[0]] = wide.reshape(output.shape)
            continue
        low, high = clamp(call.activation, output)
        kind = np.int8 if output.dtype is DType.INT8 else np.uint8
        values[node.outputs[0]] = np.clip(wide, low, high).astype(kind).reshape(output.shape)
    return values
