"""The answer of ``compile``: whether a model runs on the NPU, how fast, what the CPU keeps and why,
and the one change that helps most. It fits a screen of 25 lines, whatever the model.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from delegate.cli.forms_text import evidence_line
from delegate.cli.inference_text import time_lines
from delegate.cli.table import WIDTH
from delegate.host.delegation import plural
from delegate.ops import OPERATORS
from delegate.partition.cost import runs_once
from delegate.partition.partitioner import node_macs

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult
    from delegate.model.graph import Graph, Node

_INDENT: Final = 13
_MOST_LINES: Final = 25
_MOST_OPERATORS: Final = 3
_LEAST_ROOM: Final = 2
"""Lines of causes that are shown at least: the most expensive one, and how many more there are."""


def print_answer(path: Path, result: CompileResult, document: dict[str, Any]) -> None:
    """Print the answer. ``document``: what ``compile_document`` gives."""
    before = _pairs([("model", str(path)), ("on the NPU", _verdict(result))], keep_first=True)
    before += _pairs(time_lines(document["inference"]))
    after = _pairs([("helps most", _change(document)), *_doubts(document)])
    after += _pairs([("more", "--layers, --nodes, --evidence, --explain, --html FILE, --json")])
    room = max(_MOST_LINES - len(before) - len(after), _LEAST_ROOM)
    print("\n".join([*before, *_causes(document, room), *after]), flush=True)


def _verdict(result: CompileResult) -> str:
    """Return whether the model runs whole on the NPU, and if not, how much of it does."""
    graph = result.graph
    delegated = {node for compiled in result.partitions for node in compiled.partition.delegated}
    left = [node for node in graph.nodes if node.index not in delegated]
    each_time = [node for node in left if not runs_once(graph, node)]
    if not delegated:
        return f"no: none of {plural(result.total_nodes, 'node')}; the CPU runs the model"
    nodes = f"{len(delegated)} of {plural(result.total_nodes, 'node')}"
    parts = f" in {plural(len(result.partitions), 'partition')}"
    if not left:
        return f"whole: {nodes}{parts}"
    if not each_time:
        return f"whole: {nodes}{parts}; the others prepare constants, once"
    macs = [sum(node_macs(graph, graph.node(index)) for index in delegated)]
    macs.append(macs[0] + sum(node_macs(graph, node) for node in left))
    is_known = macs[1] and not any(_has_weights(graph, node) for node in each_time)
    share = f", {_percent(macs[0], macs[1])} of the multiplications" if is_known else ""
    return f"not whole: {nodes}{share},{parts}"


def _has_weights(graph: Graph, node: Node) -> bool:
    """Return whether a node of an operator that is not known here has weights: it multiplies."""
    if node.op in OPERATORS:
        return False
    constants = (graph.tensor(t) for t in node.inputs if t >= 0)
    return any(tensor.constant is not None and len(tensor.shape) > 1 for tensor in constants)


def _percent(part: int, whole: int) -> str:
    """Return a share that says 100 % of the whole alone."""
    return "all" if part == whole else f"{min(part / whole * 100, 99.9):.1f} %"


def _causes(document: dict[str, Any], room: int) -> list[str]:
    """Return why nodes are left to the CPU, in at most ``room`` lines; the most expensive causes
    come first.
    """
    causes = document["causes"]
    if not causes:
        return []
    nodes = sum(len(cause["nodes"]) for cause in causes)
    lines = [
        f"left to the CPU: {plural(nodes, 'node')}, {document['inference']['cpu_us'] / 1e3:.3f} ms "
        "modelled"
    ]
    blocks = [list(_cause_lines(cause)) for cause in causes]
    for number, block in enumerate(blocks):
        others = len(blocks) - number - 1
        if len(lines) + len(block) + bool(others) > room and number:
            rest = causes[number:]
            cost = sum(cause["cpu_us"] for cause in rest) / 1e3
            return [*lines, f"{cost:9.3f} ms  {plural(len(rest), 'other cause')} (--nodes)"]
        lines += block
    return lines


def _cause_lines(cause: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one cause: its time, its sentence, its nodes by number and operator."""
    ops = ", ".join(op.removeprefix("CUSTOM:") for op in cause["ops"][:_MOST_OPERATORS])
    ops += ", ..." if len(cause["ops"]) > _MOST_OPERATORS else ""
    text = f"{cause['cause']} {plural(len(cause['nodes']), 'node')}: {ops}"
    head = f"{cause['cpu_us'] / 1e3:9.3f} ms  "
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), max_lines=3
    )


def _change(document: dict[str, Any]) -> str:
    found = document["best_change"]
    if found is None:
        return "no change of the export would save much"
    return f"{found['change']} (at most {found['at_most_us'] / 1e3:.2f} ms)"


def _doubts(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the user should know before trusting results: fp16 and evidence."""
    bounds = [partition["fp16"] for partition in document["partitions"] if partition["fp16"]]
    if bounds:
        outputs = [output for found in bounds for output in found["outputs"]]
        proven = sum(output["within"] is not None for output in outputs)
        text = f"{proven} of {plural(len(outputs), 'output')} with a proven bound (--layers)"
        yield "in fp16", text
    if document["forms"]:
        yield "evidence", f"{evidence_line(document)}; none by this project"


def _pairs(pairs: list[tuple[str, str]], *, keep_first: bool = False) -> list[str]:
    """Return headings with texts, wrapped under one another; the first stays as it is (a path)."""
    lines = []
    for number, (heading, text) in enumerate(pairs):
        head = heading.ljust(_INDENT)
        if keep_first and number == 0:
            lines.append(head + text)
            continue
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=head, subsequent_indent=" " * _INDENT, max_lines=3
        )
    return lines
