"""``compare``: the delegate against TensorFlow Lite."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from delegate.cli.command import EXIT_MISMATCH, Command, answer, options_from, warn_if_on_cpu
from delegate.cli.table import format_table, print_pairs, print_table, share, thousands
from delegate.host.chosen import chosen_chip
from delegate.host.delegation import plural
from delegate.host.samples import Details, Sample, load_sample, random_sample
from delegate.host.tally import Tally
from delegate.model.tflite_reader import read_graph
from delegate.ops.shared.functions import table_rows
from delegate.progress import progress
from rk3588_conformance.comparison import (
    MAX_ABS_DIFF,
    MIN_TOP1_AGREEMENT,
    Comparison,
    least_equal,
)
from rk3588_conformance.parallel_comparison import compare_in_processes
from rk3588_conformance.tolerance import share_of
from rk3588_vision.images import find_images
from rk3588_vision.placement import image_sample


def _samples(arguments: argparse.Namespace) -> list[Callable[[Details], Sample]]:
    """Functions that make the samples; picklable, so that other processes can load their own."""
    if arguments.images is not None:
        paths = find_images(arguments.images)[: arguments.limit]
        return [partial(image_sample, path) for path in paths]
    if arguments.input is not None:
        return [partial(load_sample, arguments.input)]
    rows = table_rows(read_graph(arguments.model))
    first = arguments.seed
    return [
        partial(random_sample, seed=seed, rows=rows)
        for seed in range(first, first + arguments.random)
    ]


def _run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments, wants_all=True)
    sources = _samples(arguments)
    with progress("comparing", len(sources)) as bar:
        result, delegated = compare_in_processes(
            arguments.model,
            options,
            sources,
            per_op=arguments.per_op,
            reference_kernels=arguments.reference == "reference",
            jobs=arguments.jobs,
            done=bar.advance,
        )
    differing = share_of(chosen_chip(options).name, options.numerics)
    broken = result.violations(differing)
    if (
        arguments.images is not None
        and result.top1_agreed is not None
        and result.top1_agreed * MIN_TOP1_AGREEMENT[1] < result.samples * MIN_TOP1_AGREEMENT[0]
    ):
        broken.append(f"the best class agrees for {result.top1_agreed} of {result.samples}")
    verdict = _verdict(result, broken, delegated)
    answer(
        arguments,
        _document(result, verdict, broken, arguments.per_op),
        lambda: _print_tables(result, arguments.per_op, options.numerics, differing),
    )
    warn_if_on_cpu(arguments.model, delegated)
    if not arguments.json:
        print()
        for sentence in result.doubts_of_runtime():
            print(f"RUNTIME: {sentence}")
        for sentence in broken:
            print(f"BROKEN: {sentence}")
        print_pairs(("verdict", verdict))
    return EXIT_MISMATCH if broken else 0


def _counts(tally: Tally) -> dict[str, Any]:
    """JSON has no infinity; a difference that is one is given as null."""
    worst = None if tally.max_abs_diff == float("inf") else tally.max_abs_diff
    return {"max_abs_diff": worst, "equal": tally.equal, "elements": tally.elements}


def _verdict(result: Comparison, broken: list[str], delegated: int) -> str:
    if broken:
        return "beyond the contract"
    if result.is_equal:
        return "equal"
    if not delegated:
        return "nothing was delegated: the runtime's own results differ from run to run"
    if result.doubts_of_runtime():
        return "within the contract, but for the runtime's own kernels"
    if result.in_half:
        largest = max((output.max_abs_diff for output in result.outputs), default=0)
        return f"in fp16, which rounds: outputs differ by at most {largest:.3g}"
    if any(op.difference is not None for op in result.ops):
        return "within the contract of numerics=auto"
    return "within the contract: no operator is off by more than one step"


def _document(result: Comparison, verdict: str, broken: list[str], per_op: bool) -> dict[str, Any]:
    agreement = None if result.top1_agreed is None else result.top1_agreed / result.samples
    return {
        "outputs": [{"name": output.name, **_counts(output)} for output in result.outputs],
        "ops": [{"node": op.node, "op": op.op, **_counts(op)} for op in result.ops if per_op],
        "top1_agreement": agreement,
        "images": result.samples,
        "verdict": verdict,
        "violations": broken,
        "runtime_wrong": result.doubts_of_runtime(),
        "fp16": result.in_half,
    }


def _cells(tally: Tally) -> tuple[object, ...]:
    return share(tally.equal, tally.elements), thousands(tally.elements), tally.max_abs_diff


def _print_tables(result: Comparison, per_op: bool, numerics: str, differing: float) -> None:
    facts: list[tuple[str, object]] = [("inputs", result.samples)]
    if result.top1_agreed is not None:
        facts.append(("best class agrees", f"{result.top1_agreed} of {result.samples}"))
    print_pairs(*facts)
    print()
    rows = [(*_cells(output), output.name) for output in result.outputs]
    print(format_table(("equal", "elements", "max diff", "output"), rows, right=(0, 1, 2)))
    if not per_op:
        return
    op_rows: list[tuple[object, ...]] = [(op.node, *_cells(op), op.op) for op in result.ops]
    op_rows.append(("all", *_cells(result.ops_total()), plural(len(result.ops), "operator")))
    title = "every delegated node alone, with TensorFlow Lite's own inputs, against its reference:"
    headings = ("node", "equal", "elements", "max diff", "op")
    print_table(title, headings, op_rows, right=(0, 1, 2, 3))
    alone, together = (100 * part / whole for part, whole in least_equal(differing))
    print(
        f"contract of numerics={numerics}: max diff {MAX_ABS_DIFF}, at least {alone:g} % equal per "
        f"operator and {together:g} % in total;\n"
        "of operators in one task, what they could give one after the other"
    )


COMMAND = Command(
    _run,
    f"""
compare: Compare the delegate with TensorFlow Lite: equal elements, differences, top-1.

model MODEL:path  a .tflite file
| --images DIR:path  a folder of pictures, all compared
| --input X.npy:path  the input: .npy, or .npz by input names
| --random N:positive=1  N random inputs (the default, with N = 1)
--seed N:natural=0  of random inputs (default 0)
--limit N:positive  only the first N pictures
--per-op  show every delegated node alone, with TensorFlow Lite's inputs to it
--reference reference|builtin=reference  kernels of what runs on the CPU, on both sides: TensorFlow
  Lite's reference kernels (default) or its fast ones; --per-op always takes the reference kernels
--jobs N:positive={os.cpu_count() or 1}  processes for several inputs (default: one per processor)

compare model.tflite --images photographs/ --reference builtin
compare model.tflite --input input.npy --per-op
compare model.tflite --per-op --random 4 --json
""",
    takes_options=True,
)
