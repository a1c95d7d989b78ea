"""Estimates how long nodes take on one thread of a CPU whose kernels were measured.

Each operator and element type has rates of its own: what a run, a multiply-accumulate, an element
out, an element in and an element under a window take. ``python -m benchmarks.cpu_kernels --save
FILE`` measures them on models of one operator with drawn shapes. Rates of one machine say little
about another of a different family: TensorFlow Lite has kernels in NEON for what it does one
element after the other on x86. Without a file an A76 is modelled
(``delegate.partition.partitioner``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from delegate.errors import UsageError
from delegate.model.files import read_text
from delegate.model.graph import Graph, Node
from delegate.ops.shared.pooling import PoolOptions
from delegate.partition.partitioner import cpu_us, elements, node_macs

FORMAT = "rk3588-cpu-rates-1"
FEATURES = ("run", "mac", "out", "in", "window")
"""The kinds of work that rates are for, and that ``features`` counts."""

_LARGEST_FILE_BYTES = 1 << 20
_MOST_US = 1e9


def kernel_class(graph: Graph, node: Node) -> str:
    """The operator and the type of its first operand that is no constant, as "ADD INT8"; of
    convolutions, whether their windows are more than a pixel.
    """
    dtype = next((graph.tensor(t).dtype.name for t in _operands(graph, node)), "")
    windows = " windows" if _window(graph, node) > 1 else ""
    return f"{node.op}{windows} {dtype}"


def features(graph: Graph, node: Node) -> dict[str, int]:
    """Return how much of everything that rates are for; constants count as nothing that is read."""
    out = sum(elements(graph, t) for t in node.outputs if t >= 0)
    return {
        "run": 1,
        "mac": node_macs(graph, node),
        "out": out,
        "in": sum(elements(graph, t) for t in _operands(graph, node)),
        "window": _windows(graph, node, out),
    }


@dataclass(frozen=True, slots=True)
class Cpu:
    """The rates of one machine: ``rates`` in us, by class of kernels, in the order of ``FEATURES``.
    ``machine``: which, and how it is known.

    ``reference_us``: what the benchmark's reference convolution took; ``overhead_us``: an
    inference besides its nodes.
    """

    machine: str
    reference_us: float
    overhead_us: float
    rates: Mapping[str, tuple[float, ...]]

    def has(self, graph: Graph, node: Node) -> bool:
        """Return whether the node's class was measured."""
        return kernel_class(graph, node) in self.rates

    def node_us(self, graph: Graph, node: Node) -> float:
        """Return the node's time on one thread; the model of an A76 has it for a class not
        measured.
        """
        rates = self.rates.get(kernel_class(graph, node))
        if rates is None:
            return cpu_us(graph, node)
        counted = features(graph, node)
        return sum(rate * counted[name] for name, rate in zip(FEATURES, rates, strict=True))


A76 = Cpu("Cortex-A76, modelled", 0.0, 0.0, {})


def load_rates(path: Path) -> Cpu:
    """Read what ``benchmarks.cpu_kernels --save`` wrote. Raises UsageError for anything else."""
    try:
        document = json.loads(read_text(path, "file of rates", _LARGEST_FILE_BYTES))
        if document["format"] != FORMAT or not isinstance(document["machine"], str):
            raise ValueError
        rates = {
            name: tuple(_rate(value) for value in values)
            for name, values in document["rates"].items()
        }
        if any(len(values) != len(FEATURES) for values in rates.values()):
            raise ValueError
        reference, overhead = _rate(document["reference_us"]), _rate(document["overhead_us"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise UsageError(
            f"{path}: not rates of a CPU; python -m benchmarks.cpu_kernels --save FILE measures "
            "them"
        ) from None
    return Cpu(document["machine"], reference, overhead, rates)


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    if not 0 <= value <= _MOST_US:  # NaN is not either
        raise ValueError
    return float(value)


def _operands(graph: Graph, node: Node) -> list[int]:
    return [t for t in node.inputs if t >= 0 and graph.tensor(t).constant is None]


def _window(graph: Graph, node: Node) -> int:
    """Pixels under a window of a convolution, 0 of other operators."""
    weights = node.inputs[1] if len(node.inputs) > 1 else -1
    if weights < 0 or graph.tensor(weights).constant is None or not node_macs(graph, node):
        return 0
    return math.prod(graph.tensor(weights).shape[1:-1])


def _windows(graph: Graph, node: Node, out: int) -> int:
    """Elements under all windows: a convolution's as a matrix product reads them, a pool's."""
    pool = node.options_as(PoolOptions)
    if pool is not None:
        return out * pool.filter_h * pool.filter_w
    channels = max(1, graph.tensor(node.outputs[0]).shape[-1]) if node.outputs else 1
    return node_macs(graph, node) // channels
