"""TensorFlow Lite's integer arithmetic in NumPy, a file per operator: exact, for models too large
for its own kernels.

Written from the definition of the reference kernels, independently of ``lower``. A seeded sample of
the suite proves it equal to the kernels themselves.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from delegate.model.graph import Activation, DType, Graph, Node
from delegate.ops import OPERATORS
from delegate.partition.partitioner import node_macs
from delegate.partition.rules import facts_of
from rk3588_conformance.reference.arithmetic import Array, Call, clamp


@functools.cache
def _module(op: str) -> Any:
    """The module of an operator: ``reference``; ``is_covered`` where it does not take all,
    ``is_undefined`` where the kernels do not define what they take; ``CARRIES_ERRORS`` where
    operands that are a step off show in the result, scaled; ``SELECTS`` where results are values of
    operands, or of the border around them.
    """
    name = f"{__name__}.{op.lower()}"
    return import_module(name) if op in OPERATORS and find_spec(name) is not None else None


def has_reference(op: str) -> bool:
    """Whether there is a reference for an operator."""
    return _module(op) is not None


def supports(graph: Graph) -> bool:
    """Whether ``compute`` can run every node of ``graph``."""
    return all(
        (module := _module(node.op)) is not None
        and getattr(module, "is_covered", lambda _: True)(Call(graph, node, {}))
        for node in graph.nodes
    )


def is_undefined(graph: Graph) -> bool:
    """Whether a reference kernel does not define what a node of ``graph`` gives."""
    return any(
        getattr(_module(node.op), "is_undefined", lambda _: False)(Call(graph, node, {}))
        for node in graph.nodes
    )


def carries_errors(node: Node) -> bool:
    """Whether results are as far off as the operands together, each in units of the result."""
    return getattr(_module(node.op), "CARRIES_ERRORS", False)


def selects(node: Node) -> bool:
    """Whether results are values of the operands, perhaps clamped, or constants around them."""
    return getattr(_module(node.op), "SELECTS", False)


def macs(graph: Graph) -> int:
    """Multiplications of all convolutions and fully connected layers."""
    # Once it is imported, SUM's module is this one's `sum`.
    return builtins.sum(node_macs(graph, node) for node in graph.nodes)


def compute(graph: Graph, inputs: Mapping[int, Array]) -> list[Array]:
    """The outputs of ``graph``, all of whose nodes ``supports`` takes, for arrays by tensor."""
    values = compute_all(graph, inputs)
    return [values[index] for index in graph.outputs]


def compute_all(graph: Graph, inputs: Mapping[int, Array]) -> dict[int, Array]:
    """All tensors that are not constant, the inputs too, by index."""
    facts = facts_of(graph)
    values = dict(inputs)
    for node in graph.nodes:
        output = graph.tensor(node.outputs[0])
        module = _module(node.op)
        assert module is not None, node.op
        wide = module.reference(Call(graph, node, values))
        if output.dtype is DType.FLOAT32:
            values[node.outputs[0]] = wide.reshape(output.shape)
            continue
        options = facts.options(node)
        low, high = clamp(getattr(options, "activation", Activation.NONE), output)
        kind = np.int8 if output.dtype is DType.INT8 else np.uint8
        values[node.outputs[0]] = np.clip(wide, low, high).astype(kind).reshape(output.shape)
    return values
