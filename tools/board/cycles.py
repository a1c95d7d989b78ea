"""Load, invoke, delete and exit, hundreds of times: programs in C, whole Python processes, forks.

``BOARD_CYCLES`` of them: two fifths close right after their result, a tenth meets a task that
hangs, a twenty-fifth dies (``deaths.killed``). All others end in order. Every result is compared,
and the kernel's log watched.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tools.board.cases import LIBRARY
from tools.board.faults import HANG_AT, HANGS, LOST, run_with_fault
from tools.board.harness import (
    C_HOST,
    DEVICE,
    DRIVER,
    HOST,
    SLOWNESS,
    c_host,
    in_child,
    interpreter,
    invoke,
    kernel_timeouts,
    models,
    number,
    set_fault,
)

CYCLES = 40
STREAMS = 3
# The vendor's driver waits for a task that hangs as long as it is told, and 4 s for the reset.
LIMIT = {"rocket": {}, "rknpu": {"timeout_ms": "2000"}}[DRIVER]
_AT_ONCE = 3
"""Programs at a time, where the driver serves several processes."""
_MODEL, _INPUT, _SUM = (HOST / "compiled" / name for name in ("model", "model.input", "model.sum"))
_WHOLE = """
import sys
from pathlib import Path
from tools.board.cycles import load
from tools.board.harness import invoke
item = load(Path(sys.argv[1]))
print(invoke(item, 0))
"""
RESET = ("another one passed its time-out",)
_KEPT: list[object] = []
"""The objects that a process leaves behind."""


def _total() -> int:
    return number("BOARD_CYCLES", CYCLES)


def load(path: Path, **limits: str):
    """Through the cache: compiling takes seconds where the processor is emulated."""
    return interpreter(path, cache_dir="/tmp/programs", **limits)


def has_c_host() -> bool:
    return C_HOST.exists() and _MODEL.exists()


class LateError(Exception):
    """The kernel's own deadline passed, though no task was asked to hang: this machine is slow."""


LATE: Counter[str] = Counter()


def is_late(text: str, before: int) -> bool:
    """Return whether an error is one that the kernel's log explains."""
    return any(words in text for words in LOST[DRIVER]) and kernel_timeouts() > before


def require_success(code: int, text: str, before: int) -> None:
    """Raises LateError where the error is one that the kernel's log explains."""
    if code == 0:
        return
    if is_late(text, before):
        LATE["the kernel's own time-outs, repeated"] += 1
        raise LateError
    raise AssertionError(f"exit {code}: {text[-500:]}")


def until(count: int, once: Callable[[int], int]) -> int:
    """Runs ``once``, which says how many cycles it made, until there are ``count``."""
    done = 0
    while done < count:
        try:
            done += once(count - done)
        except LateError:
            assert sum(LATE.values()) <= count // 10 + 2, "the kernel's deadline passes too often"
    return done


def c_at_once(count: int) -> int:
    """Programs in C that exit with everything open, several at a time; returns how many ran."""
    together = _AT_ONCE if DRIVER == "rocket" else 1
    command = [str(C_HOST), "--at-once", LIBRARY, str(_MODEL), str(_INPUT), f"device={DEVICE}"]

    def once(left: int) -> int:
        before = kernel_timeouts()
        started = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(min(together, left))
        ]
        ended = [(each.communicate(timeout=120 * SLOWNESS), each.returncode) for each in started]
        for (text, errors), code in ended:
            assert code or text.strip() == _SUM.read_text(), "a wrong result"
            require_success(code, errors, before)
        return len(started)

    return until(count, once)


def c_in_order(count: int) -> int:
    """Programs in C that delete what they made."""

    def once(_: int) -> int:
        before = kernel_timeouts()
        done = c_host("--batch", LIBRARY, str(_list_of_one()), str(_INPUT), f"device={DEVICE}")
        sum_ = done.stdout.split()[-1] if done.stdout else ""
        require_success(done.returncode or sum_ == "rejected", done.stderr, before)
        assert sum_ == _SUM.read_text(), "a wrong result"
        return 1

    return until(count, once)


def _list_of_one() -> Path:
    names = Path("/tmp/one")
    names.write_text(f"{_MODEL}\n")
    return names


def c_hanging(count: int) -> int:
    """Programs in C of which a task hangs: an error, never a result."""
    command = ["--at-once", LIBRARY, str(_MODEL), str(_INPUT), f"device={DEVICE}"]
    command += [f"{key}={value}" for key, value in LIMIT.items()]
    for turn in range(count):
        set_fault(f"hang {1 + turn % HANG_AT}")
        try:
            done = c_host(*command)
        finally:
            set_fault("")
        assert done.returncode == 1, f"exit {done.returncode}: {done.stdout}"
        assert any(words in done.stderr for words in LOST[DRIVER]), done.stderr[-500:]
    return count


