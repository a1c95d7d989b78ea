"""``bench``: how long a model takes, and two such measurements side by side."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from delegate.cli.command import Command, answer, options_from, print_json, warn, warn_if_on_cpu
from delegate.cli.files import check_writable, write_file
from delegate.cli.table import nodes_text, print_pairs, print_table, thousands
from delegate.errors import UsageError
from delegate.host.delegation import plural
from delegate.host.host_facts import SLOW_MHZ
from delegate.model.files import read_text
from delegate.progress import progress

_COMPILED_MODEL = "compiled-model"
_MOST_MS = 1e12  # 30 years
_LARGEST_FILE_BYTES = 16 << 20


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.model is None) == (arguments.compare is None):
        raise UsageError("bench needs a MODEL, or --compare A.json B.json")
    if arguments.compare is not None:
        return _compare(arguments)
    from delegate.cli.files import sample_source
    from delegate.host.litert import require_litert
    from delegate.insight.benchmark import NULL_DEVICE, Plan, benchmark

    check_writable(arguments.save)
    options = options_from(arguments)
    with_litert = arguments.api == _COMPILED_MODEL
    if with_litert:
        require_litert()
    plan = Plan(
        arguments.warmup, arguments.runs, arguments.threads, not arguments.no_cpu, with_litert
    )

    inferences = (1 + plan.warmup + plan.runs) * (1 + plan.with_cpu + plan.with_litert)
    with progress("measuring", inferences) as bar:
        document = benchmark(arguments.model, options, sample_source(arguments), plan, bar.advance)
    if arguments.save is not None:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        write_file(arguments.save, text.encode())
    answer(arguments, document, lambda: _print_tables(document))
    warn_if_on_cpu(arguments.model, document["delegate"]["delegated_nodes"])
    if document["delegate"]["delegated_nodes"] and document["delegate"]["is_simulated"]:
        warn("measured on the simulator: these times say nothing about an NPU, the estimates do")
    if document["delegate"]["delegated_nodes"] and document["delegate"]["device"] == NULL_DEVICE:
        warn("the device null computes nothing: these times are the host's share alone")
    _warn_of_clock(document["delegate"]["npu_clock_mhz"])
    return 0


def _warn_of_clock(clocks: list[float] | None) -> None:
    """Warn of a clock as after boot, and of one that an idle core lowered meanwhile."""
    if clocks is not None and clocks[0] < clocks[1]:
        warn(
            f"the NPU's clock moved between {clocks[0]:.0f} and {clocks[1]:.0f} MHz while it was "
            "measured, and the times with it; `doctor` says what keeps it"
        )
    elif clocks is not None and clocks[1] < SLOW_MHZ:
        warn(f"the NPU ran at {clocks[1]:.0f} MHz, its clock after boot; see `doctor`")


_COLUMNS = ("mean_ms", "std_ms", "min_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"


def _memory_text(memory: dict[str, Any]) -> str:
    def megabytes(size: int) -> str:
        return f"{size / 1e6:.1f} MB"

    peak, limit = memory["delegate"]["peak_bytes"], memory["limit_bytes"]
    verdict = "within" if peak <= limit else "above"
    text = f"{megabytes(peak)} at most, {verdict} {megabytes(limit)} (the model and 64 MB)"
    if memory["cpu"] is not None:
        text += f"; CPU alone {megabytes(memory['cpu']['peak_bytes'])}"
    return text


def _print_tables(document: dict[str, Any]) -> None:
    ours, cpu = document["delegate"], document["cpu"]
    host = document["host"]
    facts: list[tuple[str, object]] = [
        ("model", document["model"]),
        ("device", ours["device"]),
        ("delegated", f"{ours['delegated_nodes']} of {ours['total_nodes']} nodes"),
        ("runtime", f"{host['runtime']} {host['runtime_version']}"),
        (
            "host",
            f"{host['machine']}, {host['processors']} processors, Linux {host['kernel']}, "
            f"governor {host['governor'] or 'unknown'}",
        ),
        ("threads", document["threads"] or "the runtime's default"),
    ]
    least, most = (us / 1e3 for us in ours["inference_estimate"]["range_us"])
    facts.append(("estimate", f"{least:.2f} to {most:.2f} ms per inference on the chip, modelled"))
    if ours["npu_clock_mhz"] is not None:
        slow, fast = ours["npu_clock_mhz"]
        facts.append(("NPU clock", f"{slow:.0f} to {fast:.0f} MHz between inferences"))
    if "speedup" in document:
        facts.append(("speed-up", f"{document['speedup']:.2f} times the CPU alone, by medians"))
    if "simulator_ratio" in document:
        facts.append(
            (
                "simulator",
                f"takes {document['simulator_ratio']:.2f} times as long as the CPU alone, by "
                f"medians, {plural(document['threads'], 'thread')} each",
            )
        )
    if "compiled_model_ratio" in document:
        text = f"takes {document['compiled_model_ratio']:.2f} times as long as the delegate"
        facts.append(("CompiledModel", f"{text}, by medians"))
    if document["memory"] is not None:
        facts.append(("memory", _memory_text(document["memory"])))
    print_pairs(*facts)
    rows = []
    litert = document.get("compiled_model")
    for name, part in (("delegate", ours), ("CompiledModel", litert), ("CPU alone", cpu)):
        if part is not None:
            steady = [_ms(part["steady"][column]) for column in _COLUMNS]
            rows.append((name, _ms(part["init_ms"]), _ms(part["first_ms"]), *steady))
    headings = ("", "init", "first", "mean", "std", "min", "p50", "p95", "p99", "max")
    print_table("measured, milliseconds:", headings, rows, right=range(1, len(headings)))
    phases = ours["phases"]
    phase_rows = [
        ("input conversion", _ms(phases["input_conversion_ms"])),
        ("device: submit and wait", _ms(phases["device_ms"])),
        ("output conversion", _ms(phases["output_conversion_ms"])),
        ("CPU operators and runtime", _ms(phases["cpu_operators_ms"])),
    ]
    title = "where the time of a mean inference goes, milliseconds:"
    print_table(title, ("phase", "mean"), phase_rows, right=(1,))
    _print_operators(ours)


def _print_operators(ours: dict[str, Any]) -> None:
    """Partitions and the CPU nodes between them, in order of execution."""
    rows: list[tuple[object, ...]] = []
    gaps = ours["cpu_nodes"]
    partitions = [p for p in ours["partitions"] if p["measured"] is not None]
    partitions.sort(key=lambda p: p["partition"])
    for number in range(max(len(gaps), len(partitions))):
        if number < len(gaps) and gaps[number]["nodes"]:
            gap = gaps[number]
            names = ", ".join(dict.fromkeys(gap["ops"]))
            rows.append(("CPU", "", "", "", _ms(gap["mean_ms"]), "", _nodes(gap), names))
        if number < len(partitions):
            part = partitions[number]
            times = part["measured"]
            device = _ms(times["device_ms"])
            if times["submit_ms"] is not None:
                device = f"{_ms(times['submit_ms'])} + {_ms(times['wait_ms'])}"
            rows.append(
                (
                    "NPU",
                    _ms(times["input_conversion_ms"]),
                    device,
                    _ms(times["output_conversion_ms"]),
                    _ms(times["total_ms"]),
                    thousands(part["estimate"]["cycles"]),
                    _nodes(part),
                    f"partition {part['partition']}, {plural(part['tasks'], 'task')}",
                )
            )
    title = "operators: measured milliseconds, and apart from them the modelled cycles:"
    headings = ("on", "in", "device", "out", "total", "est. cycles", "nodes", "what")
    print_table(title, headings, rows, right=(1, 2, 3, 4, 5), last="elide")


_NODES_WIDTH = 22


def _nodes(part: dict[str, Any]) -> str:
    """Return the partition's nodes, cut where they are many, so that a line keeps to the width of a
    page.
    """
    text = nodes_text(part["nodes"])
    return text if len(text) <= _NODES_WIDTH else text[: _NODES_WIDTH - 3] + "..."


def _load(path: Path) -> dict[str, Any]:
    from delegate.insight.benchmark import FORMAT

    text = read_text(path, "file", _LARGEST_FILE_BYTES)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a saved measurement: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{path}: not a measurement saved by bench --save ({FORMAT})")
    return document


def _quantities(document: dict[str, Any]) -> list[tuple[str, float | None]]:
    """Return the quantities by which two measurements are compared."""
    ours, cpu = document["delegate"], document["cpu"]
    rows: list[tuple[str, float | None]] = [
        ("init", ours["init_ms"]),
        ("first", ours["first_ms"]),
        *((f"steady {c.removesuffix('_ms')}", ours["steady"][c]) for c in _COLUMNS),
        *((n.removesuffix("_ms").replace("_", " "), v) for n, v in ours["phases"].items()),
        ("CPU alone p50", cpu["steady"]["p50_ms"] if cpu is not None else None),
    ]
    return [(name, _milliseconds(value)) for name, value in rows]


def _milliseconds(value: object) -> float | None:
    """Raises TypeError, ValueError or ArithmeticError for what no measurement gives."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    if not math.isfinite(value) or not 0 <= value <= _MOST_MS:
        raise ValueError
    return float(value)


