"""``conformance``: the operator suite, with googletest's command line and output."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from delegate.cli.command import EXIT_MISMATCH, Command, options_from, print_json, warn
from delegate.cli.files import check_writable, write_file
from delegate.errors import UsageError
from delegate.host.library import library_path
from delegate.options import Options
from delegate.progress import progress
from rk3588_conformance.gtest_filter import MAX_RANDOM_SEED, Filter, Shard, sampled, shuffled
from rk3588_conformance.gtest_report import Console, parse_output, print_list, write_report
from rk3588_conformance.outcome import Outcome, Status

# ../shared/models beside a source tree.
_SHARED_MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"

# No case is known to take a twentieth of this on one core.
_CASE_TIMEOUT_S = 600


def _flag(text: str) -> bool:
    """googletest's booleans."""
    if text not in ("0", "1", "true", "false", "t", "f"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 0 nor 1")
    return text in ("1", "true", "t")


def _run(arguments: argparse.Namespace) -> int:
    from rk3588_conformance.families import case_names

    models = _models_folder(arguments)
    selected = filter(Filter.parse(arguments.gtest_filter).selects, case_names(models))
    if arguments.gtest_list_tests:
        print_list(selected, sys.stdout)
        return 0
    report = parse_output(arguments.gtest_output) if arguments.gtest_output else None
    names = list(selected)
    if not names:
        warn(
            f"no test has a name like {arguments.gtest_filter}: --gtest_list_tests shows the names"
        )
    library_path()  # else every test would fail for want of it
    if arguments.sample is not None:
        names = sampled(names, arguments.sample, arguments.seed)
    names = list(Shard.from_environment().takes(names))
    if arguments.verbose:
        arguments.jobs = 1
    check_writable(arguments.summary)
    if models is None:
        warn("no folder of public models (--models): the tests of files are not in the suite")
    code = 0
    iteration = 0
    while iteration != arguments.gtest_repeat:
        iteration += 1
        started = time.time()
        if arguments.gtest_repeat != 1:
            print(f"\nRepeating all tests (iteration {iteration}) . . .\n", flush=True)
        outcomes = _run_once(arguments, names, models, iteration)
        elapsed = round((time.time() - started) * 1000)
        if report is not None:
            write_report(*report, outcomes, started, elapsed)
        _summarize(arguments, outcomes)
        if any(outcome.status is Status.FAILED for outcome in outcomes):
            code = EXIT_MISMATCH
            if arguments.gtest_fail_fast:
                break
    return code


def _models_folder(arguments: argparse.Namespace) -> Path | None:
    folder: Path | None = arguments.models
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of models")
    if folder is None and _SHARED_MODELS.is_dir():
        return _SHARED_MODELS
    return folder


def _run_once(
    arguments: argparse.Namespace, names: list[str], models: Path | None, iteration: int
) -> list[Outcome]:
    from rk3588_conformance.workers import Settings, run_in_processes

    seed: int | None = None
    if arguments.gtest_shuffle:
        first = arguments.gtest_random_seed or int(time.time())
        seed = (first + iteration - 2) % MAX_RANDOM_SEED + 1
        names = shuffled(names, seed)
    quiet = arguments.json
    console = Console(io.StringIO() if quiet else sys.stdout, brief=arguments.gtest_brief)
    console.start(names, arguments.gtest_filter, Shard.from_environment(), seed)
    started = time.monotonic()
    outcomes: list[Outcome] = []
    given = _effective(arguments)
    cases = run_in_processes(names, Settings(models, given, _CASE_TIMEOUT_S), arguments.jobs)
    with contextlib.closing(cases), progress("conformance", len(names)) as bar:
        for outcome in cases:
            bar.hide()
            console.case(outcome)
            if arguments.verbose and not quiet:
                from delegate.cli.case_explanation import explain

                for line in explain(outcome, models, Options.from_mapping(given)):
                    print(f"    {line}")
            bar.advance()
            outcomes.append(outcome)
            if arguments.gtest_fail_fast and outcome.status is Status.FAILED:
                break
    console.finish(outcomes, round((time.monotonic() - started) * 1000))
    return outcomes


def _effective(arguments: argparse.Namespace) -> dict[str, str]:
    """The options that were given; all nodes that can be are judged, worth a crossing or not, and
    nothing is said of what each model makes the delegate say.
    """
    given = options_from(arguments, wants_all=True).given()
    return {"log_level": "error", **given}


def _summarize(arguments: argparse.Namespace, outcomes: list[Outcome]) -> None:
    from rk3588_conformance.page import summarize

    document = summarize(outcomes)
    if arguments.summary is not None:
        write_file(arguments.summary, (json.dumps(document, indent=1) + "\n").encode())
    if arguments.json:
        print_json(document)


_FLAGS = "list_tests shuffle fail_fast also_run_disabled_tests brief print_time"
_ODD: dict[str, dict[str, Any]] = {
    f"--gtest_{name}": {
        "action": "store", "type": _flag, "nargs": "?", "const": True, "default": False,
    }
    for name in _FLAGS.split()
}  # fmt: skip
_ODD |= {
    "--gtest_filter": {
        "metavar": "POSITIVE[-NEGATIVE]", "default": os.environ.get("GTEST_FILTER", "*"),
    },
    "--gtest_output": {
        "metavar": "(json|xml)[:PATH]", "default": os.environ.get("GTEST_OUTPUT", ""),
    },
}  # fmt: skip

COMMAND = Command(
    _run,
    f"""
conformance: Run the operator suite: thousands of models against TensorFlow Lite's reference.

googletest's arguments:
--gtest_list_tests  list the tests and stop
--gtest_filter P  patterns with * and ?, separated by a colon (default: GTEST_FILTER)
--gtest_output O  write a report
--gtest_shuffle  random order
--gtest_random_seed N:natural=0  of the shuffle; 0 takes one from the clock (default)
--gtest_repeat N:whole=1  a negative number: for ever
--gtest_fail_fast  stop at the first failure
--gtest_also_run_disabled_tests  no test is disabled; accepted for runners
--gtest_brief  print failures only
--gtest_color yes|no|auto  ignored
--gtest_print_time  ignored: times are always printed
:
--jobs N:positive={os.cpu_count() or 1}  processes (default: one per processor)
--sample N:positive  about N of the selected tests, at least one of every family
--seed S:natural=0  of --sample (default 0)
--models DIR:path  folder of public models for the suites that run files (default: ../shared/models
  beside the source tree, if it exists)
--verbose  show the first differing element of each test, and its way through the stages
--summary PATH:path  write counts per family as JSON

conformance --sample 1000
conformance --gtest_filter='Conv2D.*:DepthwiseConv2D.*-*input_size_112*' --jobs 4
conformance --gtest_list_tests
conformance --gtest_output=json:result.json --device rocket
conformance --gtest_filter=AddQuant.Op/7 --verbose
""",
    odd=_ODD,
    takes_options=True,
)
