"""The document of ``compile --json``, which the HTML page shows: every number has one source.

In: a CompileResult. Out: plain values for JSON. Everything about time in it is modelled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from delegate.chip.chip import Chip
from delegate.chip.rates import Driver
from delegate.compile.compiler import CompiledPartition, CompileResult
from delegate.insight.compile_report.advice import costs, suggestions
from delegate.insight.compile_report.best_change import best_change
from delegate.insight.compile_report.causes import causes_of
from delegate.insight.compile_report.forms import forms_document
from delegate.insight.compile_report.half_bounds import INPUTS, half_bounds
from delegate.insight.compile_report.memory_plan import scratch_plan
from delegate.insight.compile_report.repeats import Block, repeated_blocks
from delegate.insight.compile_report.whole_inference import left_by_rule, whole_inference
from delegate.insight.cpu_time import A76, Cpu
from delegate.insight.layer_counters import count_program, sum_counters
from delegate.lower.lowered import Layer
from delegate.lower.task import BufferId, ConvTask, Task
from delegate.model.graph import Graph
from delegate.npu.perf import estimate_task, total
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Program
from delegate.partition.partitioner import node_macs

_ROWS = re.compile(r"rows (\d+)\.\.(\d+)")


def compile_document(
    result: CompileResult,
    *,
    counters: bool = False,
    cpu: Cpu = A76,
    inputs: tuple[float, float] = INPUTS,
    drivers: Sequence[Driver] = (),
) -> dict[str, Any]:
    """Partitions with their layers, rejections, what dominates and what would help most.

    With ``counters`` also what each task does, counted by the simulator. ``cpu``: whose nodes left
    there are, for their time. ``inputs``: from where to where float32 inputs of partitions are, for
    bounds in fp16. ``drivers``: who may run it, for its time; none: all of the chip's. Raises
    ValueError if fp16 does not reach there.
    """
    programs = [parse(compiled.program) for compiled in result.partitions]
    left = left_by_rule(result, cpu)
    document: dict[str, Any] = {
        "partitions": [
            _partition(result.chip, result.graph, compiled, program)
            | {"fp16": half_bounds(result.graph, compiled, inputs)}
            | (_counters(compiled) if counters else {})
            for compiled, program in zip(result.partitions, programs, strict=True)
        ],
        "rejections": [
            {"node": r.node, "op": r.op, "rule": r.rule, "detail": r.detail}
            for r in result.rejections
        ],
        "delegated_nodes": result.delegated_nodes,
        "total_nodes": result.total_nodes,
        "compile_seconds": result.compile_seconds,
        "forms": forms_document(result.chip, programs),
        "costs": costs(result, drivers),
        "inference": whole_inference(result, cpu, drivers),
        "left_to_cpu": left,
        "causes": causes_of(left),
        "suggestions": suggestions(result, cpu, drivers),
    }
    return document | {"best_change": best_change(result, document, drivers)}


def page_document(
    result: CompileResult, title: str, cpu: Cpu = A76, drivers: Sequence[Driver] = ()
) -> dict[str, Any]:
    """What the page needs besides: the graph, tiles and the memory plan."""
    delegated = {
        node: number
        for number, compiled in enumerate(result.partitions)
        for node in compiled.partition.delegated
    }
    return {
        "title": title,
        "compile": compile_document(result, cpu=cpu, drivers=drivers),
        "graph": _graph(result.graph, delegated),
        "blocks": _blocks(result.graph, delegated),
        "tiles": [[_tiles(result.chip, layer) for layer in c.layers] for c in result.partitions],
        "memory": [scratch_plan(compiled.layers) for compiled in result.partitions],
        "hardware": {
            "cbuf_banks": result.chip.cbuf.banks,
            "bytes_per_cycle": result.chip.rates.bus_decibytes_per_cycle / 10,
        },
    }


def _blocks(graph: Graph, delegated: Mapping[int, int]) -> list[list[int]]:
    """Of the graph's nodes in their order: first, length and times of what repeats in one place."""
    items = [(node.op, delegated.get(node.index)) for node in graph.nodes]
    return [[block.first, block.length, block.times] for block in _in_one_place(items)]


