"""Measures how long a model takes: with the delegate and on the CPU alone, by phases and by
operators; through LiteRT's CompiledModel as a whole.

Measured and modelled numbers never share a field: "estimate" holds what the compiler models, every
"..._ms" what a clock said. On the simulator the clock says how long simulating took, nothing about
an NPU; "is_simulated" tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from delegate.compile.compiler import CompileResult, compile_model
from delegate.errors import DelegateError
from delegate.host.chosen import drivers_at
from delegate.host.delegated import DelegatedModel, ReferenceModel
from delegate.host.host_facts import clocks_hz, host_facts
from delegate.host.litert import LITERT_RUNTIME, LiteRtModel
from delegate.host.runtimes import find_runtime, invoke
from delegate.host.samples import Sample
from delegate.insight.compile_report.whole_inference import whole_inference
from delegate.insight.inferences import CpuSpan, Inference, Run, run_inferences
from delegate.insight.process_memory import memory_document
from delegate.insight.simulated_run import count_program, sum_counters
from delegate.options import Options

FORMAT = "rk3588-bench-1"

SIMULATOR = "simulator"
NULL_DEVICE = "null"
"""The device whose times are the host's share; an inference that computes nothing has no speed-up.
"""

_NS_PER_MS = 1e6
_PERCENTILES = (50, 90, 95, 99)
_TURN = 5

Done = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a measurement. ``threads`` None: the runtime's default, on the simulator
    one. ``with_litert``: through CompiledModel, too.
    """

    warmup: int
    runs: int
    threads: int | None
    with_cpu: bool
    with_litert: bool = False


def summary(times_ns: Sequence[int]) -> dict[str, float | int]:
    """Statistics of a series, in milliseconds; percentiles interpolate linearly."""
    values = np.asarray(times_ns, dtype=np.float64) / _NS_PER_MS
    return {
        "count": len(values),
        "mean_ms": float(values.mean()),
        "std_ms": float(values.std()),
        "min_ms": float(values.min()),
        "max_ms": float(values.max()),
        **{f"p{part}_ms": float(np.percentile(values, part)) for part in _PERCENTILES},
    }


def benchmark(
    path: Path, options: Options, sample_of: Callable[[Any], Sample], plan: Plan, done: Done
) -> dict[str, Any]:
    """Measures a model; the document that ``bench --json`` prints.

    ``sample_of`` gives the input for the runtime's input details. ``done`` is called after every
    inference. Raises what loading and running a model raise.
    """
    from delegate._native import open_device_name

    threads = plan.threads
    if threads is None and open_device_name(options.device, options.strict) == SIMULATOR:
        # What the simulator is compared with runs on one thread by default.
        threads = 1
    result = compile_model(path, options)
    memory = memory_document(path, options, threads, with_cpu=plan.with_cpu)
    start = time.monotonic_ns()
    model = DelegatedModel.load(path, options, threads=threads)
    init_ns = time.monotonic_ns() - start
    ours = _Delegated(model, result, sample_of(model.inputs), init_ns, options)
    cpu = _on_cpu(path, sample_of, threads) if plan.with_cpu else None
    litert = _by_litert(path, options, ours) if plan.with_litert else None
    others = [part for part in (cpu, litert) if part is not None]
    remaining = 1 + plan.warmup + plan.runs
    while remaining:
        # In turns, so that both meet the same moods of the machine.
        count = min(_TURN, remaining)
        ours.run(count, done)
        for part in others:
            part.run(count, done)
        remaining -= count
    document: dict[str, Any] = {
        "format": FORMAT,
        "model": path.name,
        "host": host_facts(find_runtime()),
        "threads": threads,
        "options": options.to_strings(),
        "delegate": ours.document(plan),
        "cpu": cpu.document(plan) if cpu is not None else None,
        "memory": memory,
    }
    facts = document["delegate"]
    median = facts["steady"]["p50_ms"]
    if litert is not None:
        found = document["compiled_model"] = litert.document(plan)
        document["compiled_model_ratio"] = found["steady"]["p50_ms"] / median
    if cpu is not None and (facts["device"] != NULL_DEVICE or not facts["delegated_nodes"]):
        ratio = median / document["cpu"]["steady"]["p50_ms"]
        # What the simulator takes is no statement about an NPU: it has no speed-up.
        if facts["is_simulated"]:
            document["simulator_ratio"] = ratio
        else:
            document["speedup"] = 1 / ratio
    return document


@dataclass(slots=True)
class _Delegated:
    """The model with the delegate, and its inferences so far."""

    model: DelegatedModel
    result: CompileResult
    sample: Sample
    init_ns: int
    options: Options
    inferences: list[Inference] = field(default_factory=list)
    clocks_hz: list[int] = field(default_factory=list)

    def run(self, count: int, done: Done) -> None:
        self.inferences += run_inferences(self.model, self.result, self.sample, count, done)
        if self.model.device not in (SIMULATOR, NULL_DEVICE):
            self.clocks_hz += clocks_hz()  # at once, before an idle core goes to sleep

    def document(self, plan: Plan) -> dict[str, Any]:
        first = self.inferences[0]
        steady = self.inferences[1 + plan.warmup :]
        clocks = self.clocks_hz
        drivers = drivers_at(self.options.device, self.result.chip, clocks)
        return {
            "device": self.model.device,
            "is_simulated": self.model.device == SIMULATOR,
            "delegated_nodes": self.model.delegation.delegated_nodes,
            "total_nodes": self.model.delegation.total_nodes,
            "init_ms": self.init_ns / _NS_PER_MS,
            "compile_ms": self.result.compile_seconds * 1e3,
            "first_ms": (first.end_ns - first.start_ns) / _NS_PER_MS,
            "npu_clock_mhz": [min(clocks) / 1e6, max(clocks) / 1e6] if clocks else None,
            "steady": summary([i.end_ns - i.start_ns for i in steady]),
            "phases": _phases(steady),
            "inference_estimate": whole_inference(self.result, drivers=drivers),
            "partitions": _partitions(steady, self.result),
            "cpu_nodes": _cpu_nodes(steady, self.result),
        }


