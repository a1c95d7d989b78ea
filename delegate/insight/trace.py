"""Inferences as a Chrome trace, which ui.perfetto.dev and chrome://tracing open.

Two processes: "host", whose times a clock measured (invokes, CPU operators, conversion, submit and
wait), and "NPU", with a track per core and one of partitions. On hardware the NPU's jobs lie where
the host waited for them, and the tasks inside share that time by their estimates: the hardware
reports no times of single tasks. On the simulator the NPU's times are modelled altogether: each
partition begins when the host submits it and takes as long as the model says, which is less than
the simulator's time. Names and arguments say which is which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from delegate.compile.compiler import CompiledPartition, CompileResult
from delegate.insight.inferences import Inference, Run
from delegate.insight.simulated_run import TaskCounters, count, tasks_in_order
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Estimate, Program
from delegate.version import __version__

_HOST, _NPU = 1, 2
_INVOKES, _OPERATORS = 1, 2
_PARTITIONS = 1
_FIRST_CORE = 2

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A partition's program, its name and what every task of it does."""

    number: int
    compiled: CompiledPartition
    program: Program
    counters: Mapping[int, TaskCounters]  # by the offset of the task's commands

    @property
    def title(self) -> str:
        return f"partition {self.number}: {self.program.name}"


def chrome_trace(
    inferences: Sequence[Inference], result: CompileResult, device: str, model: str
) -> dict[str, Any]:
    """The JSON document of a trace. Times in it are microseconds from the first invoke on."""
    is_modelled = device in ("simulator", "null", "cpu")
    launches = ", ".join(f"{one.name} {one.kick_us.least:g}" for one in result.chip.rates.drivers)
    placed = {
        compiled.partition.delegated[0]: _place(number, compiled)
        for number, compiled in enumerate(result.partitions)
    }
    events = list(_names(result.chip.cores, is_modelled))
    origin = inferences[0].start_ns if inferences else 0
    modelled_us = 0.0
    flow = 0
    for number, inference in enumerate(inferences):
        times = inference.start_ns, inference.end_ns
        events.append(_measured(origin, "invoke", _INVOKES, *times, inference=number))
        events += _operators(inference, result, origin)
        for run in inference.runs:
            first = run.first_node
            part = placed.get(first) if first is not None else None
            title = part.title if part is not None else run.name
            begin, end = run.converted_ns - origin, run.done_ns - origin
            events += _host_phases(title, run, origin)
            if part is None:
                continue
            flow += 1
            if is_modelled:
                start_us = max(modelled_us, begin / 1e3)
                length_us = result.chip.rates.microseconds(part.compiled.estimate.cycles)
                modelled_us = start_us + length_us
            else:
                start_us, length_us = begin / 1e3, (end - begin) / 1e3
            events += _flow(flow, begin / 1e3, start_us)
            events += _npu(part, result.chip.cores, start_us, length_us, is_modelled)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "model": model,
            "device": device,
            "version": __version__,
            "npu_times": "modelled" if is_modelled else "jobs measured, tasks shared by estimate",
            "assumptions": (
                f"modelled cycles at {result.chip.rates.clock_hz // 1_000_000} MHz, without the "
                f"launching of tasks (us each, at least: {launches}) and the host"
            ),
        },
    }


def _place(number: int, compiled: CompiledPartition) -> _Placed:
    program = parse(compiled.program)
    offsets = [task.regcmd_offset for task in tasks_in_order(program)]
    return _Placed(number, compiled, program, dict(zip(offsets, count(program), strict=True)))


def _names(cores: int, is_modelled: bool) -> Iterator[Event]:
    kind = "modelled, not measured" if is_modelled else "jobs measured, tasks by estimate"
    yield _metadata("process_name", _HOST, 0, {"name": "host (measured)"})
    yield _metadata("process_name", _NPU, 0, {"name": f"NPU ({kind})"})
    yield _metadata("process_sort_index", _HOST, 0, {"sort_index": 0})
    yield _metadata("process_sort_index", _NPU, 0, {"sort_index": 1})
    yield _metadata("thread_name", _HOST, _INVOKES, {"name": "invoke and delegate"})
    yield _metadata("thread_name", _HOST, _OPERATORS, {"name": "CPU operators"})
    yield _metadata("thread_name", _NPU, _PARTITIONS, {"name": "partitions"})
    for core in range(cores):
        yield _metadata("thread_name", _NPU, _FIRST_CORE + core, {"name": f"core {core}"})


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": args}


