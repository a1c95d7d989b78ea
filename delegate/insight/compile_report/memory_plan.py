"""Which part of the scratch buffer holds which layer's result, and for how long.

Read back from the tasks: a layer's result lies where its tasks write, and lives until the last
layer that reads from there before something else is written over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from delegate.lower.lowered import Layer
from delegate.lower.task import BufferId, ConvTask, DpuTask, OutputCube, Ref, Task

_CHANNELS_PER_SURFACE = 16


def scratch_plan(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Per result in the scratch buffer: its layer, offset, bytes and the last layer to read it."""
    plan: list[dict[str, Any]] = []
    for number, layer in enumerate(layers):
        for reference in (r for task in layer.tasks for r in _reads(task)):
            if reference.buffer is BufferId.SCRATCH:
                _extend(plan, reference.offset, number)
        written = [o for o in _results(layer) if o.target.buffer is BufferId.SCRATCH]
        if written:
            start = min(output.target.offset for output in written)
            end = max(_end(output) for output in written)
            plan.append(
                {
                    "layer": number,
                    "name": layer.name,
                    "offset": start,
                    "bytes": end - start,
                    "last": number,
                }
            )
    return plan


def _results(layer: Layer) -> Iterator[OutputCube]:
    """Yield what its tasks write, but for int32 sums and operands between the passes of a split
    layer.
    """
    kind = type(layer.tasks[-1])
    for task in layer.tasks:
        if isinstance(task, kind) and task.output.element_bytes == 1:
            yield task.output


def _extend(plan: list[dict[str, Any]], offset: int, layer: int) -> None:
    """The newest result that covers ``offset`` lives until ``layer``."""
    for entry in reversed(plan):
        if entry["offset"] <= offset < entry["offset"] + entry["bytes"]:
            entry["last"] = layer
            return


def _reads(task: Task) -> Iterator[Ref]:
    yield task.feature.source if isinstance(task, ConvTask) else task.source
    if isinstance(task, DpuTask) and task.ew is not None and task.ew.operand is not None:
        yield task.ew.operand


def _end(output: OutputCube) -> int:
    last = output.target.offset + (output.surfaces - 1) * output.surface_stride_bytes
    return last + output.height * output.width * _CHANNELS_PER_SURFACE
