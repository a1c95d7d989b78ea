"""The operators that the NPU takes: one file each, which exports its record as ``OPERATOR``.

An operator without a file here stays on the CPU. To add one, see docs/adding_an_operator.md.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from delegate.model.graph import Graph, Node
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.ops.operator import Operator


@functools.cache
def _record(name: str) -> Operator:
    record: Operator = importlib.import_module(f"{__name__}.{name.lower()}").OPERATOR
    return record


class _Records(Mapping[str, Operator]):
    """A file is read when its operator is first asked for: few models have all of them."""

    def __init__(self) -> None:
        files = {module.name for module in pkgutil.iter_modules(__path__)}
        self._names = dict.fromkeys(op for op in BUILTIN_OPERATORS if op.lower() in files)

    def __getitem__(self, name: str) -> Operator:
        if name not in self._names:
            raise KeyError(name)
        return _record(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


OPERATORS: Mapping[str, Operator] = _Records()
"""The operators by name, in the order of the schema's numbers."""


def record_of(graph: Graph, node: Node) -> Operator:
    """Return the record for a node whose operator the NPU takes, see ``Operator.of``."""
    return OPERATORS[node.op].of(graph, node)


def known_record(graph: Graph, node: Node) -> Operator | None:
    """The same; None for an operator that the NPU does not take by itself."""
    return record_of(graph, node) if node.op in OPERATORS else None
