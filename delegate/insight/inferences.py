"""Runs a model and gives its inferences as timelines."""

from __future__ import annotations

import time
from collections.abc import Callable

from delegate.compile.compiler import CompileResult
from delegate.host.delegated import DelegatedModel
from delegate.host.runtimes import invoke
from delegate.insight.run_log import run_log
from delegate.insight.timeline import Inference, split_inference
from delegate.partition.partitioner import execution_order
from delegate.vision.model_inputs import Sample


def run_inferences(
    model: DelegatedModel,
    result: CompileResult,
    sample: Sample,
    count: int,
    done: Callable[[], None] = lambda: None,
) -> list[Inference]:
    """``count`` inferences of the same sample, the first included. ``result``: the same model and
    options, compiled. Raises DelegateError if the runtime fails.
    """
    for details, array in zip(model.inputs, sample, strict=True):
        model.interpreter.set_tensor(details["index"], array)
    moments: list[tuple[int, int]] = []
    with run_log(count * max(model.delegation.partitions, 1)) as runs:
        for _ in range(count):
            begin = time.monotonic_ns()
            invoke(model.interpreter)
            moments.append((begin, time.monotonic_ns()))
            done()
    delegated = frozenset(n for c in result.partitions for n in c.partition.nodes)
    order = execution_order(result.graph, delegated)
    return [split_inference(begin, end, runs, order, delegated) for begin, end in moments]
