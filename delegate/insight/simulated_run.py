"""Insight into simulated runs: what tasks moved and computed, why an element has its value.

Comes in: a ``Capture``, or a ``Program`` (explaining it takes the values of its inputs, too). Goes
out: :class:`TaskCounters` per task, or an :class:`Explanation`: registers, CBUF and the value
behind every stage of the DPU for one output element, task by task. Refuses with UsageError tensors,
tasks and elements that do not exist; faults of the simulated NPU are raised as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chips import chip_named
from delegate.errors import UsageError
from delegate.insight.capture import Capture, CaptureCheck
from delegate.insight.capture_manifest import PLAIN
from delegate.lower.lowered import TensorBinding
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Program, ProgramLayer, ProgramTask

_ATOM_BYTES = 16
# Registers hold no larger coordinate, and no run has as many tasks.
_PROBE_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class TaskCounters:
    """One task's work. Cycles are estimates by the known cost formulas, not measurements.

    Bytes by port: ``feature_bytes`` are read by CNA or PPU_RDMA, ``weight_bytes`` by CNA,
    ``operand_bytes`` by DPU_RDMA, the sum of its four readers (``mrdma_bytes`` the main operand,
    ``brdma_bytes`` that of BS, ``nrdma_bytes`` BN, ``erdma_bytes`` EW); with reuse of CBUF nothing
    is read. ``cbuf_*_bytes`` is what the task keeps in its banks.
    """

    task: int
    layer: str
    enable_mask: int
    macs: int
    feature_bytes: int
    weight_bytes: int
    operand_bytes: int
    mrdma_bytes: int
    brdma_bytes: int
    nrdma_bytes: int
    erdma_bytes: int
    written_bytes: int
    data_banks: int
    weight_banks: int
    cbuf_data_bytes: int
    cbuf_weight_bytes: int
    npu_cycles: int
    ddr_cycles: int
    bank_bytes: int

    @property
    def cycles(self) -> int:
        """The larger of both: computing and moving overlap within a task."""
        return max(self.npu_cycles, self.ddr_cycles)

    @property
    def cbuf_fill(self) -> float:
        """The share of its banks that the task fills; 0 for tasks without CBUF."""
        banks = self.data_banks + self.weight_banks
        used = self.cbuf_data_bytes + self.cbuf_weight_bytes
        return used / (banks * self.bank_bytes) if banks else 0.0

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON."""
        facts = asdict(self)
        del facts["bank_bytes"]
        return {**facts, "cycles": self.cycles, "cbuf_fill": round(self.cbuf_fill, 4)}


@dataclass(frozen=True, slots=True)
class ElementWrite:
    """The steps by which one task made the element. ``element`` is (c, h, w) within the task's
    tile, ``address`` where it lies in device memory.

    ``values`` are (stage, value) in the order of the data path; ``registers`` the written ones of
    the register groups that the task used, ``groups`` which of the two that was for each block.
    """

    task: int
    layer: str
    address: int
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
    """The last tasks that wrote an element, in order; the last one's value stays. ``earlier``: how
    many wrote it before these.
    """

    address: int
    writes: tuple[ElementWrite, ...]
    earlier: int = 0

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "address": self.address,
            "earlier": self.earlier,
            "traces": [
                {
                    "task": t.task,
                    "layer": t.layer,
                    "element": dict(zip("chw", t.element, strict=True)),
                    "values": [
                        {"stage": stage, "value": _json_number(value)} for stage, value in t.values
                    ],
                    "output": _json_number(t.output),
                    "registers": dict(t.registers),
                    "groups": dict(t.groups),
                }
                for t in self.writes
            ],
        }

    def text(self, registers: bool = False) -> str:
        """Return the text for people; with ``registers`` every written register, too."""
        lines = [f"element at device address {self.address:#x}"]
        if not self.writes:
            lines.append("no task writes it")
        if self.earlier:
            lines.append(f"written by {self.earlier} tasks before these")
        for write in self.writes:
            c, h, w = write.element
            name = f" ({write.layer})" if write.layer else ""
            lines.append(f"task {write.task}{name}: channel {c}, row {h}, column {w} of its tile")
            groups = ", ".join(f"{block} {group}" for block, group in write.groups)
            lines.append(f"  register groups: {groups}")
            if registers:
                lines += [f"  {register} = {value:#x}" for register, value in write.registers]
            width = max(len(stage) for stage, _ in write.values) if write.values else 0
            lines += [f"  {stage:<{width}}  {value:.10g}" for stage, value in write.values]
            lines.append(f"  {'output':<{width}}  {write.output:.10g}")
        return "\n".join(lines)


def _json_number(value: float) -> float | str:
    """JSON has no infinities and no NaN: these become text."""
    return value if math.isfinite(value) else str(value)


def count(source: Capture | Program) -> tuple[TaskCounters, ...]:
    """Checks every task of ``source`` and returns what each would do, in order of execution.

    Nothing is computed: the work of a task does not depend on values. Raises SimulatorFault.
    """
    if isinstance(source, Program):
        source = _capture(source, [_zeros(b) for b in source.inputs])
    facts = source.simulate(source.memory(), counters=True, dry_run=True)
    bank_bytes = chip_named(source.chip).cbuf.bank_bytes
    return tuple(TaskCounters(**task, bank_bytes=bank_bytes) for task in facts["tasks"])