def whole(count: int, path: Path, expected: str) -> int:
    """Python processes from their start to their end."""

    def once(_: int) -> int:
        before = kernel_timeouts()
        done = subprocess.run(
            [sys.executable, "-c", _WHOLE, str(path)],
            capture_output=True, text=True, check=False, timeout=300 * SLOWNESS,
        )  # fmt: skip
        require_success(done.returncode, done.stderr, before)
        assert done.stdout.split()[-1] == expected, "a wrong result"
        return 1

    return until(count, once)


def forked(count: int, body: Callable[[int], None]) -> int:
    turns = iter(range(10 * count + 100))

    def once(_: int) -> int:
        before, turn = kernel_timeouts(), next(turns)
        code, text = in_child(lambda: body(turn))
        assert "a wrong result" not in text, text
        require_success(code, text, before)
        return 1

    return until(count, once)


def _deleting(path: Path, expected: str) -> Callable[[int], None]:
    def body(_: int) -> None:
        item = load(path)
        assert invoke(item, 0) == expected, "a wrong result"
        del item

    return body


def _closing_at_once(path: Path, expected: str) -> Callable[[int], None]:
    """By turns: deleted, or left to the C library's exit handlers, right after the invoke."""

    def body(turn: int) -> None:
        item = load(path)
        assert invoke(item, 0) == expected, "a wrong result"
        item.invoke()
        if turn % 2:
            del item
            return
        _KEPT.append(item)
        ctypes.CDLL(None).exit(0)

    return body


def _hanging(path: Path, expected: str) -> Callable[[int], None]:
    def body(turn: int) -> None:
        item = load(path, **LIMIT)
        if turn % 2:
            assert invoke(item, 0) == expected, "a wrong result"
        text = run_with_fault(f"hang {1 + turn % HANG_AT}", item, expected)
        assert any(words in text for words in HANGS[DRIVER]), text or "no error"
        if turn % 3 == 0:
            assert invoke(item, 0) == expected, "wrong after a hang"

    return body


def hanging_streams(count: int, path: Path, expected: str) -> Counter[str]:
    """``count`` hangs among threads that all run: each run is right or says what happened."""
    outcomes: Counter[str] = Counter()
    allowed = (*LOST[DRIVER], *RESET)

    def work(runs: int, wrong: list[str]) -> None:
        item = load(path, **LIMIT)
        for _ in range(runs):
            try:
                good = invoke(item, 0) == expected
            except RuntimeError as error:
                text = str(error)
                words = next((words for words in allowed if words in text), "")
                outcomes[words or "unknown"] += 1
                if not words:
                    wrong.append(text)
                continue
            outcomes["right" if good else "WRONG"] += 1
            if not good:
                wrong.append("a wrong result")

    for turn in range(count):
        wrong: list[str] = []
        streams = [threading.Thread(target=work, args=(3, wrong)) for _ in range(STREAMS)]
        set_fault(f"hang {1 + turn % STREAMS if HANG_AT == 1 else 5 + 7 * turn % 60}")
        for stream in streams:
            stream.start()
        for stream in streams:
            stream.join()
        set_fault("")
        assert not wrong, wrong[:3]
    return outcomes


def cycles() -> object:
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    total = _total()
    hangs, at_once, killed = total // 10, total * 2 // 5, total // 25
    in_order = total - hangs - at_once - killed
    ran: dict[str, object] = {}
    in_c = has_c_host()
    ran["C, closing at once"] = c_at_once(at_once * 3 // 4) if in_c else 0
    ran["forked, closing at once"] = forked(
        at_once - int(ran["C, closing at once"]), _closing_at_once(path, expected)
    )
    ran["Python processes"] = whole(max(1, total // 50), path, expected)
    rest = in_order - int(ran["Python processes"])
    ran["C, in order"] = c_in_order(rest * 3 // 4) if in_c else 0
    ran["forked, in order"] = forked(rest - int(ran["C, in order"]), _deleting(path, expected))
    return ran | LATE


def hangs() -> object:
    """The cycles with a task that hangs, a third of them among streams."""
    path = models()[0]
    expected = invoke(interpreter(path, "simulator"), 0)
    total = _total() // 10
    among = max(1, total // 3)
    in_c = total // 3 if has_c_host() else 0
    ran: dict[str, object] = {"C, a task hangs": c_hanging(in_c)}
    ran["forked, a task hangs"] = forked(total - among - in_c, _hanging(path, expected))

    def streams() -> None:
        print(dict(hanging_streams(among, path, expected)))

    code, text = in_child(streams, 1200)
    assert code == 0, text[-500:]
    ran[f"{among} among {STREAMS} streams"] = text.strip()
    assert invoke(interpreter(path), 0) == expected, "wrong after the hangs"
    return ran
