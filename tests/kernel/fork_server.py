"""Runs Python modules in forked children of a process that has everything imported, which saves
most of the time that a small run takes.

The client half (``ForkServers``) writes a line of JSON per run: module, arguments, environment, the
files for what the run prints and its time limit in seconds. The server (``python -m
tests.kernel.fork_server``) answers with the child's exit code, or null after the time limit. A
child has the given environment alone, and leaves as any Python process does.
"""

import importlib
import json
import os
import queue
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class ForkServers:
    """As many servers as runs at once, started in ``environment``; they end with this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()

    def run(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -m module arguments``. Raises subprocess.TimeoutExpired as it does."""
        try:
            server = self._idle.get_nowait()
        except queue.Empty:
            server = self._start()
        with tempfile.TemporaryDirectory() as folder:
            printed = [Path(folder) / name for name in ("stdout", "stderr")]
            given = {
                "module": module,
                "arguments": list(arguments),
                "environment": dict(environment),
                "printed": list(map(str, printed)),
                "timeout": timeout,
            }
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(given) + "\n")
            server.stdin.flush()
            code = json.loads(server.stdout.readline())
            self._idle.put(server)
            stdout, stderr = (path.read_text(encoding="utf-8") for path in printed)
        command = ["python", "-m", module, *arguments]
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout, stdout, stderr)
        return subprocess.CompletedProcess(command, code, stdout, stderr)

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.kernel.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self._environment,
        )


def _become(given: Mapping[str, Any]) -> None:
    """Give this child its environment, arguments and files."""
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv[:] = ["", *given["arguments"]]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for number, name in enumerate(given["printed"], start=1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)


def _code_of(child: int, timeout: float) -> int | None:
    """Return the exit code of ``child``, the signal that ended it as a negative number, or None if
    it had to be killed after ``timeout`` seconds.
    """
    handle = os.pidfd_open(child)
    ended, _, _ = select.select([handle], [], [], timeout)
    os.close(handle)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


_IMPORTED = (
    "delegate.cli",
    "delegate.compile.compiler",
    "delegate.compile.plugin",
    "delegate.host.delegated",
    "tests.kernel.small_models",
)


def main() -> None:
    for module in _IMPORTED:
        importlib.import_module(module)
    for line in iter(sys.stdin.readline, ""):
        given = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(given)
            runpy.run_module(given["module"], run_name="__main__", alter_sys=True)
            return
        print(json.dumps(_code_of(child, given["timeout"])), flush=True)


if __name__ == "__main__":
    main()