@dataclass(slots=True)
class _Timed:
    """Another way to run the model: ``run_once`` is an inference, ``facts`` what else is told of
    it; with the times of its inferences so far.
    """

    run_once: Callable[[], object]
    init_ns: int
    facts: dict[str, Any] = field(default_factory=dict)
    times_ns: list[int] = field(default_factory=list)

    def run(self, count: int, done: Done) -> None:
        for _ in range(count):
            begin = time.monotonic_ns()
            self.run_once()
            self.times_ns.append(time.monotonic_ns() - begin)
            done()

    def document(self, plan: Plan) -> dict[str, Any]:
        return {
            **self.facts,
            "init_ms": self.init_ns / _NS_PER_MS,
            "first_ms": self.times_ns[0] / _NS_PER_MS,
            "steady": summary(self.times_ns[1 + plan.warmup :]),
        }


def _on_cpu(path: Path, sample_of: Callable[[Any], Sample], threads: int | None) -> _Timed:
    """Load the model without the delegate."""
    start = time.monotonic_ns()
    model = ReferenceModel.load(path, reference_kernels=False, threads=threads)
    init_ns = time.monotonic_ns() - start
    model.give(sample_of(model.inputs))
    return _Timed(lambda: invoke(model.interpreter), init_ns)


def _by_litert(path: Path, options: Options, ours: _Delegated) -> _Timed:
    """Load the model as LiteRT's CompiledModel."""
    runtime = find_runtime().name
    if runtime != LITERT_RUNTIME:
        raise DelegateError(
            f"CompiledModel is measured beside {LITERT_RUNTIME}'s interpreter, and the runtime "
            f"here is {runtime}; use an environment without it"
        )
    start = time.monotonic_ns()
    model = LiteRtModel.load(path, options.given())
    init_ns = time.monotonic_ns() - start
    model.give(ours.model.inputs, ours.sample)
    return _Timed(
        model.run, init_ns, {"is_fully_accelerated": model.compiled.is_fully_accelerated()}
    )


_PHASES = {
    "input_conversion_ms": ("start_ns", "converted_ns"),
    "submit_ms": ("converted_ns", "submitted_ns"),
    "wait_ms": ("submitted_ns", "done_ns"),
    "device_ms": ("converted_ns", "done_ns"),
    "output_conversion_ms": ("done_ns", "end_ns"),
    "total_ms": ("start_ns", "end_ns"),
}
"""The moments at which phases of a run begin and end."""


def _mean_ms(spans: Sequence[Run | CpuSpan], phase: str = "total_ms") -> float | None:
    """Return the mean time of a phase. None: devices do not tell submit and wait apart."""
    begin, end = _PHASES[phase]
    pairs = [(getattr(span, begin), getattr(span, end)) for span in spans]
    if any(None in pair for pair in pairs):
        return None
    return float(np.mean([end - begin for begin, end in pairs])) / _NS_PER_MS if pairs else 0.0


def _phases(inferences: Sequence[Inference]) -> dict[str, float]:
    """Return where the time of a mean inference goes, all partitions together."""
    runs = [run for inference in inferences for run in inference.runs]
    cpu = [span for inference in inferences for span in inference.cpu]
    names = ("input_conversion_ms", "device_ms", "output_conversion_ms")
    found = {name: (_mean_ms(runs, name) or 0.0) * len(runs) for name in names}
    found["cpu_operators_ms"] = (_mean_ms(cpu) or 0.0) * len(cpu)
    return {name: time / len(inferences) for name, time in found.items()}


def _partitions(inferences: Sequence[Inference], result: CompileResult) -> list[dict[str, Any]]:
    rows = []
    for number, compiled in enumerate(result.partitions):
        nodes = compiled.partition.delegated
        runs = [run for i in inferences for run in i.runs if run.first_node == nodes[0]]
        layers = count_program(compiled.program)
        rows.append(
            {
                "partition": number,
                "nodes": list(nodes),
                "tasks": compiled.tasks,
                "measured": {name: _mean_ms(runs, name) for name in _PHASES} if runs else None,
                "estimate": asdict(compiled.estimate),
                "counters": sum_counters(c for layer in layers for c in layer.counters),
                "layers": [
                    {
                        "name": layer.layer.name,
                        "op": layer.layer.op,
                        "nodes": list(layer.layer.nodes),
                        "tasks": len(layer.tasks),
                        "counters": layer.total(),
                    }
                    for layer in layers
                ],
            }
        )
    return rows


def _cpu_nodes(inferences: Sequence[Inference], result: CompileResult) -> list[dict[str, Any]]:
    """Mean times of the runs of CPU nodes, in order; those of no nodes are the runtime's own."""
    rows = []
    for number in range(min((len(i.cpu) for i in inferences), default=0)):
        spans = [inference.cpu[number] for inference in inferences]
        nodes = spans[0].nodes
        rows.append(
            {
                "nodes": list(nodes),
                "ops": [result.graph.node(node).op for node in nodes],
                "mean_ms": _mean_ms(spans),
            }
        )
    return rows
