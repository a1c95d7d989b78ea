"""Progress on stderr, only for work that lasts: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SHOW_AFTER_S = 1.0
_REDRAW_EVERY_S = 0.1
_SAY_EVERY_S = 10.0


class Progress:
    """Counts to ``total`` and shows it on ``stderr``."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = max(total, 1)
        self._done = 0
        self._start = time.monotonic()
        self._shown = 0.0
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()

    def advance(self, amount: int = 1) -> None:
        """Counts ``amount`` more units of work as done."""
        self._done = min(self._done + amount, self._total)
        now = time.monotonic()
        first, every = (
            (_SHOW_AFTER_S, _REDRAW_EVERY_S) if self._is_terminal else (_SAY_EVERY_S, _SAY_EVERY_S)
        )
        if now - self._start > first and now - self._shown > every and sys.stderr is not None:
            self._draw() if self._is_terminal else self._say()
            self._shown = now

    def _say(self) -> None:
        sys.stderr.write(f"{self._label}: {100 * self._done // self._total} %\n")
        sys.stderr.flush()

    def _draw(self) -> None:
        tail = f" {100 * self._done // self._total:3d} %"
        room = shutil.get_terminal_size().columns - len(self._label) - len(tail) - 4
        bar = ""
        if room >= 10:
            filled = room * self._done // self._total
            bar = f" [{'#' * filled}{' ' * (room - filled)}]"
        sys.stderr.write(f"\r{self._label}{bar}{tail}")
        sys.stderr.flush()

    def hide(self) -> None:
        """Clears the bar's line, so that other text can be printed; ``advance`` draws it again."""
        if self._shown and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def progress(label: str, total: int) -> Iterator[Progress]:
    """A progress bar that vanishes at the end of the block."""
    bar = Progress(label, total)
    try:
        yield bar
    finally:
        bar.hide()
