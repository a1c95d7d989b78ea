"""Runs cases in processes, one case at a time in each, and gives outcomes in the order of names.

A case that kills its process or takes too long fails with what happened, and the others go on: a
new process takes the dead one's place.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from delegate.conformance.outcome import Outcome, Status
from delegate.host.interruption import starting_processes
from delegate.options import Options

Work = Callable[[str], Outcome]

# Numeric libraries start a thread per processor each; with a process per processor one is enough.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# A worker without a case has been told to end: killed while it closes an NPU's file, it would leave
# the kernel's driver in disorder.
_END_S = 5
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process needs to run cases. ``timeout_s``: for one case."""

    models: Path | None
    options: dict[str, str]
    timeout_s: float

    def work(self) -> Work:
        from delegate.conformance.execution import run_case
        from delegate.conformance.skips import judge, read_skips

        options = Options.from_mapping(self.options)
        skips = read_skips()
        return lambda name: judge(run_case(name, self.models, options), skips)


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    name: str = ""
    started: float = 0.0


def _serve(connection: Connection, settings: Settings) -> None:
    work = settings.work()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (name := connection.recv()) is not None:
            connection.send(work(name))


def run_in_processes(
    names: list[str], settings: Settings, jobs: int
) -> Generator[Outcome, None, None]:
    """Outcomes in the order of ``names``. One job runs in this process."""
    if jobs == 1:
        yield from map(settings.work(), names)
        return
    pool = _Pool(settings)
    try:
        yield from pool.run(names, min(jobs, len(names)))
    finally:
        pool.stop()


class _Pool:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []

    def run(self, names: list[str], jobs: int) -> Iterator[Outcome]:
        waiting = iter(names)
        finished: dict[str, Outcome] = {}
        with _single_threaded():
            self._workers = [self._start() for _ in range(jobs)]
        for worker in self._workers:
            self._give(worker, waiting)
        for name in names:
            while name not in finished:
                self._collect(finished, waiting)
            yield finished.pop(name)

    def stop(self) -> None:
        for worker in self._workers:
            if not worker.name:
                worker.process.join(_END_S)
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self._workers = []

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._settings), daemon=True)
        with starting_processes():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _give(self, worker: _Worker, waiting: Iterator[str]) -> None:
        name = next(waiting, None)
        worker.name, worker.started = name or "", time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # seen as end of file when collecting
            worker.connection.send(name)

    def _collect(self, finished: dict[str, Outcome], waiting: Iterator[str]) -> None:
        busy = [worker for worker in self._workers if worker.name]
        ready = wait([worker.connection for worker in busy], timeout=_POLL_S)
        for worker in busy:
            if worker.connection in ready:
                try:
                    finished[worker.name] = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    worker.process.join()
                    text = f"the process ended with exit code {worker.process.exitcode}"
                    self._replace(worker, finished, text)
                self._give(worker, waiting)
            elif time.monotonic() - worker.started > self._settings.timeout_s:
                worker.process.kill()
                worker.process.join()
                text = f"did not end within {self._settings.timeout_s:g} s"
                self._replace(worker, finished, text)
                self._give(worker, waiting)

    def _replace(self, worker: _Worker, finished: dict[str, Outcome], reason: str) -> None:
        elapsed = round((time.monotonic() - worker.started) * 1000)
        label = worker.name.partition(".")[0]
        finished[worker.name] = Outcome(
            worker.name, label, Status.FAILED, reason, milliseconds=elapsed
        )
        worker.connection.close()
        with _single_threaded():
            fresh = self._start()
        worker.process, worker.connection = fresh.process, fresh.connection


@contextlib.contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes started inside use one thread for linear algebra, unless told otherwise."""
    added = [key for key in _SINGLE_THREADED if key not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for key in added:
            del os.environ[key]
