"""Makes faults from outside, and says how the product must answer."""

from __future__ import annotations

import time

from delegate.errors import DelegateError
from tools.board.harness import (
    DEVICE,
    DRIVER,
    command,
    document,
    interpreter,
    invoke,
    models,
    set_fault,
)

# A job that did not end, or of which nothing came.
HANGS = {"rocket": ("nothing was written", "no result after"), "rknpu": ("no result after",)}
LOST = {**HANGS, "rknpu": ("no result after", "nothing was written")}
# Which task goes wrong: the vendor's driver starts all tasks of an invoke at once.
EARLY, LATER, HANG_AT = {"rocket": (1, 3, 10), "rknpu": (1, 1, 1)}[DRIVER]
DEVIATIONS = ",".join(f"{kind}:cbuf:kept_weights_lost" for kind in ("dense", "depthwise"))


def run_with_fault(fault: str, item, expected: str) -> str:
    """The error's text; "" if the result is right. Raises AssertionError if it is wrong."""
    set_fault(fault)
    try:
        assert invoke(item, 0) == expected, f"{fault}: a wrong result"
    except (RuntimeError, DelegateError) as error:
        return str(error)
    finally:
        set_fault("")
    return ""


def _after_a_fault(fault: str, words: tuple[str, ...]) -> str:
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    item = interpreter(path)
    assert invoke(item, 0) == expected
    text = run_with_fault(fault, item, expected)
    assert any(each in text for each in words), text or "no error"
    assert invoke(item, 0) == expected, "wrong after the fault"
    return text[:300]


def fault_hang() -> object:
    return [_after_a_fault(f"hang {n}", HANGS[DRIVER]) for n in (EARLY, LATER)]


def fault_silent() -> object:
    return _after_a_fault(f"silent {LATER}", LOST[DRIVER])


def fault_ppu() -> object:
    return _after_a_fault(f"ppu {LATER}", LOST[DRIVER])


def fault_page() -> object:
    return _after_a_fault(f"page {LATER}", LOST[DRIVER])


def fault_reset() -> object:
    return _after_a_fault(f"reset {LATER}", LOST[DRIVER])


def fault_slow() -> object:
    """Slow cores change nothing but the time."""
    path = models()[1 % len(models())]
    expected = invoke(interpreter(path, "simulator"), 0)
    item = interpreter(path)
    assert invoke(item, 0) == expected
    took = []
    for fault in ("", "slow 1 20"):
        start = time.monotonic()
        assert run_with_fault(fault, item, expected) == ""
        took.append(time.monotonic() - start)
    return [round(seconds, 2) for seconds in took]


def fault_forget() -> object:
    """CBUF and registers are empty at every kick: no wrong result, and bring-up notices."""
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    item = interpreter(path)
    assert invoke(item, 0) == expected
    text = run_with_fault("forget 1", item, expected)
    assert invoke(item, 0) == expected, "wrong after the fault"
    return text[:300] or "right"


def fault_feature() -> object:
    """A chip that loses kept weights: bring-up suspects forms of convolutions."""
    set_fault(f"deviate 1 {DEVIATIONS}")
    try:
        facts = document("bring-up", "--device", DEVICE, timeout_s=900)
    finally:
        set_fault("")
    suspects = [row["form"] for row in facts["forms"] if row["here"] == "suspect"]
    if DRIVER == "rocket":
        assert any(name.startswith("conv-") for name in suspects), suspects
    code, text = command("bring-up", "--device", DEVICE)
    assert code == 0, text[-500:]
    return suspects
