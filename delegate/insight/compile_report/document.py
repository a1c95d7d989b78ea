"""The document of ``compile --json``, which the HTML page shows: every number has one source.

In: a CompileResult. Out: plain values for JSON. Everything about time in it is modelled.

The compile report as one self-contained page: no network, no other file.

The document goes into the page as JSON inside an inert script element; the script of the page draws
everything from it with text nodes, so names out of a model are never read as markup.

Blocks of operators that follow each other several times: one box each in the report's graph.

Which part of the scratch buffer holds which layer's result, and for how long.

Read back from the tasks: a layer's result lies where its tasks write, and lives until the last
layer that reads from there before something else is written over it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import groupby
from typing import Any

from delegate.chip.chip import Chip, Driver
from delegate.compile.compiler import CompiledPartition, CompileResult
from delegate.errors import SLOWER
from delegate.insight.compile_report.advice import best_change, costs, suggestions
from delegate.insight.compile_report.causes import causes_of
from delegate.insight.compile_report.forms import forms_document
from delegate.insight.compile_report.whole_inference import left_by_rule, whole_inference
from delegate.insight.cpu_time import A76, Cpu
from delegate.insight.simulated_run import count_program, sum_counters
from delegate.lower.lowered import Layer
from delegate.lower.task import BufferId, ConvTask, DpuTask, OutputCube, Ref, Task
from delegate.model.graph import Graph
from delegate.npu.perf import estimate_task
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Program, total
from delegate.partition.partitioner import node_macs

_ROWS = re.compile(r"rows (\d+)\.\.(\d+)")


def compile_document(
    result: CompileResult,
    *,
    counters: bool = False,
    cpu: Cpu = A76,
    drivers: Sequence[Driver] = (),
) -> dict[str, Any]:
    """Partitions with their layers, rejections, what dominates and what would help most.

    With ``counters`` also what each task does, counted by the simulator. ``cpu``: whose nodes left
    there are, for their time. ``drivers``: who may run it, for its time; none: all of the chip's.
    ``fp16`` of a partition: how far each node's results are from exact ones, given its operands.
    """
    programs = [parse(compiled.program) for compiled in result.partitions]
    left = left_by_rule(result, cpu)
    document: dict[str, Any] = {
        "partitions": [
            _partition(result.chip, result.graph, compiled, program)
            | {"fp16": {"per_node": compiled.bound} if compiled.bound else None}
            | (_counters(compiled) if counters else {})
            for compiled, program in zip(result.partitions, programs, strict=True)
        ],
        "rejections": [asdict(rejection) for rejection in result.rejections],
        "delegated_nodes": result.delegated_nodes,
        "total_nodes": result.total_nodes,
        "compile_seconds": result.compile_seconds,
        "forms": forms_document(result.chip, programs),
        "costs": costs(result, drivers),
        "inference": whole_inference(result, cpu, drivers),
        "slower": _slower(result),
        "left_to_cpu": left,
        "causes": causes_of(left),
        "suggestions": suggestions(result, cpu, drivers),
    }
    return document | {"best_change": best_change(result, document, drivers)}


def _slower(result: CompileResult) -> dict[str, Any] | None:
    """Return what nodes that the CPU keeps by choice would take at least; None: there are none."""
    if not result.slower:
        return None
    return {
        "nodes": sum(rejection.rule == SLOWER for rejection in result.rejections),
        "npu_us": sum(cost.npu_us for cost in result.slower),
        "cpu_us": sum(cost.cpu_us for cost in result.slower),
    }


def page_document(
    result: CompileResult, title: str, cpu: Cpu = A76, drivers: Sequence[Driver] = ()
) -> dict[str, Any]:
    """Return what the page needs besides: the graph, tiles and the memory plan."""
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
    """Return first node, length and times of what repeats in one place: a block may not go over a
    border, as its box has the colour of where it runs.
    """
    blocks: list[list[int]] = []
    first = 0
    for _, group in groupby(graph.nodes, key=lambda node: delegated.get(node.index)):
        part = [node.op for node in group]
        blocks += [[first + b.first, b.length, b.times] for b in repeated_blocks(part)]
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
    """Return how far results may differ where nodes became one task that rounds less often."""
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
            "data_banks": task.data_banks,
            "weight_banks": task.weight_banks,
            "weight_reuse": task.weight_reuse,
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


_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(document: dict[str, Any]) -> str:
    """The page for ``page_document``."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    folder = resources.files(__package__)
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "/*STYLE*/": folder.joinpath("page.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/": folder.joinpath("page.js").read_text(encoding="utf-8"),
        "/*DOCUMENT*/": text,
    }
    for place, content in parts.items():
        page = page.replace(place, content, 1)
    return page


