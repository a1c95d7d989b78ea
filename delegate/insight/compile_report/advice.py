"""Find what dominates a compiled model, and which one change would help most.

Modelled throughout: cycles at the nominal clock, and what ``whole_inference`` says of the CPU,
launches and submits.

The one change to a model, or to its export, that would save the most time by estimate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Final

from delegate.chip.chip import Driver
from delegate.compile.compiler import CompileResult
from delegate.insight.compile_report.causes import BY_CHOICE
from delegate.insight.compile_report.whole_inference import left_to_cpu
from delegate.insight.cpu_time import A76, Cpu
from delegate.npu.perf import estimate_task, hull
from delegate.npu.program_types import total
from delegate.partition.joined_nodes import parts_of
from delegate.partition.partitioner import node_macs
from delegate.partition.partitions import partition_graph

_MOST_SUGGESTIONS = 5
_OPS_IN_PAIRS = 6


def costs(result: CompileResult, drivers: Sequence[Driver] = ()) -> dict[str, Any]:
    """Return where modelled time goes: layers limited by arithmetic, by memory, and launching
    tasks.

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
        partitions = _partitions(result, nodes)
        saved = sum(times.get(node, 0.0) for op in choice for node in rejected[op])
        saved += (len(result.partitions) - partitions) * submit_us
        if partitions <= len(result.partitions) and saved > 0.0:
            found.append((-saved, len(choice), partitions, -len(nodes), choice))
    # The largest gain first; one operator rather than two for the same gain.
    return [
        {"ops": list(choice), "nodes": -nodes, "partitions": partitions, "at_most_us": -saved}
        for saved, _, partitions, nodes, choice in sorted(found)[:_MOST_SUGGESTIONS]
    ]


def _partitions(result: CompileResult, nodes: Collection[int]) -> int:
    """Return how many ``nodes`` become."""
    grouped = partial(partition_graph, result.graph)
    wholes = grouped(nodes)
    return sum(len(parts_of(result.graph, one, result.chip, grouped)) for one in wholes)


_WORTH_IT: Final = 0.05
"""The share of an inference below which a change is not worth the work."""
_LARGE_INPUT: Final = 160 * 160
"""Pixels from which a smaller input is an advice that people can follow."""


def best_change(
    result: CompileResult, document: dict[str, Any], drivers: Sequence[Driver] = ()
) -> dict[str, Any] | None:
    """Return ``change``, a sentence, and the most that it saves, ``at_most_us``: one that keeps
    what the model computes, or else a smaller input. None: nothing would save a twentieth, and
    the NPU has most of the nodes.
    ``document``: ``compile_document`` with its "causes".
    """
    least = _WORTH_IT * document["inference"]["total_us"]
    causes = _by_cause(result, document["causes"], drivers)
    for choices in ([*causes, *_on_the_npu(document)], _smaller(result, document)):
        saved, change = max(choices, default=(0.0, ""))
        if saved > least:
            return {"change": change, "at_most_us": saved}
    if causes and 2 * result.delegated_nodes < result.total_nodes:  # of times that nobody knows
        saved, change = causes[0]
        return {"change": change, "at_most_us": saved}
    return None


def _by_cause(
    result: CompileResult, causes: Sequence[dict[str, Any]], drivers: Sequence[Driver]
) -> list[tuple[float, str]]:
    """Return what each cause with a remedy costs: its nodes on the CPU, the remainders that are
    there for their sake, and submits between them.
    """
    submit_us = hull(one.submit_us for one in drivers or result.chip.rates.drivers).middle
    delegated = {node for compiled in result.partitions for node in compiled.partition.nodes}
    by_choice = [cause for cause in causes if cause["cause"] == BY_CHOICE.sentence]
    remainder = sum(cause["cpu_us"] for cause in by_choice)
    beside = delegated.union(*(cause["nodes"] for cause in by_choice))
    found = []
    for cause in causes:
        if not cause["remedy"]:
            continue
        saved = cause["cpu_us"]
        joined = _partitions(result, beside.union(cause["nodes"]))
        if joined <= len(result.partitions):
            saved += remainder + (len(result.partitions) - joined) * submit_us
        found.append((saved, cause["remedy"]))
    return found


def _on_the_npu(document: dict[str, Any]) -> list[tuple[float, str]]:
    """Return what other activations, or 8 bits instead of fp16, would save on the NPU."""
    moves = document["costs"]["without_macs"]
    found = [
        (
            moves["us"],
            f"{moves['tasks']} of {document['costs']['tasks']} tasks multiply no weights "
            "(activations of their own, additions, moves). ReLU or ReLU6 cost nothing behind a "
            "convolution; docs/models.md says which exports need fewer.",
        )
    ]
    if any(partition["fp16"] for partition in document["partitions"]):
        found.append(
            (
                document["inference"]["npu_us"] / 2,
                "Quantise to int8 (representative_dataset): the NPU takes 8 bits at twice the rate "
                "of fp16, and half the memory.",
            )
        )
    return found


def _smaller(result: CompileResult, document: dict[str, Any]) -> list[tuple[float, str]]:
    """Return what half the pixels would save, where the input is a picture."""
    shapes = [result.graph.tensor(tensor).shape for tensor in result.graph.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][1] * shapes[0][2] < _LARGE_INPUT:
        return []
    height, width = shapes[0][1:3]
    smaller = [max(32, round(side * 0.7 / 32) * 32) for side in (height, width)]
    share = smaller[0] * smaller[1] / (height * width)
    sizes = f"{smaller[0]} x {smaller[1]} instead of {height} x {width}"
    text = f"A smaller input, {sizes}: time on the NPU goes with the pixels, launches stay."
    return [(document["inference"]["npu_us"] * (1 - share), text)]
