"""Measure the memory that a model takes with the delegate and without, each in its own process.

``measure`` starts ``python -m delegate.insight.process_memory``, which loads the runtime, then the
model, and runs it: nothing else counts, so nothing else is imported here. Bytes are the resident
set as Linux tells it, shared pages included.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.errors import DelegateError
from delegate.host.runtimes import find_runtime, invoke

if TYPE_CHECKING:
    from delegate.options import Options

ALLOWANCE_BYTES = 64_000_000
"""The bytes that a process may take besides the model's size: Python, the runtime, the delegate and
all.
"""

_INFERENCES = 3
_TIMEOUT_S = 600
_KIB = 1024


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """``start_bytes`` with Python and the runtime only, ``peak_bytes`` the largest of all moments,
    ``end_bytes`` after some inferences.
    """

    start_bytes: int
    peak_bytes: int
    end_bytes: int


def measure(path: Path, options: Options | None, threads: int | None) -> MemoryUse:
    """Return the memory of a process that runs the model with the delegate; without it if
    ``options`` is None.

    Raises DelegateError if that process fails.
    """
    request = {
        "model": str(path),
        "options": None if options is None else options.to_strings(),
        "threads": threads,
    }
    try:
        outcome = subprocess.run(
            [sys.executable, "-m", __name__, json.dumps(request)], capture_output=True, text=True,
            timeout=_TIMEOUT_S, check=False, env=_environment(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DelegateError(f"the memory of {path} cannot be measured: {error}") from None
    try:
        return MemoryUse(**json.loads(outcome.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = (outcome.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DelegateError(f"the memory of {path} cannot be measured: {last}") from None


def memory_document(path: Path, options: Options, threads: int | None, *, with_cpu: bool) -> Any:
    """Return both measurements and the limit, for JSON; None where the system does not tell
    memory.
    """
    if not Path("/proc/self/status").exists():
        return None
    model_bytes = path.stat().st_size
    return {
        "model_bytes": model_bytes,
        "limit_bytes": model_bytes + ALLOWANCE_BYTES,
        "delegate": asdict(measure(path, options, threads)),
        "cpu": asdict(measure(path, None, threads)) if with_cpu else None,
    }


def _environment() -> dict[str, str]:
    """The package may be importable here by sys.path only."""
    parent = str(Path(__file__).resolve().parents[2])
    paths = [parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _resident_bytes(what: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    match = re.search(rf"^{what}:\s+(\d+) kB", status, re.MULTILINE)
    return int(match.group(1)) * _KIB if match is not None else 0


def _main() -> None:
    request = json.loads(sys.argv[1])
    runtime = find_runtime()
    start = _resident_bytes("VmRSS")
    delegates = []
    if request["options"] is not None:
        from delegate.host.library import library_path

        delegates = [runtime.load_delegate(library_path(), request["options"])]
    interpreter = runtime.interpreter(Path(request["model"]), delegates, threads=request["threads"])
    for _ in range(_INFERENCES):
        invoke(interpreter)
    end = _resident_bytes("VmRSS")
    # The kernel's high-water mark lags behind by some pages.
    use = MemoryUse(start, max(start, end, _resident_bytes("VmHWM")), end)
    print(json.dumps(asdict(use)))


if __name__ == "__main__":
    _main()
