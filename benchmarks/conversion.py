"""The host's conversion of tensors at a partition's edge beside a copy of the same bytes by memcpy.

    python -m benchmarks.conversion [--repeats 300]

To the device's surfaces and back, on one thread: uint8, and float32 that is fp16 on the device. The
three take turns, and the fastest of each counts. GB/s are those of the host's tensor, and "over
memcpy" is the share of memcpy's speed. Surfaces have room for whole atoms of 16 bytes: 112x112x3
moves five times as many bytes of uint8 on the device as on the host. Says nothing about an NPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate._native import time_layout  # noqa: E402
from delegate.chip.element import Element  # noqa: E402
from delegate.cli.argument_types import positive_integer  # noqa: E402
from delegate.cli.script import ScriptParser, run_script  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402

SHAPES = ((112, 112, 96), (13, 13, 1023), (28, 28, 33), (112, 112, 3), (1, 1, 1001))
LARGE = 256, 256, 64
"""16 MB of float32, which few caches hold."""

Row = dict[str, Any]


def conversion_row(element: Element, shape: tuple[int, int, int], repeats: int) -> Row:
    """Return the row of one tensor."""
    h, w, c = shape
    to, back, plain = time_layout(h * w, c, element.name.lower(), repeats)
    size = h * w * c * element.bytes
    return {
        "host": element.name.lower(),
        "shape": f"{h}x{w}x{c}",
        "to_gb_s": size / to,
        "from_gb_s": size / back,
        "to_over_memcpy": plain / to,
        "from_over_memcpy": plain / back,
    }


def conversion_rows(repeats: int) -> list[Row]:
    """Return the rows of every element type and shape."""
    return [
        conversion_row(element, shape, repeats)
        for element in (Element.UINT8, Element.FP32)
        for shape in (*SHAPES, LARGE)
    ]


def main() -> int:
    """Prints the table."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--repeats", type=positive_integer, default=300, metavar="N")
    rows = conversion_rows(parser.parse_args().repeats)
    cells = [[v if isinstance(v, str) else f"{v:.2f}" for v in row.values()] for row in rows]
    print(format_table(tuple(rows[0]), cells, right=(2, 3, 4, 5)))
    return 0


if __name__ == "__main__":
    run_script(main)
