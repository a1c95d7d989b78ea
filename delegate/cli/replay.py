"""``replay``: runs captures or dumps and checks what they compute."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from delegate.cli.command import (
    EXIT_MISMATCH,
    ODD_ORDERS,
    ORDER_ROWS,
    Command,
    options_from,
    print_error,
    print_json,
)
from delegate.cli.table import format_table
from delegate.errors import CaptureError
from delegate.host.delegation import plural
from delegate.progress import progress

if TYPE_CHECKING:
    from delegate.insight.capture import ReplayResult


def _run(arguments: argparse.Namespace) -> int:
    from delegate.insight.capture import ReplayResult, load_capture, replay

    options = options_from(arguments)
    results: list[ReplayResult] = []
    unreadable: CaptureError | None = None
    with progress("replaying", len(arguments.captures)) as bar:
        for path in arguments.captures:
            try:
                capture = load_capture(path)
            except CaptureError as error:
                unreadable = unreadable or error
                results.append(ReplayResult(path.stem, False, None, None, str(error)))
            else:
                results.append(
                    replay(
                        capture,
                        options.device,
                        arguments.chained,
                        arguments.threads,
                        kernel=arguments.kernel,
                        lenient=arguments.lenient,
                        timeout_ms=options.timeout_ms,
                    )
                )
            bar.advance()
    if arguments.json:
        print_json({"captures": [asdict(result) for result in results]})
    elif unreadable is None or len(results) > 1:
        _print_table(results)
    if unreadable is not None:
        print_error(str(unreadable))
        return unreadable.exit_code
    return 0 if all(result.passed for result in results) else EXIT_MISMATCH


def _print_table(results: list[ReplayResult]) -> None:
    rows = [
        (
            "passed" if r.passed else "FAILED",
            "-" if r.max_abs_diff is None else r.max_abs_diff,
            "-" if r.equal is None else f"{r.equal:.6f}",
            r.name,
            r.error or "",
        )
        for r in results
    ]
    print(format_table(("result", "max diff", "equal", "capture", "error"), rows, right=(1, 2)))
    passed = sum(result.passed for result in results)
    for result in results:
        for complaint in result.complaints:
            print(f"{result.name}: passed over: {complaint}")
    print(f"{passed} of {plural(len(results), 'capture')} passed")


COMMAND = Command(
    _run,
    f"""
replay: Run captures or dumps (npu-capture-1) on a device and check their outputs.

captures CAPTURE:path+  npu-capture-1 files (.npz)
{ORDER_ROWS}
| --kernel rocket|rknpu=  as that kernel driver would run it: rocket kicks every task and waits for
  the DPU only, rknpu kicks jobs
--lenient  list deviations that programs of other compilers have instead of failing on them
--threads N:natural=0  of the simulator (default 0: one per processor)

replay captures/partition_0.npz
replay captures/*.npz --json
replay captures/partition_0.npz --chained
replay captures/partition_0.npz --kernel rocket
replay captures/partition_0.npz --lenient
""",
    odd=ODD_ORDERS,
    takes_options=True,
)
