"""Estimate what a whole inference takes: the NPU, crossing over to it, and every node left to the
CPU, so that the headline is not the NPU's share alone.

Modelled throughout, nothing in it was measured on a board by this project: the NPU from the best to
the worst that sources say of a driver and its clock (``delegate.npu.perf``), conversion at the
host's bytes per cycle, and the CPU's nodes as int8 kernels on one Cortex-A76, unless rates of a CPU
are given that somebody measured. Custom operators have no model; they are named.

Whole networks that others measured on Rockchip's NPUs, as facts beside an estimate.

A model is taken for a published network by its structure, never by its name: as many layers that
multiply weights but for two (a head may be another or be cut off), and as many multiply-accumulates
but for 3 %. It is the same network then, not the same file: weights, activations and what the host
does may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from delegate.chip.chip import Driver, Measurement, Span
from delegate.chip.chips import every_chip
from delegate.compile.compiler import CompileResult
from delegate.insight.cpu_time import A76, Cpu
from delegate.model.graph import Graph, Node
from delegate.npu.perf import duration, hull, on_any
from delegate.partition.partitioner import conversion_us, node_macs, runs_once

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
    by_clock = {
        str(mhz): [replace(driver, clock_hz=Span(mhz * 1e6, mhz * 1e6)) for driver in chosen]
        for mhz in CLOCKS_MHZ
    }
    custom = {result.graph.node(node).custom_name for node in left}
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
        "unmodelled": sorted(name for name in custom if name is not None),
    }


def npu_parts(
    result: CompileResult, drivers: Sequence[Driver] = (), cores: int = 1
) -> dict[str, Span]:
    """Return microseconds of the NPU and its driver by part, on one of ``cores`` at work."""
    works = [compiled.work for compiled in result.partitions]
    chosen = drivers or result.chip.rates.drivers
    time = on_any(result.chip, works, chosen, cores)
    return {"npu_us": time.work, "launches_us": time.launches, "submits_us": time.submits}


def _host_parts(result: CompileResult, cpu_us: float) -> dict[str, Span]:
    converted = sum(
        conversion_us(
            result.chip.rates, result.graph, (*one.partition.inputs, *one.partition.outputs)
        )
        for one in result.partitions
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


_LAYERS_MAY_DIFFER = 2
_MACS_MAY_DIFFER = 0.03


@dataclass(frozen=True, slots=True)
class Network:
    """A published network. ``layers``: those that multiply weights, in all ``macs`` times."""

    name: str
    layers: int
    macs: float


NETWORKS = (
    Network("MobileNetV1 1.0 224", 28, 569e6),
    Network("MobileNetV2 1.0 224", 53, 300e6),
    Network("ResNet-18 224", 21, 1.81e9),
    Network("SSDLite MobileDet 320", 93, 1.53e9),
    Network("YOLOv8n 320", 64, 1.09e9),
    Network("YOLOv8n 640", 64, 4.37e9),
    Network("YOLOv5n 640", 60, 2.25e9),
    Network("YOLOv5s 640", 60, 8.25e9),
)

_ONE_KICK = "modified rocket, one kick, 800 MHz, half of RK3588's multipliers"
_IAV = "iav/rk3568-npu, 2026-09"
RELATED = {
    "rk3568": (
        Measurement("MobileNetV1 1.0 224", Span(5.4, 5.4), _ONE_KICK, _IAV),
        Measurement("MobileNetV2 1.0 224", Span(6.3, 6.3), _ONE_KICK, _IAV),
        Measurement("ResNet-18 224", Span(10.8, 11.2), f"{_ONE_KICK}; 5.6 ms of it the NPU", _IAV),
        Measurement(
            "YOLOv8n 320", Span(14.9, 14.9), f"{_ONE_KICK}, SiLU fused; 7.9 ms of it the NPU", _IAV
        ),
    )
}
"""Figures of a chip of the family that no program can be compiled for."""


def network_of(graph: Graph) -> Network | None:
    """Return the network that ``graph`` is by its structure; None: none of the table."""
    macs = [count for node in graph.nodes if (count := node_macs(graph, node))]
    return next(
        (
            network
            for network in NETWORKS
            if abs(network.layers - len(macs)) <= _LAYERS_MAY_DIFFER
            and abs(network.macs - sum(macs)) <= _MACS_MAY_DIFFER * network.macs
        ),
        None,
    )


def measured_by_others(graph: Graph) -> list[dict[str, Any]]:
    """Return what others measured of the network that ``graph`` is, as JSON has it."""
    network = network_of(graph)
    if network is None:
        return []
    figures = {chip.name: chip.rates.measured for chip in every_chip()} | RELATED
    return [
        {**asdict(item), "chip": chip, "ms": [item.ms.least, item.ms.most]}
        for chip, items in figures.items()
        for item in items
        if item.network == network.name
    ]
