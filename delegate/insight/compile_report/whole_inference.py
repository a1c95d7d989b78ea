"""Estimate what a whole inference takes: the NPU, crossing over to it, and every node left to the
CPU, so that the headline is not the NPU's share alone.

Modelled throughout, nothing in it was measured on a board by this project: the NPU from the best to
the worst that sources say of a driver and its clock (``delegate.npu.duration``), conversion at the
host's bytes per cycle, and the CPU's nodes as int8 kernels on one Cortex-A76, unless rates of a CPU
are given that somebody measured. Custom operators have no model; they are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from delegate.chip.rates import Driver, Span
from delegate.compile.compiler import CompileResult
from delegate.insight.cpu_time import A76, Cpu
from delegate.insight.measured_nets import measured_by_others
from delegate.model.graph import Graph, Node
from delegate.npu.duration import duration, hull
from delegate.partition.cost import conversion_us, runs_once

CLOCKS_MHZ = (200, 600, 1000)
"""After boot, the highest that others call stable with the mainline driver, and nominal."""


def whole_inference(
    result: CompileResult, cpu: Cpu = A76, drivers: Sequence[Driver] = ()
) -> dict[str, Any]:
    """Return microseconds by part, their sum, and inferences per second; nodes left to the CPU
    take what they take on ``cpu``. ``drivers``: who may run it, at their clocks; none: all of the
    chip's.

    Parts are the middles of their "ranges", and "range_us" is that of the whole, which "by_driver"
    and "by_clock_mhz" tell apart. "once_us": nodes on the CPU that only the first inference runs.
    With several interpreters each has a core of the NPU and one of the CPU; all share the memory.
    Custom operators left to the CPU are in "unmodelled", with their transfers alone in the sum.
    """
    chosen = tuple(drivers or result.chip.rates.drivers)
    left = left_to_cpu(result, cpu)
    host = _host_parts(result, sum(left.values()))
    ranges = npu_parts(result, chosen) | host
    parts = {name: span.middle for name, span in ranges.items()}
    by_clock = {str(mhz): [_at(driver, mhz * 1e6) for driver in chosen] for mhz in CLOCKS_MHZ}
    return {
        **parts,
        "cpu": cpu.machine,
        "total_us": sum(parts.values()),
        "range_us": _range(result, chosen, host),
        "ranges": {name: [span.least, span.most] for name, span in ranges.items()},
        "driver": chosen[0].name if len(chosen) == 1 else None,
        "by_driver": {
            driver.name: {
                "clock_mhz": [driver.clock_hz.least / 1e6, driver.clock_hz.most / 1e6],
                "range_us": _range(result, [driver], host),
            }
            for driver in chosen
        },
        "by_clock_mhz": {mhz: _range(result, some, host) for mhz, some in by_clock.items()},
        "measured_by_others": measured_by_others(result.graph),
        "cpu_alone_us": sum(inference_us(cpu, result.graph, n) for n in result.graph.nodes),
        "once_us": sum(
            cpu.node_us(result.graph, node)
            for node in map(result.graph.node, left)
            if runs_once(result.graph, node)
        ),
        "frames_per_second": _rates(result, chosen, host),
        "unmodelled": _custom_operators(result.graph, left),
    }


def npu_parts(
    result: CompileResult, drivers: Sequence[Driver] = (), cores: int = 1
) -> dict[str, Span]:
    """Return microseconds of the NPU and its driver by part, on one of ``cores`` at work."""
    works = [compiled.work for compiled in result.partitions]
    chosen = drivers or result.chip.rates.drivers
    times = [duration(result.chip, works, driver, cores) for driver in chosen]
    return {
        "npu_us": hull(time.work for time in times),
        "launches_us": hull(time.launches for time in times),
        "submits_us": hull(time.submits for time in times),
    }


def _host_parts(result: CompileResult, cpu_us: float) -> dict[str, Span]:
    converted = sum(
        conversion_us(result.chip.rates, result.graph, compiled.partition)
        for compiled in result.partitions
    )
    return {"conversion_us": Span(converted, converted), "cpu_us": Span(cpu_us, cpu_us)}


def _range(result: CompileResult, drivers: Sequence[Driver], host: dict[str, Span]) -> list[float]:
    """Return microseconds of the whole: of the best of ``drivers`` at best, the worst at worst."""
    works = [compiled.work for compiled in result.partitions]
    whole = hull(duration(result.chip, works, driver).total for driver in drivers)
    besides = sum(span.middle for span in host.values())
    return [whole.least + besides, whole.most + besides]


def _rates(
    result: CompileResult, drivers: Sequence[Driver], host: dict[str, Span]
) -> dict[str, float]:
    """Return inferences per second by the number of interpreters, a core each."""
    found = {}
    for cores in range(1, result.chip.cores + 1):
        parts = npu_parts(result, drivers, cores) | host
        whole = sum(span.middle for span in parts.values())
        if whole:
            found[str(cores)] = cores * 1e6 / whole
    return found


def _at(driver: Driver, clock_hz: float) -> Driver:
    return replace(driver, clock_hz=Span(clock_hz, clock_hz))


def inference_us(cpu: Cpu, graph: Graph, node: Node) -> float:
    """Return microseconds of a node on ``cpu`` in every inference but the first."""
    return 0.0 if runs_once(graph, node) else cpu.node_us(graph, node)


def left_to_cpu(result: CompileResult, cpu: Cpu = A76) -> dict[int, float]:
    """Return microseconds per inference on the CPU of every node left there, by its number."""
    delegated = {node for compiled in result.partitions for node in compiled.partition.delegated}
    return {
        node.index: inference_us(cpu, result.graph, node)
        for node in result.graph.nodes
        if node.index not in delegated
    }


def _custom_operators(graph: Graph, nodes: dict[int, float]) -> list[str]:
    names = {graph.node(node).custom_name for node in nodes}
    return sorted(name for name in names if name is not None)


def left_by_rule(result: CompileResult, cpu: Cpu = A76) -> list[dict[str, Any]]:
    """Return what is left to the CPU by operator and rule: how many nodes, their time there, and
    each reason once; what costs most first.
    """
    times = left_to_cpu(result, cpu)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for rejection in result.rejections:
        group = groups.setdefault(
            (rejection.op, rejection.rule),
            {"op": rejection.op, "rule": rejection.rule, "nodes": [], "cpu_us": 0.0, "reasons": []},
        )
        group["nodes"].append(rejection.node)
        group["cpu_us"] += times.get(rejection.node, 0.0)
        if rejection.detail not in group["reasons"]:
            group["reasons"].append(rejection.detail)
    return sorted(groups.values(), key=lambda group: -group["cpu_us"])
