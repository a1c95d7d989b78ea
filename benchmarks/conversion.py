"""The host's conversion of tensors at a partition's edge beside a copy of the same bytes by memcpy.

    python -m benchmarks.conversion [MODEL...] [--repeats 300]

First inputs and outputs of models, as compiled: without MODEL, MobileNetV1 224 and YOLOv5n 640
of the folder of public models. "ratio" is the time of the conversion over that of memcpy. Then
single tensors to the device's surfaces and back: uint8, and float32 that is fp16 on the device;
GB/s are those of the host's tensor, and "over memcpy" is the share of memcpy's speed. All on one
thread; what is compared takes turns, and the fastest of each counts. Surfaces have room for whole
atoms of 16 bytes: 112x112x3 moves five times as many bytes of uint8 on the device as on the host.
Says nothing about an NPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate._native import time_edges, time_layout  # noqa: E402
from delegate.chip.element import Element  # noqa: E402
from delegate.cli.argument_types import positive_integer  # noqa: E402
from delegate.cli.table import format_table  # noqa: E402
from delegate.compile.compiler import compile_model  # noqa: E402
from delegate.options import Options  # noqa: E402
from tools.script import ScriptParser, existing_file, run_script  # noqa: E402

SHARED = ROOT.parent / "shared" / "models"
DEFAULT_MODELS = ("mobilenet_v1_1.0_224_quant", "yolov5n_640_int8_per_channel")
SHAPES = ((112, 112, 96), (13, 13, 1023), (28, 28, 33), (112, 112, 3), (1, 1, 1001))
LARGE = 256, 256, 64
"""16 MB of float32, which few caches hold."""

Row = dict[str, Any]


def edge_rows(path: Path, repeats: int) -> Iterator[Row]:
    """Yield the rows of all tensors at the edges of a model's partitions."""
    for compiled in compile_model(path.read_bytes(), Options.from_mapping({}, {})).partitions:
        for name, shape, element, size, time, plain in time_edges(compiled.program, repeats):
            yield {
                "host": element,
                "shape": "x".join(map(str, shape)),
                "us": time / 1e3,
                "memcpy_us": plain / 1e3,
                "ratio": time / plain,
                "gb_s": size / time,
                "tensor": f"{path.stem}: {name}",
            }


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


def print_rows(rows: list[Row]) -> None:
    """Prints a table, unless it is empty."""
    if rows:
        cells = [[v if isinstance(v, str) else f"{v:.2f}" for v in row.values()] for row in rows]
        print(format_table(tuple(rows[0]), cells, right=(2, 3, 4, 5)))


def main() -> int:
    """Prints the tables."""
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="*", metavar="MODEL")
    parser.add_argument("--repeats", type=positive_integer, default=300, metavar="N")
    chosen = parser.parse_args()
    found = [SHARED / f"{name}.tflite" for name in DEFAULT_MODELS]
    models: list[Path] = chosen.models or [path for path in found if path.exists()]
    print_rows([row for path in models for row in edge_rows(path, chosen.repeats)])
    print_rows(conversion_rows(chosen.repeats))
    return 0


if __name__ == "__main__":
    run_script(main)
