"""Ctrl-C in a command: one line, no traceback, no process left over, wherever it arrives.

``install`` makes SIGINT raise KeyboardInterrupt, as Python does, and remembers it, because what is
between the raise and the command line may turn it into another error (a runtime that calls back
into Python) or lose it (a destructor). Should the command not end by itself, as while it computes
in native code, a thread ends the process after a moment.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from types import FrameType, TracebackType
from typing import NoReturn

EXIT_INTERRUPTED = 128 + signal.SIGINT

_AGAIN_S = 0.01
_PATIENCE_S = 1.5
"""The seconds that a command may take to clean up."""


class _State:
    is_interrupted = False
    is_ending = False
    deferrals = 0
    lock = threading.Lock()


def install(say: Callable[[], None]) -> None:
    """Install it from here on. ``say`` writes the line, and is called once. Only in the main
    thread; does nothing where SIGINT is ignored, as in workers.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _interrupt)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    sys.unraisablehook = _unraisable
    sys.excepthook = _printed
    threading.Thread(target=_watch, args=(reader, say), daemon=True).start()


def is_interrupted() -> bool:
    """Return whether Ctrl-C came, whatever became of it."""
    return _State.is_interrupted


def end(say: Callable[[], None]) -> NoReturn:
    """Ends an interrupted command and its workers. Python's own way out may wait for workers, or
    end the process by the signal.
    """
    kill_workers()
    _announce(say)
    atexit._run_exitfuncs()  # temporary files, and what workers shared
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be closed
        sys.stdout.flush()
    os._exit(EXIT_INTERRUPTED)


def _announce(say: Callable[[], None]) -> None:
    with _State.lock:
        if not _State.is_ending:
            _State.is_ending = True
            say()


def finish() -> None:
    """The command's result stands: Ctrl-C changes nothing any more."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def kill_workers() -> None:
    """Kills the processes that this one started to work for it; they say nothing after it."""
    children = multiprocessing.active_children()
    for child in children:
        child.kill()
    for child in children:
        child.join(_PATIENCE_S)


@contextlib.contextmanager
def starting_processes() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, which a terminal sends to all: they inherit that
    SIGINT is blocked. This one is not interrupted inside, but then.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    _State.deferrals += 1
    try:
        # It comes with the first process, and unblocks SIGINT when it has been started.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        _State.deferrals -= 1
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if _State.is_interrupted and not _State.is_ending:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    _State.is_interrupted = True
    warnings.simplefilter("ignore")  # extension modules warn of what interrupts their imports
    if _State.is_ending or _State.deferrals:
        return
    while frame is not None:
        if frame.f_code in _HOOKS:  # which Python reports an error of, and goes on
            _interrupt_again()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_again() -> None:
    """Soon, where it can be raised."""

    def interrupt() -> None:
        time.sleep(_AGAIN_S)
        _thread.interrupt_main()

    _thread.start_new_thread(interrupt, ())


def _unraisable(problem: sys.UnraisableHookArgs) -> None:
    if isinstance(problem.exc_value, KeyboardInterrupt):
        _interrupt_again()
    elif not _State.is_interrupted:
        sys.__unraisablehook__(problem)


def _printed(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Extension modules print what interrupts their own imports, and raise another error."""
    if not (_State.is_interrupted and issubclass(kind, KeyboardInterrupt)):
        sys.__excepthook__(kind, error, traceback)


_HOOKS = (_unraisable.__code__, _printed.__code__)


def _watch(reader: int, say: Callable[[], None]) -> None:
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    time.sleep(_PATIENCE_S)
    kill_workers()  # perhaps they are what is waited for
    time.sleep(_PATIENCE_S)
    while _State.deferrals:  # a process that is half started would be left
        time.sleep(_AGAIN_S)
    kill_workers()
    _announce(say)
    os._exit(EXIT_INTERRUPTED)