def explain(
    source: Capture | Program,
    tensor: int | str,
    element: tuple[int, int, int],
    *,
    inputs: Sequence[npt.NDArray[Any]] | None = None,
    chained: bool | None = None,
) -> Explanation:
    """Return why the ``element`` (c, h, w) of ``tensor`` has its value.

    ``tensor``: a check of the capture by its number or the name of its expected array; for a
    program the number of the output. Raises UsageError, SimulatorFault.
    """
    capture = _capture(source, inputs)
    check = _check(capture, tensor)
    base = next(b.dma_address for b in capture.buffers if b.name == check.buffer)
    address = base + _offset(check, element)
    facts = capture.simulate(capture.memory(), chained, probe=address)
    return Explanation(address, _writes(facts), facts["earlier_writes"])


def explain_task(
    source: Capture | Program,
    task: int,
    element: tuple[int, int, int],
    *,
    inputs: Sequence[npt.NDArray[Any]] | None = None,
    chained: bool | None = None,
) -> Explanation:
    """Return why the ``element`` (c, h, w) of what task number ``task`` writes has its value.

    Tasks count over all jobs, in order of execution, and elements from the corner of the task's own
    output; channels of padding exist, too. Raises UsageError, SimulatorFault.
    """
    if task < 0 or min(element) < 0 or max(task, *element) >= _PROBE_LIMIT:
        raise UsageError(f"no task {task} with an element {element}")
    capture = _capture(source, inputs)
    facts = capture.simulate(capture.memory(), chained, probe=(task, *element))
    writes = _writes(facts)
    if not writes:
        tasks = sum(len(job.tasks) for job in capture.jobs)
        raise UsageError(
            f"task {task} of {tasks} writes no element at channel {element[0]}, row {element[1]}, "
            f"column {element[2]}"
        )
    return Explanation(writes[0].address, writes)


def _writes(facts: dict[str, Any]) -> tuple[ElementWrite, ...]:
    def write(found: dict[str, Any]) -> ElementWrite:
        lists = {k: tuple(found[k]) for k in ("element", "values", "registers", "groups")}
        return ElementWrite(**{**found, **lists})

    return tuple(map(write, facts["writes"]))


def _capture(source: Capture | Program, inputs: Sequence[npt.NDArray[Any]] | None) -> Capture:
    if isinstance(source, Capture):
        return source
    if inputs is None:
        raise UsageError("a program computes nothing without the values of its inputs")
    from delegate.insight.program_capture import capture_of_program

    return capture_of_program(source, inputs, [_zeros(b) for b in source.outputs], source.name)


def _zeros(binding: TensorBinding) -> npt.NDArray[Any]:
    return np.zeros(binding.shape, binding.element.dtype)


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
    if check.layout == PLAIN:
        raise UsageError(
            f"{check.expected} is a plain tensor without rows, columns and channels; ask for an "
            "element of a task instead (--task)"
        )
    _, channels, height, width = check.shape_nchw
    c, h, w = element
    if not (0 <= c < channels and 0 <= h < height and 0 <= w < width):
        raise UsageError(
            f"the element of row {h}, column {w}, channel {c} is outside of {check.expected}, "
            f"which has {height} rows, {width} columns and {channels} channels"
        )
    pixel = c // check.c2 * check.surface_pixels + h * width + w
    return check.offset + pixel * _ATOM_BYTES + c % check.c2 * np.dtype(check.dtype).itemsize


_OF_ONE_TASK = (
    "task layer enable_mask data_banks weight_banks cbuf_data_bytes cbuf_weight_bytes bank_bytes"
)
SUMMED = (*(f.name for f in fields(TaskCounters) if f.name not in _OF_ONE_TASK.split()), "cycles")
"""The counters that add up over tasks."""


@dataclass(frozen=True, slots=True)
class LayerCounters:
    """A layer's tasks and what each of them did."""

    layer: ProgramLayer
    tasks: tuple[ProgramTask, ...]
    counters: tuple[TaskCounters, ...]

    def total(self) -> dict[str, Any]:
        """Sums over the tasks; of ``cbuf_fill`` the largest."""
        return sum_counters(self.counters)


def sum_counters(counters: Iterable[TaskCounters]) -> dict[str, Any]:
    """Sums for JSON; of ``cbuf_fill`` the largest."""
    items = list(counters)
    sums: dict[str, Any] = {name: sum(getattr(item, name) for item in items) for name in SUMMED}
    sums["cbuf_fill"] = round(max((item.cbuf_fill for item in items), default=0.0), 4)
    return sums


def count_program(content: bytes) -> tuple[LayerCounters, ...]:
    """Counts a serialised Program. Raises ProgramError, SimulatorFault."""
    program = parse(content)
    tasks = tasks_in_order(program)
    counted = count(program)
    return tuple(
        LayerCounters(
            program.layers[layer],
            tuple(task for task in tasks if task.layer == layer),
            tuple(c for task, c in zip(tasks, counted, strict=True) if task.layer == layer),
        )
        for layer in dict.fromkeys(task.layer for task in tasks)
    )


def tasks_in_order(program: Program) -> list[ProgramTask]:
    """Job after job, as the simulator runs them."""
    jobs = dict.fromkeys(task.job for task in program.tasks)
    return [task for job in jobs for task in program.tasks if task.job == job]
