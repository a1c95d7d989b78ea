"""A progress bar on stderr, only on a terminal and only for work that lasts."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SHOW_AFTER_S = 1.0
_REDRAW_EVERY_S = 0.1


class Progress:
    """Counts to ``total``; draws itself while ``stderr`` is a terminal."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = max(total, 1)
        self._done = 0
        self._start = time.monotonic()
        self._drawn = 0.0
        self._enabled = sys.stderr is not None and sys.stderr.isatty()

    def advance(self, amount: int = 1) -> None:
        """Counts ``amount`` more units of work as done."""
        self._done = min(self._done + amount, self._total)
        now = time.monotonic()
        if (
            self._enabled
            and now - self._start > _SHOW_AFTER_S
            and now - self._drawn > _REDRAW_EVERY_S
        ):
            self._draw()
            self._drawn = now

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
        if self._drawn:
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
