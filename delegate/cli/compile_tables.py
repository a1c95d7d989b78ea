"""Tables of ``compile``: layers, tiles, counters, and nodes that are left to the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delegate.cli.table import format_table, nodes_text, print_pairs, print_table, thousands
from delegate.host.delegation import plural

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult


def print_layers(result: CompileResult, document: dict[str, Any]) -> None:
    """Print partitions with their layers, where the time goes, what is left to the CPU by rule."""
    cycles = sum(compiled.estimate.cycles for compiled in result.partitions)
    rates = result.chip.rates
    commands = sum(partition["buffers"]["regcmd"] for partition in document["partitions"])
    npu_alone = (
        f"{thousands(cycles)} cycles, {rates.microseconds(cycles) / 1e3:.2f} ms at "
        f"{rates.clock_hz / 1e9:g} GHz: modelled, without launches and host"
    )
    print()
    print_pairs(
        ("partitions", len(result.partitions)),
        ("tasks", sum(compiled.tasks for compiled in result.partitions)),
        ("commands", f"{thousands(commands)} bytes"),
        ("compiled in", f"{result.compile_seconds:.2f} s"),
        ("NPU alone", npu_alone),
    )
    for number, compiled in enumerate(result.partitions):
        estimate = compiled.estimate
        print()
        print(
            f"partition {number}: nodes {nodes_text(compiled.partition.delegated)}; "
            f"{plural(compiled.tasks, 'task')}; buffers {thousands(compiled.buffers_bytes)} bytes; "
            f"{thousands(estimate.cycles)} cycles, {thousands(estimate.bytes)} bytes moved"
        )
        if compiled.bound:
            print(f"fp16: every node {compiled.bound}, given its operands")
        rows = [
            (
                layer["tasks"],
                thousands(layer["cycles"]),
                thousands(layer["bytes"]),
                layer["limit"],
                nodes_text(layer["nodes"]),
                layer["name"],
            )
            for layer in document["partitions"][number]["layers"]
        ]
        headings = ("tasks", "cycles", "bytes", "limit", "nodes", "layer")
        print(format_table(headings, rows, right=(0, 1, 2), last="elide"))
    _print_differences(document)
    _print_advice(document)
    _print_left(document)


def print_nodes(document: dict[str, Any]) -> None:
    """Print every node that is left to the CPU, with the rule that it breaks."""
    rejected = [(r["node"], r["op"], r["rule"], r["detail"]) for r in document["rejections"]]
    print_table("left to the CPU:", ("node", "op", "rule", "reason"), rejected, right=(0,))


def _print_left(document: dict[str, Any]) -> None:
    """Print what the CPU keeps, by rule; what costs most comes first."""
    by_rule: dict[str, list[dict[str, Any]]] = {}
    for group in document["left_to_cpu"]:
        by_rule.setdefault(group["rule"], []).append(group)
    times = {rule: sum(group["cpu_us"] for group in found) for rule, found in by_rule.items()}
    rows = []
    for rule in sorted(times, key=lambda rule: -times[rule]):
        found = by_rule[rule]
        others = len({reason for group in found for reason in group["reasons"]}) - 1
        more = f" (and {plural(others, 'other reason')})" if others else ""
        operators = [group["op"] for group in found]
        also = f"; also {', '.join(operators[1:])}" if len(found) > 1 else ""
        rows.append(
            (
                sum(len(group["nodes"]) for group in found),
                f"{times[rule] / 1e3:.3f}",
                operators[0],
                rule,
                found[0]["reasons"][0] + more + also,
            )
        )
    title = "left to the CPU, with its modelled milliseconds there (--nodes lists every node):"
    print_table(title, ("nodes", "ms", "op", "rule", "reason"), rows, right=(0, 1))


def _print_differences(document: dict[str, Any]) -> None:
    """Print what became one task that rounds less often, and what that changes."""
    rows = [
        (nodes_text(layer["nodes"]), found["most_lsb"], f"{found['share']:.1%}", layer["name"])
        for partition in document["partitions"]
        for layer in partition["layers"]
        if (found := layer["difference"]) is not None
    ]
    title = "one task instead of several (numerics=auto), by proof at most so many LSB off:"
    headings = ("nodes", "most LSB", "differ, modelled", "layer")
    print_table(title, headings, rows, right=(1, 2), last="elide")


def print_choices(document: dict[str, Any]) -> None:
    """Print what the tiler chose for every layer, out of how many plans."""
    rows = [
        (number, nodes_text(layer["nodes"]), layer["tasks"], layer["tiling"] or "whole feature map")
        for number, partition in enumerate(document["partitions"])
        for layer in partition["layers"]
    ]
    title = "tiling (chosen by estimated time, launches included):"
    print_table(title, ("partition", "nodes", "tasks", "choice"), rows, right=(0, 2))


_PORTS = {
    "features": "feature_bytes",
    "weights": "weight_bytes",
    "operands": "operand_bytes",
    "written": "written_bytes",
}


def print_counters(document: dict[str, Any]) -> None:
    """Print what the simulator counted, layer by layer; bytes by port."""
    headings = ("nodes", "MACs", *_PORTS, "CBUF", "cycles", "layer")
    for number, partition in enumerate(document["partitions"]):
        rows = [
            (
                nodes_text(layer["nodes"]),
                thousands(layer["macs"]),
                *(thousands(layer[key]) for key in _PORTS.values()),
                f"{layer['cbuf_fill']:.0%}",
                thousands(layer["cycles"]),
                layer["name"],
            )
            for layer in partition["layer_counters"]
        ]
        title = f"partition {number}, counted by the simulator (bytes by port, CBUF at most):"
        print_table(title, headings, rows, right=range(1, len(headings) - 1), last="elide")


def _print_advice(document: dict[str, Any]) -> None:
    """Print what dominates, and which operators would merge most partitions if supported."""
    costs = document["costs"]
    if not costs["tasks"]:
        return
    names = {
        "npu_us": "arithmetic and memory of tasks",
        "launches_us": f"launching {plural(costs['tasks'], 'task')}",
        "submits_us": plural(costs["submits"], "submit"),
        "conversion_us": "conversion of inputs and outputs",
        "cpu_us": "nodes left to the CPU, one Cortex-A76",
    }
    ranges = document["inference"]["ranges"]
    rows = [(what, *(f"{us / 1e3:.3f}" for us in ranges[name])) for name, what in names.items()]
    title = "modelled milliseconds of an inference, at best and at worst:"
    print_table(title, ("what dominates", "best", "worst"), rows, right=(1, 2))
    limits = [costs["npu_limited_us"], costs["ddr_limited_us"]]
    print(
        f"by cycles {limits[0] / sum(limits):.0%} of the tasks' time are layers limited by "
        f"arithmetic, {limits[1] / sum(limits):.0%} layers limited by memory"
    )
    moves = costs["without_macs"]
    if moves["tasks"]:
        print(
            f"{moves['us'] / 1e3:.3f} ms of it are {plural(moves['tasks'], 'task')} that multiply "
            "no weights (functions, sums, moves):\ndocs/models.md says which exports need fewer"
        )
    helps = [
        (f"{s['at_most_us'] / 1e3:.3f}", s["partitions"], s["nodes"], " and ".join(s["ops"]))
        for s in document["suggestions"]
    ]
    headings = ("ms at most", "partitions", "on the NPU", "if these operators were supported")
    print_table("what would help most:", headings, helps, right=(0, 1, 2))
