"""Find what dominates a compiled model, and which one change would help most.

Modelled throughout: cycles at the nominal clock, and what ``whole_inference`` says of the CPU,
launches and submits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from delegate.chip.rates import Driver
from delegate.compile.compiler import CompileResult
from delegate.insight.compile_report.whole_inference import left_to_cpu
from delegate.insight.cpu_time import A76, Cpu
from delegate.npu.duration import hull
from delegate.npu.perf import estimate_task, total
from delegate.partition.partitioner import node_macs, partition_graph

_MOST_SUGGESTIONS = 5
_OPS_IN_PAIRS = 6


def costs(result: CompileResult, drivers: Sequence[Driver] = ()) -> dict[str, Any]:
    """Where modelled time goes: layers limited by arithmetic, by memory, and launching tasks.

    "without_macs": what layers take that multiply no weights (functions, sums, moves), their
    launches included: what another export of the same network may not need.
    """
    npu = ddr = 0
    tasks = sum(compiled.tasks for compiled in result.partitions)
    kick_us = hull(one.kick_us for one in drivers or result.chip.rates.drivers).middle
    layers = []
    moves = {"tasks": 0, "us": 0.0}
    for number, compiled in enumerate(result.partitions):
        # Loads of tables, which belong to no layer alone, only move data.
        ddr += compiled.estimate.cycles
        for layer in compiled.layers:
            estimate = total(estimate_task(result.chip, task) for task in layer.tasks)
            ddr -= estimate.cycles
            if estimate.limit == "npu":
                npu += estimate.cycles
            else:
                ddr += estimate.cycles
            layers.append((estimate.cycles, number, layer.op, layer.name))
            if not any(node_macs(result.graph, result.graph.node(n)) for n in layer.nodes):
                moves["tasks"] += len(layer.tasks)
                moves["us"] += result.chip.rates.microseconds(estimate.cycles)
                moves["us"] += len(layer.tasks) * kick_us
    layers.sort(key=lambda item: -item[0])
    cycles, rates = npu + ddr, result.chip.rates
    parts = {
        "npu_limited_us": rates.microseconds(npu),
        "ddr_limited_us": rates.microseconds(ddr),
        "launches_us": tasks * kick_us,
    }
    return {
        **parts,
        "tasks": tasks,
        "submits": len(result.partitions),
        "without_macs": moves,
        "dominant": max(parts, key=lambda name: parts[name]).removesuffix("_us") if tasks else None,
        "largest_layers": [
            {
                "partition": number,
                "op": op,
                "name": name,
                "cycles": own,
                "share": own / cycles if cycles else 0.0,
            }
            for own, number, op, name in layers[:_MOST_SUGGESTIONS]
        ],
    }


def suggestions(
    result: CompileResult, cpu: Cpu = A76, drivers: Sequence[Driver] = ()
) -> list[dict[str, Any]]:
    """Operators whose support would help most, alone or in pairs, best first.

    Each tells how many partitions and delegated nodes there would be if all of the model's rejected
    nodes of these operators ran on the NPU, and the most that this could gain: their time on the
    CPU and the submits that fall away. What they would take on the NPU is not known.
    """
    graph = result.graph
    now = {node for compiled in result.partitions for node in compiled.partition.delegated}
    rejected: dict[str, set[int]] = {}
    for rejection in result.rejections:
        rejected.setdefault(rejection.op, set()).add(rejection.node)
    ops = sorted(rejected, key=lambda op: (-len(rejected[op]), op))
    choices = [(op,) for op in ops] + list(combinations(ops[:_OPS_IN_PAIRS], 2))
    times = left_to_cpu(result, cpu)
    submit_us = hull(one.submit_us for one in drivers or result.chip.rates.drivers).middle
    found: list[tuple[float, int, int, int, tuple[str, ...]]] = []
    for choice in choices:
        nodes = now.union(*(rejected[op] for op in choice))
        partitions = len(partition_graph(graph, nodes))
        saved = sum(times.get(node, 0.0) for op in choice for node in rejected[op])
        saved += (len(result.partitions) - partitions) * submit_us
        if partitions <= len(result.partitions) and saved > 0.0:
            found.append((-saved, len(choice), partitions, -len(nodes), choice))
    # The largest gain first; one operator rather than two for the same gain.
    return [
        {"ops": list(choice), "nodes": -nodes, "partitions": partitions, "at_most_us": -saved}
        for saved, _, partitions, nodes, choice in sorted(found)[:_MOST_SUGGESTIONS]
    ]
