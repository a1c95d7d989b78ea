"""The answer of ``compile``: whether a model runs on the NPU, how fast, what the CPU keeps and why,
and the one change that helps most. It fits a screen of 25 lines, whatever the model.

The forms of tasks and who has run them, as ``compile`` prints them.

The estimate of a whole inference, as ``compile`` prints it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from delegate.chip.known_forms import BOARD
from delegate.cli.table import WIDTH
from delegate.host.delegation import plural
from delegate.ops import OPERATORS
from delegate.partition.partitioner import node_macs, runs_once

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult
    from delegate.model.graph import Graph, Node
from collections import Counter

from delegate.cli.table import print_table

_INDENT: Final = 13
_MOST_LINES: Final = 25
_MOST_OPERATORS: Final = 3
_LEAST_ROOM: Final = 2
"""Lines of causes that are shown at least: the most expensive one, and how many more there are."""


def print_answer(path: Path, result: CompileResult, document: dict[str, Any]) -> None:
    """Print the answer. ``document``: what ``compile_document`` gives."""
    before = _pairs([("model", str(path)), ("on the NPU", _verdict(result))], keep_first=True)
    before += _pairs([*time_lines(document["inference"]), *_choice(document["slower"])])
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


def _choice(slower: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield what the CPU keeps by choice, and what that saves."""
    if slower is not None:
        times = [f"{us / 1e3:.2f} ms" for us in (slower["npu_us"], slower["cpu_us"])]
        nodes = plural(slower["nodes"], "node")
        yield (
            "by choice",
            f"the CPU keeps {nodes}: {times[1]}, at least {times[0]} on the NPU; "
            "-O deny_ops=NONE delegates all",
        )


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
    if any(partition["fp16"] for partition in document["partitions"]):
        yield "in fp16", "every node within a proven bound of exact arithmetic (--layers)"
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


_WHO: Final = {
    "mesa": "Mesa's driver makes tasks of this form",
    "vendor": "the vendor's compiler makes tasks of this form",
    BOARD: "this board was right with this form (bring-up)",
    "others": "others ran this form on a board",
}
_NOT_WHOLE: Final = {
    "parts": "every setting has been run, not all together",
    "unknown": "nobody has run some setting",
}


def evidence_line(document: dict[str, Any]) -> str:
    """Return in one line how many tasks are in forms that somebody has run on a board."""
    tasks: Counter[str] = Counter()
    for row in document["forms"]:
        tasks[row["evidence"]] += row["tasks"]
    known, every = tasks["whole"], tasks.total()
    text = f"{known} of {every} tasks have a form that others run on boards"
    if tasks["parts"]:
        text += f", {tasks['parts']} settings that others run"
    if tasks["unknown"]:
        text += f", {tasks['unknown']} a setting that nobody has run"
    return text


def print_forms(document: dict[str, Any]) -> None:
    """Print how many tasks are in forms that somebody has run, and every form with its words."""
    tasks: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for row in document["forms"]:
        evidence = _NOT_WHOLE.get(row["evidence"]) or _WHO[row["ran"]]
        tasks[evidence] += row["tasks"]
        if row["evidence"] != "whole":
            names.setdefault(evidence, []).append(row["form"])
    order = [*_WHO.values(), *_NOT_WHOLE.values()]
    rows = [(tasks[what], what, ", ".join(names.get(what, ()))) for what in order if tasks[what]]
    title = "forms of tasks (docs/forms.md), by who has run them:"
    print_table(title, ("tasks", "evidence", "which"), rows, right=(0,))
    print_table(
        "every form, the least known first:",
        ("tasks", "form", "evidence", "kind", "what it does"),
        [_line(row) for row in document["forms"]],
        right=(0,),
    )


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    names = (source["name"] for source in row["sources"])
    who = ", ".join(dict.fromkeys(name if name in _WHO else "others" for name in names))
    nobody = f" (nobody: {', '.join(row['unknown'])})" if row["unknown"] else ""
    return row["tasks"], row["form"], who or row["evidence"], row["kind"], row["words"] + nobody


def _by_driver(name: str, found: dict[str, Any], cpu_us: float) -> str:
    """Return what a driver makes of an inference, and what follows where the CPU is faster."""
    us = found["range_us"]
    slower = "; the CPU alone is faster" if sum(us) / 2 > cpu_us else ""
    mhz = " to ".join(dict.fromkeys(f"{clock:.0f} MHz" for clock in found["clock_mhz"]))
    return f"{name} at {mhz.replace(' MHz to', ' to')}: {_ms(us)}{slower}"


_MOST_OTHERS: Final = 3


def time_lines(inference: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a whole inference takes: its range, by driver and clock, inferences per second,
    and what others measured; headings with texts.
    """
    if not inference["total_us"]:
        return []
    alone = f"{inference['cpu_alone_us'] / 1e3:.2f} ms on the CPU alone"
    others = _others(inference["measured_by_others"])
    if not inference["npu_us"]:
        return [("time", f"{alone}, modelled"), *_besides(inference), *others]
    if inference["cpu_alone_us"] < inference["range_us"][0]:
        alone += ", which is faster"
    clocks = [f"{_ms(us)} at {mhz}" for mhz, us in inference["by_clock_mhz"].items()]
    rates = inference["frames_per_second"]
    each = ", ".join(f"{rate:.0f}" for rate in rates.values())
    facts = [
        ("time", f"{_ms(inference['range_us'])} per inference, modelled; {alone}"),
        *(
            ("", _by_driver(name, found, inference["cpu_alone_us"]))
            for name, found in inference["by_driver"].items()
        ),
        ("", f"{', '.join(clocks)} MHz"),
        ("", f"{each} per second in the middle, with {', '.join(rates)} interpreters"),
    ]
    return [*facts, *_besides(inference), *others]


def _besides(inference: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is not in the time."""
    if inference["once_us"]:
        yield "", f"once, the first time: {inference['once_us'] / 1e3:.2f} ms on the CPU"
    if inference["unmodelled"]:
        yield "not in it", f"{', '.join(inference['unmodelled'])} on the CPU"


def _others(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what others measured of the same network; the most that are shown, with the rest
    counted.
    """
    if not found:
        return []
    lines = [f"{one['chip']} {_span(one['ms'])} ms: {one['conditions']}" for one in found]
    if len(lines) > _MOST_OTHERS:
        more = f"and {len(lines) - _MOST_OTHERS + 1} more (--json: measured_by_others)"
        lines = [*lines[: _MOST_OTHERS - 1], more]
    return [
        ("others", f"measured of the same network, {found[0]['network']}:"),
        *(("", line) for line in lines),
    ]


def _ms(range_us: list[float]) -> str:
    return f"{_span([us / 1e3 for us in range_us])} ms"


def _span(ends: list[float]) -> str:
    """Return both ends, or the one number that they come to."""
    least, most = (f"{end:.2f}" if end < 10 else f"{end:.1f}" for end in ends)
    return least if least == most else f"{least} to {most}"