_LONGEST = 64
"""Nodes of a block: the largest that detectors repeat, a bottleneck with its SiLUs, has 20."""
_LEAST_SAVED = 2
"""Boxes; one box instead of two would tell less than both."""


@dataclass(frozen=True, slots=True)
class Block:
    """``length`` items from ``first`` on, ``times`` times one after the other."""

    first: int
    length: int
    times: int


def repeated_blocks(items: Sequence[Hashable]) -> tuple[Block, ...]:
    """``items`` from begin to end as blocks; what does not repeat is a block of one item, once.

    Where several could begin, the one that saves most boxes, the shortest of these.
    """
    blocks = []
    first = 0
    while first < len(items):
        best = Block(first, 1, 1)
        for length in range(1, min(_LONGEST, (len(items) - first) // 2) + 1):
            block = Block(first, length, _times(items, first, length))
            if _saved(block) > max(_saved(best), _LEAST_SAVED - 1):
                best = block
        blocks.append(best)
        first += best.length * best.times
    return tuple(blocks)


def _saved(block: Block) -> int:
    return block.length * block.times - 1 if block.times > 1 else 0


def _times(items: Sequence[Hashable], first: int, length: int) -> int:
    block = items[first : first + length]
    times = 1
    while items[first + times * length : first + (times + 1) * length] == block:
        times += 1
    return times


_CHANNELS_PER_SURFACE = 16


def scratch_plan(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Return, per result in the scratch buffer, its layer, offset, bytes and the last layer to read
    it.
    """
    plan: list[dict[str, Any]] = []
    for number, layer in enumerate(layers):
        for reference in (r for task in layer.tasks for r in _reads(task)):
            if reference.buffer is BufferId.SCRATCH:
                _extend(plan, reference.offset, number)
        written = [o for o in _results(layer) if o.target.buffer is BufferId.SCRATCH]
        if written:
            start = min(output.target.offset for output in written)
            end = max(_end(output) for output in written)
            plan.append(
                {
                    "layer": number,
                    "name": layer.name,
                    "offset": start,
                    "bytes": end - start,
                    "last": number,
                }
            )
    return plan


def _results(layer: Layer) -> Iterator[OutputCube]:
    """Yield what its tasks write, but for int32 sums and operands between the passes of a split
    layer.
    """
    kind = type(layer.tasks[-1])
    for task in layer.tasks:
        if isinstance(task, kind) and task.output.element_bytes == 1:
            yield task.output


def _extend(plan: list[dict[str, Any]], offset: int, layer: int) -> None:
    """The newest result that covers ``offset`` lives until ``layer``."""
    for entry in reversed(plan):
        if entry["offset"] <= offset < entry["offset"] + entry["bytes"]:
            entry["last"] = layer
            return


def _reads(task: Task) -> Iterator[Ref]:
    yield task.feature.source if isinstance(task, ConvTask) else task.source
    if isinstance(task, DpuTask) and task.ew is not None and task.ew.operand is not None:
        yield task.ew.operand


def _end(output: OutputCube) -> int:
    last = output.target.offset + (output.surfaces - 1) * output.surface_stride_bytes
    return last + output.height * output.width * _CHANNELS_PER_SURFACE
