"""What a whole inference takes by estimate: the NPU, crossing over to it, and every node left to
the CPU, so that the headline is not the NPU's share alone.

Modelled throughout, nothing in it was measured on a board by this project: cycles at the chip's
clock, a task's launch and a submit as others measured them (``delegate.partition.cost``),
conversion at the host's bytes per cycle, and the CPU's nodes as int8 kernels on one Cortex-A76,
unless rates of a CPU are given that somebody measured.
Custom operators have no model; they are named.
"""

from __future__ import annotations

from typing import Any

from delegate.compile.compiler import CompileResult
from delegate.insight.cpu_time import A76, Cpu
from delegate.model.graph import Graph
from delegate.partition.cost import LEAST_CROSSING_US, LEAST_TASK_US, tensor_bytes

INTERPRETERS = (1, 3)
"""One inference at a time, and one on each of the chip's three cores at once."""


def whole_inference(result: CompileResult, cpu: Cpu = A76) -> dict[str, Any]:
    """Microseconds by part, their sum, and inferences per second; nodes left to the CPU take what
    they take on ``cpu``.

    With several interpreters each has a core of the NPU and one of the CPU; all share the memory,
    so there are no more inferences per second than its transfers allow. Custom operators left to
    the CPU are in "unmodelled", with their transfers alone in the sum.
    """
    rates = result.chip.rates
    cycles = sum(compiled.estimate.cycles for compiled in result.partitions)
    memory = sum(compiled.estimate.ddr_cycles for compiled in result.partitions)
    edges = sum(
        tensor_bytes(result.graph, tensor)
        for compiled in result.partitions
        for tensor in (*compiled.partition.inputs, *compiled.partition.outputs)
    )
    left = left_to_cpu(result, cpu)
    parts = {
        "npu_us": rates.microseconds(cycles),
        "launches_us": sum(compiled.tasks for compiled in result.partitions) * LEAST_TASK_US,
        "submits_us": len(result.partitions) * LEAST_CROSSING_US,
        "conversion_us": rates.microseconds(edges // rates.host_bytes_per_cycle),
        "cpu_us": sum(left.values()),
    }
    whole = sum(parts.values())
    memory_us = rates.microseconds(memory)
    rate = {
        str(count): min(count * 1e6 / whole, 1e6 / memory_us if count > 1 and memory_us else 1e12)
        for count in INTERPRETERS
        if whole
    }
    return {
        **parts,
        "cpu": cpu.machine,
        "total_us": whole,
        "cpu_alone_us": sum(cpu.node_us(result.graph, node) for node in result.graph.nodes),
        "frames_per_second": rate,
        "unmodelled": _custom_operators(result.graph, left),
    }


def left_to_cpu(result: CompileResult, cpu: Cpu = A76) -> dict[int, float]:
    """Microseconds on the CPU of every node that is not delegated, by its number."""
    delegated = {node for compiled in result.partitions for node in compiled.partition.nodes}
    return {
        node.index: cpu.node_us(result.graph, node)
        for node in result.graph.nodes
        if node.index not in delegated
    }


def _custom_operators(graph: Graph, nodes: dict[int, float]) -> list[str]:
    names = {graph.node(node).custom_name for node in nodes}
    return sorted(name for name in names if name is not None)


def left_by_rule(result: CompileResult, cpu: Cpu = A76) -> list[dict[str, Any]]:
    """What is left to the CPU by operator and rule: how many nodes, their time there, and each
    reason once; what costs most first.
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