def _in_one_place(items: Sequence[tuple[str, int | None]]) -> list[Block]:
    """A block may not go over a border: its box has the colour of where it runs."""
    blocks: list[Block] = []
    first = 0
    for _, group in groupby(items, key=lambda item: item[1]):
        part = [op for op, _ in group]
        blocks += [replace(block, first=first + block.first) for block in repeated_blocks(part)]
        first += len(part)
    return blocks


def _partition(
    chip: Chip, graph: Graph, compiled: CompiledPartition, program: Program
) -> dict[str, Any]:
    return {
        "nodes": list(compiled.partition.delegated),
        "tasks": compiled.tasks,
        "estimate": asdict(compiled.estimate),
        "buffers_bytes": compiled.buffers_bytes,
        "live_bytes": compiled.live_bytes,
        "buffers": {
            BufferId(i).name.lower(): buffer.size_bytes for i, buffer in enumerate(program.buffers)
        },
        "layers": [_layer(chip, graph, layer) for layer in compiled.layers],
    }


def _counters(compiled: CompiledPartition) -> dict[str, Any]:
    layers = count_program(compiled.program)
    return {
        "counters": sum_counters(c for layer in layers for c in layer.counters),
        "layer_counters": [
            {"name": layer.layer.name, "op": layer.layer.op, "nodes": list(layer.layer.nodes)}
            | layer.total()
            for layer in layers
        ],
        "task_counters": [
            {"tile": task.tile, "job": task.job} | counters.as_dict()
            for layer in layers
            for task, counters in zip(layer.tasks, layer.counters, strict=True)
        ],
    }


def _layer(chip: Chip, graph: Graph, layer: Layer) -> dict[str, Any]:
    estimate = total(estimate_task(chip, task) for task in layer.tasks)
    return {
        "name": layer.name,
        "op": layer.op,
        "nodes": list(layer.nodes),
        "tasks": len(layer.tasks),
        "tiling": layer.choice,
        "difference": _difference(layer),
        "macs": sum(node_macs(graph, graph.node(node)) for node in layer.nodes),
        **asdict(estimate),
        "limit": estimate.limit,
    }


def _difference(layer: Layer) -> dict[str, Any] | None:
    """From TensorFlow Lite's results, where nodes became one task that rounds less often."""
    found = layer.difference
    return None if found is None else {"most_lsb": found.most_lsb, "share": round(found.share, 5)}


def _tiles(chip: Chip, layer: Layer) -> list[dict[str, Any]]:
    """The tasks of a layer over the rows of its output and the banks of CBUF."""
    tiles = []
    done = 0
    for task in layer.tasks:
        match = _ROWS.search(task.tile)
        first = int(match.group(1)) if match is not None else done
        done = first + task.output.height
        tiles.append(
            {"text": task.tile, "row": first, "rows": task.output.height, **_cbuf(chip, task)}
        )
    return tiles


def _cbuf(chip: Chip, task: Task) -> dict[str, Any]:
    estimate = estimate_task(chip, task)
    facts: dict[str, Any] = {
        "w": task.output.width,
        "c": task.output.channels_real,
        "npu_cycles": estimate.npu_cycles,
        "ddr_cycles": estimate.ddr_cycles,
        "bytes": estimate.bytes,
    }
    if isinstance(task, ConvTask):
        facts |= {
            "input_rows": task.feature.height,
            "data_banks": task.cbuf.data_banks,
            "weight_banks": task.cbuf.weight_banks,
            "weight_reuse": task.cbuf.weight_reuse,
        }
    return facts


def _graph(graph: Graph, delegated: dict[int, int]) -> list[dict[str, Any]]:
    """Nodes in execution order with their inputs among them, shapes and where they run."""
    producer: dict[int, int] = {}
    nodes = []
    for node in graph.nodes:
        sources = sorted({producer[t] for t in node.inputs if t in producer})
        tensors = [graph.tensor(t) for t in node.outputs if t >= 0]
        nodes.append(
            {
                "node": node.index,
                "op": node.op,
                "name": tensors[0].name if tensors else "",
                "shape": list(tensors[0].shape) if tensors else [],
                "inputs": sources,
                "partition": delegated.get(node.index),
            }
        )
        producer.update(dict.fromkeys(node.outputs, node.index))
    return nodes
