"""``compile``: what would run on the NPU, what not and why, and programs dumped as captures."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.argument_types import natural_number
from delegate.cli.command import Command, options_from, print_json, warn
from delegate.cli.files import check_writable, write_file
from delegate.cli.forms_text import print_forms
from delegate.cli.inference_text import headline
from delegate.cli.nodes import nodes_text
from delegate.cli.table import format_table, print_pairs, print_table, thousands
from delegate.errors import UsageError
from delegate.host.chosen_driver import drivers_at
from delegate.host.delegation import plural, require_all
from delegate.host.npu_clock import clocks_hz
from delegate.progress import progress

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult
    from delegate.options import Options


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file")
    parser.add_argument(
        "--chip", metavar="NAME", help="the chip to compile for, as option chip: rk3588 or rk3576"
    )
    parser.add_argument(
        "--dump", type=Path, metavar="DIR",
        help="write every partition as a capture that replay runs: DIR/partition_<n>.npz",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--image", type=Path, metavar="FILE", help="the dump's input: a picture")
    source.add_argument(
        "--input", type=Path, metavar="X.npy",
        help="the dump's input: .npy, or .npz by input names (default: random)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=natural_number, default=0, metavar="N",
        help="of the dump's random input (default 0)",
    )  # fmt: skip
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="OUT.tflite",
        help="write the model with its programs inside, to run without Python",
    )  # fmt: skip
    parser.add_argument(
        "--html", type=Path, metavar="FILE",
        help="write a report as one page: graph, tiles, roofline, memory, what would help",
    )  # fmt: skip
    parser.add_argument(
        "--explain", action="store_true", help="say of every layer why it is tiled as it is"
    )
    parser.add_argument(
        "--nodes", action="store_true", help="list every node that is left to the CPU"
    )
    parser.add_argument(
        "--evidence", action="store_true",
        help="list every form of task, what it does, who has run it",
    )  # fmt: skip
    parser.add_argument(
        "--cpu-rates", type=Path, metavar="FILE.json",
        help="times of nodes on the CPU by these rates (python -m benchmarks.cpu_kernels --save), "
        "instead of a modelled Cortex-A76",
    )  # fmt: skip
    parser.add_argument(
        "--inputs", type=float, nargs=2, metavar=("LOW", "HIGH"),
        help="from where to where float32 inputs of partitions are, for bounds of outputs in fp16 "
        "(default -1 1)",
    )  # fmt: skip
    parser.add_argument(
        "--counters", action="store_true",
        help="what tasks do, counted by the simulator: MACs, bytes by port, CBUF, cycles; per "
        "layer, with --json per task, too",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    from delegate.insight.compile_report.document import compile_document
    from delegate.insight.compile_report.half_bounds import INPUTS, input_range
    from delegate.insight.cpu_time import A76, load_rates

    if arguments.dump is None and (arguments.image is not None or arguments.input is not None):
        raise UsageError("--image and --input are the input of a dump; --dump DIR is missing")
    if arguments.chip is not None:
        arguments.option.append(f"chip={arguments.chip}")
    options = options_from(arguments)
    check_writable(arguments.output, arguments.html)
    inputs = input_range(*(arguments.inputs or INPUTS))
    cpu = A76 if arguments.cpu_rates is None else load_rates(arguments.cpu_rates)
    result, files = _compile(arguments, options)
    drivers = drivers_at(options.device, result.chip, clocks_hz())
    if arguments.dump is not None:
        files += _dump(arguments, result)
    if arguments.html is not None:
        from delegate.insight.compile_report.document import page_document
        from delegate.insight.compile_report.html import render_page

        page = render_page(page_document(result, arguments.model.name, cpu, drivers))
        write_file(arguments.html, page.encode("utf-8"))
        files.append(arguments.html)
    document = compile_document(
        result, counters=arguments.counters, cpu=cpu, inputs=inputs, drivers=drivers
    )
    if arguments.json:
        print_json(document)
    else:
        _print_tables(
            arguments.model,
            result,
            document,
            all_nodes=arguments.nodes,
            all_forms=arguments.evidence,
        )
        if arguments.explain:
            _print_choices(document)
        if arguments.counters:
            _print_counters(document)
        for path in files:
            print(f"wrote {path}")
    if not result.partitions:
        warn(f"{arguments.model}: no operator of this model can run on the NPU")
    return 0


def _compile(arguments: argparse.Namespace, options: Options) -> tuple[CompileResult, list[Path]]:
    """The result, and the file of a model that is compiled ahead of time."""
    from delegate.compile.compiler import compile_model

    if arguments.output is None:
        result = compile_model(arguments.model, options)
        require_all(result.rejections, options)
        return result, []
    from delegate.compile.aot.rewrite import compile_ahead_of_time

    _refuse_overwriting(arguments.model, arguments.output)
    ahead = compile_ahead_of_time(arguments.model, options)
    for item in ahead.results:
        require_all(item.rejections, options)
    write_file(arguments.output, ahead.content)
    return ahead.results[0], [arguments.output]


def _dump(arguments: argparse.Namespace, result: CompileResult) -> list[Path]:
    """The files of captures."""
    from delegate.cli.pictures import sample_source
    from delegate.host.samples import load_sample
    from delegate.insight.capture_files import dump_partitions

    source = sample_source(arguments)
    if arguments.input is not None:
        source = partial(load_sample, arguments.input)
    with progress("dumping", 1 + len(result.partitions)) as bar:
        return dump_partitions(arguments.model, result, arguments.dump, source, done=bar.advance)


def _refuse_overwriting(model: Path, output: Path) -> None:
    """The model is mapped while it is read: writing over it would pull it away."""
    if output.exists() and model.exists() and output.samefile(model):
        raise UsageError(f"-o {output}: is the model itself; give another name")


def _print_layers(partition: dict[str, Any]) -> None:
    """One row per layer: sums of its tasks' estimates, and what limits them."""
    rows = [
        (
            layer["tasks"],
            thousands(layer["cycles"]),
            thousands(layer["bytes"]),
            layer["limit"],
            nodes_text(layer["nodes"]),
            layer["name"],
        )
        for layer in partition["layers"]
    ]
    headings = ("tasks", "cycles", "bytes", "limit", "nodes", "layer")
    print(format_table(headings, rows, right=(0, 1, 2), last="elide"))