def _compare(arguments: argparse.Namespace) -> int:
    first, second = (_load(path) for path in arguments.compare)
    try:
        rows = [
            (name, before, after)
            for (name, before), (_, after) in zip(
                _quantities(first), _quantities(second), strict=True
            )
        ]
        for document in (first, second):
            texts = [document["model"], document["delegate"]["device"]]
            texts += [document["host"][key] for key in ("version", "runtime", "runtime_version")]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise UsageError("a saved measurement lacks fields; measure again") from None
    if arguments.json:
        quantities = [
            {"name": n, "a_ms": a, "b_ms": b, "ratio": b / a if a and b is not None else None}
            for n, a, b in rows
        ]
        heads = [
            {"model": d["model"], "host": d["host"], "device": d["delegate"]["device"]}
            for d in (first, second)
        ]
        print_json({"a": heads[0], "b": heads[1], "quantities": quantities})
    else:
        for letter, path, document in zip("AB", arguments.compare, (first, second), strict=True):
            host = document["host"]
            print(
                f"{letter}  {path}: {document['model']} on {document['delegate']['device']}, "
                f"version {host['version']}, {host['runtime']} {host['runtime_version']}"
            )
        table = [
            (n, _ms(a), _ms(b), f"{100 * (b - a) / a:+.1f} %" if a and b is not None else "-")
            for n, a, b in rows
        ]
        headings = ("quantity", "A", "B", "B against A")
        print_table("measured, milliseconds:", headings, table, right=(1, 2, 3))
    if first["model"] != second["model"]:
        warn(f"different models: {first['model']} and {second['model']}")
    return 0


COMMAND = Command(
    _run,
    """
bench: Measure a model: init, first and steady runs, phases, operators; compare two.

model MODEL:path?  a .tflite file
--compare A.json:path B.json  instead of measuring: two saved measurements side by side
--runs N:positive=50  measured inferences (default 50)
--warmup N:natural=5  inferences after the first that do not count (default 5)
--threads N:positive  of operators on the CPU and of the simulator (default: the runtime's; with the
  simulator one)
--api delegate|compiled-model=delegate  compiled-model: through LiteRT's CompiledModel, too
  (ai-edge-litert 2.3 or later)
--no-cpu  do not measure the CPU alone
--image FILE:path  the input: a picture
--seed N:natural=0  of random inputs (default 0)
--save FILE.json:path  also write the JSON there

bench mobilenet_v1_1.0_224_quant.tflite
bench model.tflite --runs 200 --threads 4 --save before.json
bench model.tflite --api compiled-model
bench --compare before.json after.json
""",
    takes_options=True,
)
