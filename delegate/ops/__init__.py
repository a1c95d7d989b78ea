"""The operators that the NPU takes: one file each, which exports its record as ``OPERATOR``.

An operator without a file here stays on the CPU. To add one, see docs/adding_an_operator.md.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from delegate.model.graph import Graph, Node
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.ops.operator import Operator


def _records() -> dict[str, Operator]:
    found = {}
    for module in pkgutil.iter_modules(__path__):
        record = getattr(importlib.import_module(f"{__name__}.{module.name}"), "OPERATOR", None)
        if record is not None:
            found[record.name] = record
    return dict(sorted(found.items(), key=lambda item: BUILTIN_OPERATORS.index(item[0])))


OPERATORS: Mapping[str, Operator] = MappingProxyType(_records())
"""By name, in the order of the schema's numbers."""


def record_of(graph: Graph, node: Node) -> Operator:
    """What counts for a node whose operator the NPU takes, see ``Operator.of``."""
    return OPERATORS[node.op].of(graph, node)


def known_record(graph: Graph, node: Node) -> Operator | None:
    """The same; None for an operator that the NPU does not take by itself."""
    return record_of(graph, node) if node.op in OPERATORS else None
