"""Every fault at every call site of a whole life: create, run, run again, destroy.

For each combination: what happened, in which words, whether anything leaked, and whether the next
run on the healthy device gave the right result.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from delegate.errors import DeviceError
from tests.kernel.standin_calls import calls, live, set_faults, take_violations
from tests.kernel.worker_life import Life

ERRORS = ("ENODEV", "EACCES", "EBUSY", "ENOMEM", "EINTR", "EAGAIN", "EINVAL", "ENOSPC", "EIO")
# What the device or the kernel may do with a submit, by name of the table.
SUBMIT_FATES = ("hang:0", "hang:1", "lost", "garbage", "slow:20")
TIMEOUT_MS = 20_000


class Scenario(Life):
    """One program, made by hand, so that the table does not change with the compiler."""

    def life(self) -> dict[str, int]:
        """Calls of a life without faults. At its end Rocket takes pages, and closes them, until the
        driver has let go, which is a matter of time: only the first of them counts.
        """
        set_faults()
        executable = self.load(timeout_ms=TIMEOUT_MS)
        for seed in range(2):
            assert self.is_right(executable, seed)
        before = calls()
        del executable
        found = calls()
        again = found.get("CREATE_BO", 0) - before.get("CREATE_BO", 0) - 1
        if again > 0:
            found["CREATE_BO"] -= again
            found["GEM_CLOSE"] -= again
        return found

    def combinations(self) -> Iterator[tuple[str, int, str]]:
        for call, count in sorted(self.life().items()):
            for site in range(1, count + 1):
                for error in (*ERRORS, "vanish"):
                    yield call, site, error
                if call == "SUBMIT":
                    for fate in SUBMIT_FATES:
                        yield call, site, fate

    def try_fault(self, call: str, site: int, action: str) -> dict[str, object]:
        take_violations()
        # Only a comparison finds a result that is wrong.
        verify = action == "garbage"
        set_faults(f"{call}@{site}={action}")
        outcome, text, executable = "right results", "", None
        try:
            executable = self.load(timeout_ms=TIMEOUT_MS, verify=verify)
            if not all([self.is_right(executable, 0), self.is_right(executable, 1)]):
                outcome = "WRONG RESULTS"
        except DeviceError as error:
            outcome, text = "error", str(error)
        met = calls().get(call, 0) >= site
        set_faults()
        try:
            recovered = self.is_right(executable or self.load(timeout_ms=TIMEOUT_MS), 0)
        except DeviceError as error:
            recovered, text = False, f"{text} NOT RECOVERED {error}"
        # The end of life is a call site, too: the fault is armed again, counted from there.
        if not met:
            set_faults(f"{call}@1={action}")
        del executable
        gc.collect()
        set_faults()
        return {
            "call": call, "site": site, "action": action, "outcome": outcome, "text": text,
            "met": met, "recovered": recovered, "live": live(), "violations": take_violations(),
        }  # fmt: skip


def time_out(scenario: Scenario) -> dict[str, object]:
    """The device hangs longer than the host waits; then the kernel has reset it."""
    set_faults()
    executable = scenario.load(timeout_ms=30)
    set_faults("SUBMIT@1=hang:1")
    try:
        scenario.is_right(executable, 0)
        outcome, text = "right results", ""
    except DeviceError as error:
        outcome, text = "error", str(error)
    set_faults()
    for _ in range(100):  # busy until the kernel's time-out
        try:
            recovered = scenario.is_right(executable, 0)
            break
        except DeviceError:
            recovered = False
    del executable
    return {
        "call": "SUBMIT", "site": 1, "action": "hang:1, timeout_ms=30", "outcome": outcome,
        "met": True, "text": text, "recovered": recovered, "live": live(),
        "violations": take_violations(),
    }  # fmt: skip


def work(device: str) -> list[dict[str, object]]:
    scenario = Scenario(device)
    scenario.life()  # what a process does only once
    results = [scenario.try_fault(*each) for each in scenario.combinations()]
    return [*results, time_out(scenario)]