def _print_tables(
    path: Path,
    result: CompileResult,
    document: dict[str, Any],
    *,
    all_nodes: bool,
    all_forms: bool,
) -> None:
    from delegate.insight.compile_report.half_bounds import half_bound_lines

    cycles = sum(compiled.estimate.cycles for compiled in result.partitions)
    rates = result.chip.rates
    commands = sum(partition["buffers"]["regcmd"] for partition in document["partitions"])
    npu_alone = (
        f"{thousands(cycles)} cycles, {rates.microseconds(cycles) / 1e3:.2f} ms at "
        f"{rates.clock_hz / 1e9:g} GHz: modelled, without launches and host"
    )
    print_pairs(
        ("model", path),
        ("delegated", f"{result.delegated_nodes} of {plural(result.total_nodes, 'node')}"),
        ("partitions", len(result.partitions)),
        ("tasks", sum(compiled.tasks for compiled in result.partitions)),
        ("commands", f"{thousands(commands)} bytes"),
        ("compiled in", f"{result.compile_seconds:.2f} s"),
        *headline(document["inference"]),
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
        for line in half_bound_lines(document["partitions"][number]["fp16"]):
            print(line)
        _print_layers(document["partitions"][number])
    _print_differences(document)
    print_forms(document, all_forms=all_forms)
    _print_advice(document)
    _print_left(document, all_nodes=all_nodes)


def _print_left(document: dict[str, Any], *, all_nodes: bool) -> None:
    """What the CPU keeps: by rule, what costs most first, or node by node."""
    if all_nodes:
        rejected = [(r["node"], r["op"], r["rule"], r["detail"]) for r in document["rejections"]]
        print_table("left to the CPU:", ("node", "op", "rule", "reason"), rejected, right=(0,))
        return
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
    """What became one task that rounds less often, and what that changes."""
    rows = [
        (nodes_text(layer["nodes"]), found["most_lsb"], f"{found['share']:.1%}", layer["name"])
        for partition in document["partitions"]
        for layer in partition["layers"]
        if (found := layer["difference"]) is not None
    ]
    title = "one task instead of several (numerics=auto), by proof at most so many LSB off:"
    headings = ("nodes", "most LSB", "differ, modelled", "layer")
    print_table(title, headings, rows, right=(1, 2), last="elide")


def _print_choices(document: dict[str, Any]) -> None:
    """What the tiler chose for every layer, out of how many plans."""
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


def _print_counters(document: dict[str, Any]) -> None:
    """What the simulator counted, layer by layer; bytes by port."""
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
    """What dominates, and which operators would merge most partitions if they were supported."""
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


COMMAND = Command(
    name="compile",
    summary="Show partitions, layers, tasks, estimates and why nodes stay on the CPU.",
    examples=(
        "compile mobilenet_v1_1.0_224_quant.tflite",
        "compile model.tflite --json",
        "compile model.tflite --counters",
        "compile model.tflite --html report.html",
        "compile model.tflite -o compiled.tflite",
        "compile model.tflite --dump captures/ --image cat.jpg",
    ),
    add_arguments=_add_arguments,
    run=_run,
    takes_options=True,
)
