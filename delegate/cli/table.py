"""Plain text tables that fit 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100
_GAP = "  "


def format_table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()
) -> str:
    """Aligned columns under headings; columns numbered in ``right`` are right-aligned.

    The last column wraps into what is left of 100 columns; the others are never cut.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    last = len(headings) - 1
    widths = [
        max([len(headings[i]), *(len(row[i]) for row in cells)]) for i in range(len(headings))
    ]
    before_last = sum(widths[:last]) + len(_GAP) * last
    room = max(WIDTH - before_last, 20)

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        if last in right:
            return _GAP.join(parts).rstrip()
        wrapped = textwrap.wrap(row[last], room, break_long_words=False) or [""]
        lines = [_GAP.join([*parts[:last], wrapped[0]]).rstrip()]
        lines += [" " * before_last + rest for rest in wrapped[1:]]
        return "\n".join(lines)

    return "\n".join([line(list(headings)), *(line(row) for row in cells)])


def format_pairs(pairs: Sequence[tuple[str, object]]) -> str:
    """ "name   value" lines with the values aligned."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(width)}{_GAP}{value}" for name, value in pairs)


def thousands(number: int | float) -> str:
    """12345678 as 12 345 678."""
    return f"{round(number):,}".replace(",", " ")


def share(part: int, whole: int) -> str:
    """Percentage that never rounds up to 100: 99.9996 % shows as 99.999 %."""
    if whole == 0:
        return "-"
    thousandths = part * 100_000 // whole
    return f"{thousandths // 1000}.{thousandths % 1000:03d} %"
