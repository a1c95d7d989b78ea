"""Plain text tables that fit 100 columns.

Lists of node indices in few characters.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

WIDTH = 100
_GAP = "  "
_LEAST_ROOM = 20  # characters for the last column, however wide the others are


def format_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[int] = (),
    last: Literal["wrap", "elide", "keep"] = "wrap",
) -> str:
    """Aligned columns under headings; columns numbered in ``right`` are right-aligned.

    What is left of 100 columns belongs to the ``last`` column, which wraps, is cut with "...", or
    is kept whole (paths) at the price of a longer line. The other columns are never cut.
    """
    cells = [[" ".join(str(cell).split()) for cell in row] for row in rows]
    final = len(headings) - 1
    widths = [
        max([len(headings[i]), *(len(row[i]) for row in cells)]) for i in range(len(headings))
    ]
    indent = sum(widths[:final]) + len(_GAP) * final
    room = max(WIDTH - indent, _LEAST_ROOM)

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        if final in right or len(row[final]) <= room or last == "keep":
            return _GAP.join(parts).rstrip()
        if last == "elide":
            return _GAP.join([*parts[:final], row[final][: room - 3] + "..."])
        first, *others = textwrap.wrap(row[final], room)
        return "\n".join(
            [_GAP.join([*parts[:final], first]), *(" " * indent + rest for rest in others)]
        )

    return "\n".join([line(list(headings)), *(line(row) for row in cells)])


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[int] = (),
    last: Literal["wrap", "elide", "keep"] = "wrap",
) -> None:
    """Prints a table (``format_table``) below its title and an empty line; nothing without rows."""
    if rows:
        print(f"\n{title}\n{format_table(headings, rows, right=right, last=last)}")


def format_pairs(pairs: Sequence[tuple[str, object]]) -> str:
    """ "name   value" lines with the values aligned."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(width)}{_GAP}{value}" for name, value in pairs)


def print_pairs(*pairs: tuple[str, object]) -> None:
    """Prints ``format_pairs``."""
    print(format_pairs(pairs), flush=True)


def thousands(number: int | float) -> str:
    """12345678 as 12 345 678."""
    return f"{round(number):,}".replace(",", " ")


def share(part: int, whole: int) -> str:
    """Percentage that never rounds up to 100: 99.9996 % shows as 99.999 %."""
    if whole == 0:
        return "-"
    thousandths = part * 100_000 // whole
    return f"{thousandths // 1000}.{thousandths % 1000:03d} %"


def nodes_text(nodes: Iterable[int]) -> str:
    """0, 1, 2, 5 as "0-2 5"."""
    runs: list[list[int]] = []
    for node in sorted(nodes):
        if runs and node == runs[-1][1] + 1:
            runs[-1][1] = node
        else:
            runs.append([node, node])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
