"""Shows, for ``--verbose``, where a case differs first, and that element's way through the
stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.insight import simulated_run
from delegate.lower.lowered import TensorBinding
from delegate.model.graph import Graph
from delegate.npu.program_reader import parse
from delegate.npu.tensor_layout import host_numbers
from delegate.options import Options
from rk3588_conformance.comparison import MAX_ABS_DIFF
from rk3588_conformance.execution import Array, Prepared, expected, load_and_invoke, prepare
from rk3588_conformance.outcome import Oracle, Outcome


def explain(outcome: Outcome, models: Path | None, options: Options) -> Iterator[str]:
    """Lines for people. Runs the case again; nothing for cases that compute nothing."""
    yield f"oracle {outcome.oracle.value}, {outcome.equal} of {outcome.elements} elements equal"
    if outcome.oracle is Oracle.NONE:
        return
    prepared = prepare(outcome.name, models)
    if prepared.case.per_operator:
        return
    graph = prepared.graph
    for node in graph.nodes:
        yield f"node {node.index} {node.op}: {_shapes(graph, node.inputs, node.outputs)}"
    result = compile_model(graph, options)
    for rejection in result.rejections:
        yield f"rejected: node {rejection.node}: {rejection.rule}: {rejection.detail}"
    ours, _ = load_and_invoke(prepared, options)
    theirs = expected(prepared)[1]
    yield from _stages_of_first_difference(prepared, ours, theirs, options)


def _shapes(graph: Graph, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> str:
    def described(index: int) -> str:
        tensor = graph.tensor(index)
        q = tensor.quantization
        scale = "" if q is None else f" scale {q.scales[0]:.6g} zero point {q.zero_points[0]}"
        more = "" if q is None or len(q.scales) == 1 else f" (of {len(q.scales)} scales)"
        return f"{tensor.dtype.name.lower()} {list(tensor.shape)}{scale}{more}"

    return "; ".join(described(i) for i in (*inputs, *outputs) if i >= 0)


def _stages_of_first_difference(
    prepared: Prepared, ours: list[Array], theirs: list[Array], options: Options
) -> Iterator[str]:
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        differing = np.flatnonzero(mine != other)
        if differing.size == 0:
            continue
        off = np.abs(mine.astype(np.int64) - other.astype(np.int64)).ravel()
        violating = np.flatnonzero(off > MAX_ABS_DIFF)
        position = int(violating[0] if violating.size else differing[0])
        place = [int(i) for i in np.unravel_index(position, mine.shape)]
        what = f"the first by more than {MAX_ABS_DIFF}" if violating.size else "the first"
        yield (
            f"output {number}: {differing.size} of {mine.size} elements differ; {what} at "
            f"{place}: {mine.flat[position]} instead of {other.flat[position]}"
        )
        tensor = prepared.graph.outputs[number]
        yield from _way(prepared, tensor, position, options)
        return
    yield "no element differs"


def _way(prepared: Prepared, tensor: int, position: int, options: Options) -> Iterator[str]:
    """The stages of one element of an output that a partition computes from the model's inputs, on
    the simulator.
    """
    for compiled in compile_model(prepared.graph, options).partitions:
        partition = compiled.partition
        if tensor in partition.outputs and set(partition.inputs) <= prepared.inputs.keys():
            program = parse(compiled.program)
            inputs = [prepared.inputs[binding.tensor] for binding in program.inputs]
            check, element = _place(program.outputs, tensor, position)
            yield from (
                simulated_run.explain(program, check, element, inputs=inputs).text().splitlines()
            )
            return
    yield "its partition reads what another part of the model computes: no stages to show"


def _place(
    outputs: Sequence[TensorBinding], tensor: int, position: int
) -> tuple[int, tuple[int, int, int]]:
    """The image among those of all outputs, and channel, row, column, of an element."""
    before = 0
    for binding in outputs:
        places = np.argwhere(host_numbers(binding) == position)
        if binding.tensor == tensor and places.size:
            image, row, column, channel = map(int, places[0])
            return before + image, (channel, row, column)
        before += binding.images
    raise KeyError(tensor)
