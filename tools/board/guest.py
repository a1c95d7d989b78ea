"""Runs in the guest: the product against the kernel's own driver. One JSON line per case.

``/host/plan.json`` names the cases, ``results.jsonl`` goes back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from tools.board import cases, cycles, deaths, faults
from tools.board.harness import DRIVER, HOST, complaints, in_child, kernel_timeouts

CASES: dict[str, Callable[[], object]] = {
    function.__name__: function
    for function in (
        cases.doctor, cases.hidden, cases.clock, cases.bring_up, cases.classify, cases.detect,
        cases.outputs, cases.compare, cases.threads, cases.c_program,
        cases.compiled_conformance, cycles.cycles, cycles.hangs, faults.fault_hang,
        faults.fault_silent, faults.fault_ppu, faults.fault_page, faults.fault_reset,
        faults.fault_slow, faults.fault_forget, faults.fault_feature, cases.conformance,
        deaths.terminated, deaths.aborted, deaths.exited, deaths.killed, cases.shared_memory,
        cases.answers,
    )
}  # fmt: skip
TOLERANT = ("answers", *(("killed",) if DRIVER == "rknpu" else ()))
"""Cases in which the kernel may complain: the questions are meant to find out, and the vendor's
driver has no keeper.
"""


REPEATABLE = tuple(name for name, case in CASES.items() if case.__module__ == cases.__name__)
"""Cases in which no task is asked to hang."""


def attempt(name: str) -> dict[str, object]:
    """Return how a case went, in a process of its own: nothing of it stays for the next one."""

    def body(case: Callable[[], object] = CASES[name]) -> None:
        print("RESULT " + json.dumps(case()), flush=True)

    try:
        code, text = in_child(body, 7200)
        assert code == 0, text[-1500:]
        return {"passed": True, "detail": json.loads(text.rpartition("RESULT ")[2])}
    except Exception as error:
        return {"passed": False, "detail": f"{type(error).__name__}: {error}"}


def main() -> None:
    names = json.loads((HOST / "plan.json").read_text())
    with open(HOST / "results.jsonl", "w") as results:
        for name in names:
            start, before, late = time.monotonic(), len(complaints()), kernel_timeouts()
            row: dict[str, object] = {"case": name, **attempt(name)}
            # An error that the kernel's own deadline explains, on a machine that is busy.
            if not row["passed"] and name in REPEATABLE and kernel_timeouts() > late:
                row |= {**attempt(name), "first": row["detail"]}
            said = complaints()[before:]
            if said and name not in TOLERANT:
                row |= {"passed": False, "kernel": said[:5]}
            row["seconds"] = round(time.monotonic() - start, 1)
            results.write(json.dumps(row) + "\n")
            results.flush()
            os.fsync(results.fileno())


if __name__ == "__main__":
    main()