def _measured(origin: int, name: str, tid: int, begin_ns: int, end_ns: int, **args: Any) -> Event:
    """A span of the host."""
    times = (begin_ns - origin) / 1e3, (end_ns - begin_ns) / 1e3
    return _span(name, _HOST, tid, *times, {**args, "measured": True})


def _span(
    name: str, pid: int, tid: int, start_us: float, length_us: float, args: dict[str, Any]
) -> Event:
    return {
        "name": name,
        "cat": "host" if pid == _HOST else "npu",
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": start_us,
        "dur": max(length_us, 0.0),
        "args": args,
    }


def _operators(inference: Inference, result: CompileResult, origin: int) -> Iterator[Event]:
    for span in inference.cpu:
        if not span.nodes:
            continue
        ops = [result.graph.node(node).op for node in span.nodes]
        name = ", ".join(dict.fromkeys(ops))
        times = span.start_ns, span.end_ns
        yield _measured(origin, name, _OPERATORS, *times, nodes=list(span.nodes), ops=ops)


def _host_phases(title: str, run: Run, origin: int) -> Iterator[Event]:
    between = [("submit and wait", run.converted_ns, run.done_ns)]
    if run.submitted_ns is not None:
        handed_over = run.submitted_ns
        between = [("submit", run.converted_ns, handed_over), ("wait", handed_over, run.done_ns)]
    for name, begin_ns, end_ns in (
        (title, run.start_ns, run.end_ns),
        ("input conversion", run.start_ns, run.converted_ns),
        *between,
        ("output conversion", run.done_ns, run.end_ns),
    ):
        yield _measured(origin, name, _INVOKES, begin_ns, end_ns, program=run.name)


def _flow(number: int, submit_us: float, start_us: float) -> Iterator[Event]:
    """An arrow from the submit on the host to the partition on the NPU."""
    common = {"name": "submit", "cat": "flow", "id": number}
    yield {**common, "ph": "s", "pid": _HOST, "tid": _INVOKES, "ts": submit_us}
    yield {**common, "ph": "f", "bp": "e", "pid": _NPU, "tid": _PARTITIONS, "ts": start_us}


def _npu(
    part: _Placed, cores: int, start_us: float, length_us: float, is_modelled: bool
) -> Iterator[Event]:
    """The partition, its jobs, their layers and tasks. Jobs go to the core that is free first."""
    program = part.program
    total = max(program.estimate.cycles, 1)
    scale = length_us / total  # microseconds per modelled cycle
    label = (
        {"modelled": True} if is_modelled else {"job_measured": True, "task_times": "by estimate"}
    )
    yield _span(
        part.title, _NPU, _PARTITIONS, start_us, length_us,
        {
            **label,
            "estimate": _estimate_args(program.estimate),
            "nodes": list(part.compiled.partition.delegated),
        },
    )  # fmt: skip
    free = [start_us] * cores
    for job in dict.fromkeys(task.job for task in program.tasks):
        core = free.index(min(free))
        moment = free[core]
        tasks = [task for task in program.tasks if task.job == job]
        length = sum(task.estimate.cycles for task in tasks) * scale
        track = _FIRST_CORE + core
        yield _span(f"job {job}", _NPU, track, moment, length, {**label, "tasks": len(tasks)})
        for layer in dict.fromkeys(task.layer for task in tasks):
            members = [task for task in tasks if task.layer == layer]
            cycles = sum(task.estimate.cycles for task in members)
            facts = program.layers[layer]
            yield _span(
                facts.name or facts.op, _NPU, track, moment, cycles * scale,
                {**label, "op": facts.op, "nodes": list(facts.nodes), "tasks": len(members)},
            )  # fmt: skip
            for task in members:
                duration = task.estimate.cycles * scale
                yield _span(
                    task.tile or facts.op, _NPU, track, moment, duration,
                    {
                        **label,
                        "estimate": _estimate_args(task.estimate),
                        "layer": facts.name,
                        "counters": part.counters[task.regcmd_offset].as_dict(),
                    },
                )  # fmt: skip
                moment += duration
        free[core] = moment


def _estimate_args(estimate: Estimate) -> dict[str, Any]:
    return {**asdict(estimate), "limit": estimate.limit}
