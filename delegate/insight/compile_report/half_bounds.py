"""Bounds of partitions in fp16: what ``compile`` says of them, as plain values and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from delegate.compile.compiler import CompiledPartition
from delegate.errors import UsageError
from delegate.model.graph import Graph

INPUTS = (-1.0, 1.0)
"""Where float32 inputs of partitions are taken to be, unless someone says it."""

_LARGEST = 65504.0


def input_range(low: float, high: float) -> tuple[float, float]:
    """Both as a range. Raises UsageError: it is none, or fp16 ends within it."""
    if not -_LARGEST <= low <= high <= _LARGEST:
        raise UsageError(
            f"--inputs {low:g} {high:g}: not a range from -{_LARGEST:g} to {_LARGEST:g}"
        )
    return low, high


def half_bounds(
    graph: Graph, compiled: CompiledPartition, inputs: tuple[float, float]
) -> dict[str, Any] | None:
    """How far results in fp16 are from exact ones: each node's given its operands, and each output
    of the partition given its inputs, from ``inputs[0]`` to ``inputs[1]``. ``within`` None: fp16
    may not hold what leads there; the same of ``low`` and ``high``. ``tensors_bounded`` of
    ``tensors`` have a bound that is less than their range. None: it has no results in fp16.
    """
    if not compiled.bound:
        return None
    from delegate.partition.half_bounds import tensor_bounds  # on demand: few models are in float

    bounds = tensor_bounds(graph, compiled.partition, compiled.layers, inputs)
    outputs = ((t, bounds[t]) for t in compiled.partition.outputs if t in bounds)
    return {
        "per_node": compiled.bound,
        "inputs": list(inputs),
        "outputs": [
            {
                "name": graph.tensor(tensor).name,
                "within": _finite(bound.error),
                "low": _finite(bound.low),
                "high": _finite(bound.high),
            }
            for tensor, bound in outputs
        ],
        "tensors": len(bounds),
        "tensors_bounded": sum(bound.says_something for bound in bounds.values()),
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def half_bound_lines(bounds: dict[str, Any] | None) -> Iterator[str]:
    """Yield what ``half_bounds`` gives, as text."""
    if bounds is None:
        return
    low, high = bounds["inputs"]
    yield f"fp16: every node {bounds['per_node']}, given its operands"
    share = f"{bounds['tensors_bounded']} of {bounds['tensors']} tensors"
    yield (
        f"along the graph, for inputs from {low:g} to {high:g} (--inputs): {share} have a bound "
        "that is less than their range"
    )
    for output in bounds["outputs"]:
        within, least, most = (output[key] for key in ("within", "low", "high"))
        said = "no bound: fp16 may not hold what leads there"
        if within is not None:
            said = f"within {within:.2g} of exact values"
            said += f", which are from {least:.4g} to {most:.4g}"
        yield f"  {output['name']}: {said}"
