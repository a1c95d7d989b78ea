"""Insight into simulated runs: what tasks moved and computed, why an element has its value.

Comes in: a :class:`~delegate.capture.Capture`, or a :class:`~delegate.npu.program_types.Program`
with the values of its inputs. Goes out: :class:`TaskCounters` per task, or an
:class:`Explanation`: registers, CBUF and the value behind every stage of the DPU for one output
element, task by task. Refuses with UsageError tensors and elements that do not exist; faults of the
simulated NPU are raised as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.capture import Capture, CaptureCheck
from delegate.errors import UsageError
from delegate.npu.program_types import Program

__all__ = ["ElementTrace", "Explanation", "TaskCounters", "count", "explain"]

_ATOM_BYTES = 16


@dataclass(frozen=True, slots=True)
class TaskCounters:
    """One task's work. Cycles are estimates by the known cost formulas, not measurements.

    ``feature_bytes`` are read by CNA or PPU_RDMA, ``operand_bytes`` by DPU_RDMA; with reuse of
    CBUF nothing is read. ``cbuf_*_bytes`` is what the task keeps in its banks.
    """

    task: int
    layer: str
    enable_mask: int
    macs: int
    feature_bytes: int
    weight_bytes: int
    operand_bytes: int
    written_bytes: int
    data_banks: int
    weight_banks: int
    cbuf_data_bytes: int
    cbuf_weight_bytes: int
    npu_cycles: int
    ddr_cycles: int

    @property
    def cycles(self) -> int:
        """The larger of both: computing and moving overlap within a task."""
        return max(self.npu_cycles, self.ddr_cycles)


@dataclass(frozen=True, slots=True)
class ElementTrace:
    """How one task made the element. ``element`` is (c, h, w) within the task's tile.

    ``values`` are (stage, value) in the order of the data path; ``registers`` the written ones of
    the register groups that the task used, ``groups`` which of the two that was for each block.
    """

    task: int
    layer: str
    element: tuple[int, int, int]
    values: tuple[tuple[str, float], ...]
    output: float
    registers: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, int], ...]

    def value(self, stage: str) -> float:
        """The value behind ``stage``. Raises KeyError."""
        return dict(self.values)[stage]

    def register(self, name: str) -> int:
        """The value of "BLOCK.REGISTER". Raises KeyError."""
        return dict(self.registers)[name]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The tasks that wrote an element, in order; the last one's value stays."""

    address: int
    traces: tuple[ElementTrace, ...]

    def text(self, registers: bool = False) -> str:
        """For people; with ``registers`` every written register, too."""
        lines = [f"element at device address {self.address:#x}"]
        if not self.traces:
            lines.append("no task writes it")
        for trace in self.traces:
            c, h, w = trace.element
            name = f" ({trace.layer})" if trace.layer else ""
            lines.append(f"task {trace.task}{name}: channel {c}, row {h}, column {w} of its tile")
            groups = ", ".join(f"{block} {group}" for block, group in trace.groups)
            lines.append(f"  register groups: {groups}")
            if registers:
                lines += [f"  {register} = {value:#x}" for register, value in trace.registers]
            width = max(len(stage) for stage, _ in trace.values) if trace.values else 0
            lines += [f"  {stage:<{width}}  {value:.10g}" for stage, value in trace.values]
            lines.append(f"  {'output':<{width}}  {trace.output:.10g}")
        return "\n".join(lines)


def count(
    source: Capture | Program,
    *,
    inputs: Sequence[npt.NDArray[Any]] | None = None,
    chained: bool | None = None,
) -> tuple[TaskCounters, ...]:
    """Runs ``source`` and returns what every task did, in order of execution.

    A program needs the values of its ``inputs``, in the order of its bindings. Raises UsageError,
    SimulatorFault.
    """
    report = _run(_capture(source, inputs), chained, counters=True)
    return tuple(TaskCounters(**task) for task in report["tasks"])


def explain(
    source: Capture | Program,
    tensor: int | str,
    element: tuple[int, int, int],
    *,
    inputs: Sequence[npt.NDArray[Any]] | None = None,
    chained: bool | None = None,
) -> Explanation:
    """Why the ``element`` (c, h, w) of ``tensor`` has its value.

    ``tensor``: a check of the capture by its number or the name of its expected array; for a
    program the number of the output. Raises UsageError, SimulatorFault.
    """
    capture = _capture(source, inputs)
    check = _check(capture, tensor)
    base = next(b.dma_address for b in capture.buffers if b.name == check.buffer)
    address = base + _offset(check, element)
    report = _run(capture, chained, probe=address)
    traces = tuple(
        ElementTrace(
            task=t["task"],
            layer=t["layer"],
            element=t["element"],
            values=tuple(t["values"]),
            output=t["output"],
            registers=tuple(t["registers"]),
            groups=tuple(t["groups"]),
        )
        for t in report["traces"]
    )
    return Explanation(address, traces)


def _capture(source: Capture | Program, inputs: Sequence[npt.NDArray[Any]] | None) -> Capture:
    if isinstance(source, Capture):
        return source
    if inputs is None:
        raise UsageError("a program computes nothing without the values of its inputs")
    from delegate.npu.dump import capture_of_program

    unknown = [np.zeros(b.shape, np.uint8 if b.is_uint8 else np.int8) for b in source.outputs]
    return capture_of_program(source, inputs, unknown, source.name)


def _check(capture: Capture, tensor: int | str) -> CaptureCheck:
    if isinstance(tensor, int):
        if 0 <= tensor < len(capture.checks):
            return capture.checks[tensor]
    else:
        for check in capture.checks:
            if check.expected == tensor:
                return check
    known = ", ".join(f"{i} ({c.expected})" for i, c in enumerate(capture.checks)) or "none"
    raise UsageError(f"capture {capture.name} has no tensor {tensor!r}; it has: {known}")


def _offset(check: CaptureCheck, element: tuple[int, int, int]) -> int:
    _, channels, height, width = check.shape_nchw
    c, h, w = element
    if not (0 <= c < channels and 0 <= h < height and 0 <= w < width):
        raise UsageError(
            f"element {element} is outside of {check.expected}, which has {channels} channels, "
            f"{height} rows and {width} columns"
        )
    pixel = c // check.c2 * check.surface_pixels + h * width + w
    return check.offset + pixel * _ATOM_BYTES + c % check.c2 * np.dtype(check.dtype).itemsize


def _run(capture: Capture, chained: bool | None, **how: Any) -> dict[str, Any]:
    from delegate import _native

    images = capture.memory()
    regions = [(b.name, b.dma_address, images[b.name]) for b in capture.buffers]
    jobs = [[(t.regcmd, t.regcmd_count, t.layer) for t in job.tasks] for job in capture.jobs]
    order = capture.chained if chained is None else chained
    return _native.simulate(regions, jobs, chained=order, **how)
