"""``compile``: what would run on the NPU, how fast, and why not all; programs as captures."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.chip import NAMES
from delegate.cli.command import Command, options_from, print_json, warn
from delegate.cli.files import check_writable, refuse_overwriting, write_file
from delegate.errors import UsageError
from delegate.host.chosen import drivers_at
from delegate.host.delegation import require_all
from delegate.host.host_facts import clocks_hz
from delegate.progress import progress

if TYPE_CHECKING:
    from delegate.compile.compiler import CompileResult
    from delegate.options import Options


def _run(arguments: argparse.Namespace) -> int:
    from delegate.insight.compile_report.document import compile_document
    from delegate.insight.cpu_time import A76, load_rates

    if arguments.dump is None and (arguments.image is not None or arguments.input is not None):
        raise UsageError("--image and --input are the input of a dump; --dump DIR is missing")
    if arguments.litert and arguments.output is None:
        raise UsageError("--litert says how OUT.tflite is written; -o OUT.tflite is missing")
    if arguments.chip is not None:
        arguments.option.append(f"chip={arguments.chip}")
    options = options_from(arguments)
    check_writable(arguments.output, arguments.html)
    cpu = A76 if arguments.cpu_rates is None else load_rates(arguments.cpu_rates)
    result, files = _compile(arguments, options)
    drivers = drivers_at(options.device, result.chip, clocks_hz())
    if arguments.dump is not None:
        files += _dump(arguments, result)
    if arguments.html is not None:
        from delegate.insight.compile_report.document import page_document, render_page

        page = render_page(page_document(result, arguments.model.name, cpu, drivers))
        write_file(arguments.html, page.encode("utf-8"))
        files.append(arguments.html)
    document = compile_document(result, counters=arguments.counters, cpu=cpu, drivers=drivers)
    if arguments.json:
        print_json(document)
    else:
        _print(arguments, result, document)
        for path in files:
            print(f"wrote {path}")
    if not (result.partitions or result.slower):
        warn(f"{arguments.model}: no operator of this model can run on the NPU")
    return 0


def _print(arguments: argparse.Namespace, result: CompileResult, document: dict[str, Any]) -> None:
    """Print the answer, and the tables that were asked for."""
    from delegate.cli import compile_tables  # on demand, as the compiler
    from delegate.cli.compile_answer import print_answer, print_forms

    print_answer(arguments.model, result, document)
    if arguments.layers:
        compile_tables.print_layers(result, document)
    if arguments.nodes:
        compile_tables.print_nodes(document)
    if arguments.evidence:
        print_forms(document)
    if arguments.explain:
        compile_tables.print_choices(document)
    if arguments.counters:
        compile_tables.print_counters(document)


def _compile(arguments: argparse.Namespace, options: Options) -> tuple[CompileResult, list[Path]]:
    """The result, and the file of a model that is compiled ahead of time."""
    from delegate.compile.compiler import compile_model

    if arguments.output is None:
        result = compile_model(arguments.model, options)
        require_all(result.rejections, options)
        return result, []
    from delegate.compile.aot.rewrite import compile_ahead_of_time

    refuse_overwriting(arguments.model, arguments.output)
    ahead = compile_ahead_of_time(arguments.model, options, litert=arguments.litert)
    for item in ahead.results:
        require_all(item.rejections, options)
    write_file(arguments.output, ahead.content)
    return ahead.results[0], [arguments.output]


def _dump(arguments: argparse.Namespace, result: CompileResult) -> list[Path]:
    """The files of captures."""
    from delegate.cli.files import sample_source
    from delegate.host.samples import load_sample
    from delegate.insight.program_capture import dump_partitions

    source = sample_source(arguments)
    if arguments.input is not None:
        source = partial(load_sample, arguments.input)
    with progress("dumping", 1 + len(result.partitions)) as bar:
        return dump_partitions(arguments.model, result, arguments.dump, source, done=bar.advance)


COMMAND = Command(
    _run,
    f"""
compile: Say whether a model runs on the NPU, how fast by estimate, and what would help.

model MODEL:path  a .tflite file
--chip NAME  the chip to compile for, as option chip: {" or ".join(NAMES)}
--dump DIR:path  write every partition as a capture that replay runs: DIR/partition_<n>.npz
| --image FILE:path  the dump's input: a picture
| --input X.npy:path  the dump's input: .npy, or .npz by input names (default: random)
--seed N:natural=0  of the dump's random input (default 0)
-o OUT.tflite:path  write the model with its programs inside, to run without Python
--litert  write OUT.tflite for LiteRT's CompiledModel instead of interpreters with a delegate
--html FILE:path  write a report as one page: graph, tiles, roofline, memory, what would help
--layers  show partitions, layers and tasks, where the time goes, what is left to the CPU by rule
--explain  say of every layer why it is tiled as it is
--nodes  list every node that is left to the CPU
--evidence  list every form of task, what it does, who has run it
--cpu-rates FILE.json:path  times of nodes on the CPU by these rates (python -m
  benchmarks.cpu_kernels --save), instead of a modelled Cortex-A76
--counters  what tasks do, counted by the simulator: MACs, bytes by port, CBUF, cycles; per layer,
  with --json per task, too

compile mobilenet_v1_1.0_224_quant.tflite
compile model.tflite --layers
compile model.tflite --json
compile model.tflite --counters
compile model.tflite --html report.html
compile model.tflite -o compiled.tflite
compile model.tflite --litert -o compiled.tflite
compile model.tflite --dump captures/ --image cat.jpg
""",
    odd={"-o": {"dest": "output"}},
    takes_options=True,
)
