"""Work spread over processes of this machine: the one place where this package makes processes.

A process has one item at a time; one that dies or takes too long loses that item alone, and another
takes its place. What it takes to start is not counted as an item's time. Workers never see Ctrl-C,
which a terminal sends to all: this process ends them.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context, spawn
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from delegate.errors import DelegateError
from delegate.host.interruption import starting_processes

Item = TypeVar("Item")
Result = TypeVar("Result")
Prepare = Callable[[], Callable[[Item], Result]]
"""Called once in every process; what it returns is called with items."""

# Numeric libraries start a thread per processor each; with a process per processor one is enough.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# A worker without an item has been told to end: killed while it closes an NPU's file, it would
# leave the kernel's driver in disorder.
_END_S = 5
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Instead of a result: an error of the work, or the end of its process (``is_lost``)."""

    text: str
    exit_code: int = DelegateError.exit_code
    is_lost: bool = False
    seconds: float = 0.0

    def error(self) -> DelegateError:
        """Return the error to raise for it in this process."""
        error = DelegateError(self.text)
        error.exit_code = self.exit_code
        return error


def spread(
    prepare: Prepare[Item, Result],
    items: Iterable[Item],
    jobs: int,
    timeout_s: float = math.inf,
) -> Generator[tuple[int, Result | Failure], None, None]:
    """The number and the result of every item, in the order in which they are done.

    ``prepare``, items and results are pickled. ``items`` is read as processes get free;
    ``timeout_s`` is for one of them. Closing the generator ends the processes. Raises DelegateError
    where a process ends before it has started.
    """
    pool: _Pool[Item, Result] = _Pool(prepare, enumerate(items), timeout_s)
    try:
        pool.start(jobs)
        yield from pool.results()
    finally:
        pool.stop()


def in_order(
    numbered: Generator[tuple[int, Result], None, None],
) -> Generator[Result, None, None]:
    """Yield what ``spread`` gives, in the order of the items."""
    early: dict[int, Result] = {}
    following = 0
    with contextlib.closing(numbered):
        for number, result in numbered:
            early[number] = result
            while following in early:
                yield early.pop(following)
                following += 1


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    number: int | None = None
    """The number of the item that it has."""
    given: float | None = None
    """The moment when the item was handed over; None while the process starts."""


class _Pool(Generic[Item, Result]):
    def __init__(
        self,
        prepare: Prepare[Item, Result],
        items: Iterator[tuple[int, Item]],
        timeout_s: float,
    ) -> None:
        self._prepare = prepare
        self._items = items
        self._timeout_s = timeout_s
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []

    def start(self, jobs: int) -> None:
        with starting_processes(), _single_threaded():
            for _ in range(jobs):
                self._workers.append(self._spawn())
        for worker in self._workers:
            self._acquaint(worker)
            self._give(worker)

    def results(self) -> Iterator[tuple[int, Result | Failure]]:
        while busy := {w.connection: w for w in self._workers if w.number is not None}:
            ready = wait(list(busy), timeout=_POLL_S)
            for connection, worker in busy.items():
                if worker.given is None:
                    if connection in ready:
                        self._begin(worker)
                    continue
                if connection in ready:
                    done = self._receive(worker)
                elif time.monotonic() - worker.given > self._timeout_s:
                    worker.process.kill()
                    done = self._replace(worker, f"did not end within {self._timeout_s:g} s")
                else:
                    continue
                self._give(worker)
                yield done

    def stop(self) -> None:
        for worker in self._workers:
            if worker.number is None:
                _send(worker, None)
        for worker in self._workers:
            if worker.number is None:
                worker.process.join(_END_S)
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self._workers = []

    def _spawn(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _acquaint(self, worker: _Worker) -> None:
        # Not an argument of the process: what starts it would wait for it to be read.
        _send(worker, self._prepare)

    def _give(self, worker: _Worker) -> None:
        worker.number, item = next(self._items, (None, None))
        if worker.given is not None:
            worker.given = time.monotonic()
        _send(worker, None if worker.number is None else (item,))

    def _begin(self, worker: _Worker) -> None:
        try:
            worker.connection.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            raise DelegateError(
                f"a process of {os.fsdecode(spawn.get_executable())} ended with exit code "
                f"{worker.process.exitcode} before it had started; one job (--jobs 1) needs none"
            ) from None
        worker.given = time.monotonic()

    def _receive(self, worker: _Worker) -> tuple[int, Result | Failure]:
        assert worker.number is not None, "it is busy"
        try:
            return worker.number, worker.connection.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            text = f"the process ended with exit code {worker.process.exitcode}"
            return self._replace(worker, text)

    def _replace(self, worker: _Worker, reason: str) -> tuple[int, Failure]:
        assert worker.number is not None, "it is busy"
        assert worker.given is not None, "it has started"
        elapsed = time.monotonic() - worker.given
        worker.process.join()
        worker.connection.close()
        with starting_processes(), _single_threaded():
            fresh = self._spawn()
            worker.process, worker.connection = fresh.process, fresh.connection
            worker.given = None
        self._acquaint(worker)
        return worker.number, Failure(reason, is_lost=True, seconds=elapsed)


def _send(worker: _Worker, message: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # seen as end of file when receiving
        worker.connection.send(message)


def _serve(connection: Connection) -> None:
    with contextlib.suppress(EOFError, ConnectionError):  # nobody wants it any more
        prepare = connection.recv()
        connection.send(None)  # it has started
        work = _attempt(prepare)
        while (message := connection.recv()) is not None:
            failed = isinstance(work, Failure)
            connection.send(work if failed else _attempt(work, *message))


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except DelegateError as error:
        return Failure(str(error), error.exit_code)
    except Exception as error:
        return Failure(
            f"internal error: {type(error).__name__}: {error}; please report it with the output "
            "of --jobs 1 --debug"
        )


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
