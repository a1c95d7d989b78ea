"""For ``--verbose``: where a case differs first, and that element's way through the stages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.conformance.execution import Array, Prepared, expected, load_and_invoke, prepare
from delegate.conformance.outcome import Oracle, Outcome
from delegate.conformance.task_machine import Machine, Watch, place_of
from delegate.conformance.task_stages import ElementSteps, Step
from delegate.insight.comparison import MAX_ABS_DIFF
from delegate.lower.lowering import lower_partition
from delegate.lower.task import ElementwiseTask, LoweredPartition, Ref, Task, TensorBinding
from delegate.model.graph import Graph
from delegate.options import Options
from delegate.partition.workload import workload_of

_MAX_DEPTH = 8
"""Layers followed back from an output; longer chains are cut."""


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
    """The stages of one element of an output that a partition computes from the model's inputs."""
    graph = prepared.graph
    for compiled in compile_model(graph, options).partitions:
        partition = compiled.partition
        if tensor in partition.outputs and set(partition.inputs) <= prepared.inputs.keys():
            lowered = lower_partition(graph, workload_of(graph, partition), "explained")
            arrays = [prepared.inputs[binding.tensor] for binding in lowered.inputs]
            binding = next(b for b in lowered.outputs if b.tensor == tensor)
            place = _place(binding, position)
            count = sum(len(layer.tasks) for layer in lowered.layers)
            yield from _follow(lowered, arrays, Watch(place, count), depth=0)
            return
    yield "its partition reads what another part of the model computes: no stages to show"


def _place(binding: TensorBinding, position: int) -> Ref:
    pixels = binding.height * binding.width
    image, rest = divmod(position, pixels * binding.channels)
    return place_of(binding, image, *divmod(rest, binding.channels))


def _follow(
    lowered: LoweredPartition, arrays: list[Array], watch: Watch, depth: int
) -> Iterator[str]:
    machine = Machine(lowered, watch)
    machine.run(arrays)
    watched = machine.watched
    indent = "  " * depth
    if watched is None:
        yield f"{indent}an input of the partition"
        return
    row, column, channel = watched.element
    yield (
        f"{indent}layer {watched.layer}, task {watched.index} ({watched.task.tile}): row {row}, "
        f"column {column}, channel {channel}"
    )
    yield from (f"{indent}  {_line(step)}" for step in watched.steps)
    if depth == _MAX_DEPTH:
        return
    for what, place in _operands(watched.task, watched):
        yield f"{indent}  {what}:"
        yield from _follow(lowered, arrays, Watch(place, watched.index), depth + 1)


def _line(step: Step) -> str:
    return f"{step.stage:8}{step.action:48}{step.value:>14}"


def _operands(task: Task, watched: ElementSteps) -> Iterator[tuple[str, Ref]]:
    """Where the element-wise operands of the watched element lie."""
    row, column, channel = watched.element
    pixel = (row * task.output.width + column) * 16

    def at(start: Ref, surface_stride_bytes: int) -> Ref:
        offset = start.offset + channel // 16 * surface_stride_bytes + pixel + channel % 16
        return Ref(start.buffer, offset)

    if isinstance(task, ElementwiseTask):
        yield "first operand", at(task.source, task.source_surface_stride_bytes)
    if task.ew is not None and task.ew.operand is not None and not task.ew.per_channel:
        yield "second operand", at(task.ew.operand, task.ew.surface_stride_bytes)
