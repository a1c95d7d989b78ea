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
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from delegate._native import EdgeBox, program_edges  # noqa: E402
from delegate.chip.element import Element  # noqa: E402
from delegate.cli.command import positive_integer  # noqa: E402
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


def fastest(repeats: int, *bodies: Callable[[], None]) -> list[int]:
    """Return the nanoseconds of each body's fastest run; they take turns."""
    best = [sys.maxsize] * len(bodies)
    for _ in range(repeats):
        for i, body in enumerate(bodies):
            start = time.perf_counter_ns()
            body()
            best[i] = min(best[i], time.perf_counter_ns() - start)
    return best


def edge_times(edge: EdgeBox, repeats: int, *, to: bool, back: bool) -> list[int]:
    """Return the times of the directions asked for, and of a copy of the host's bytes."""
    host, copy = np.full(edge.host_bytes, 1, np.uint8), np.full(edge.host_bytes, 2, np.uint8)
    device = np.full(edge.device_bytes, 3, np.uint8)
    bodies: list[Callable[[], None]] = []
    if to:
        bodies.append(lambda: edge.to_device(host, device))
    if back:
        bodies.append(lambda: edge.from_device(device, host))
    return fastest(repeats, *bodies, lambda: np.copyto(copy, host))


def edge_rows(path: Path, repeats: int) -> Iterator[Row]:
    """Yield the rows of all tensors at the edges of a model's partitions."""
    for compiled in compile_model(path.read_bytes(), Options.from_mapping({}, {})).partitions:
        inputs, outputs = program_edges(compiled.program)
        for edge in (*inputs, *outputs):
            is_input = edge in inputs
            time_ns, plain = edge_times(edge, repeats, to=is_input, back=not is_input)
            yield {
                "host": edge.element,
                "shape": "x".join(map(str, edge.shape)),
                "us": time_ns / 1e3,
                "memcpy_us": plain / 1e3,
                "ratio": time_ns / plain,
                "gb_s": edge.host_bytes / time_ns,
                "tensor": f"{path.stem}: {edge.name}",
            }


def conversion_row(element: Element, shape: tuple[int, int, int], repeats: int) -> Row:
    """Return the row of one tensor."""
    h, w, c = shape
    edge = EdgeBox(element.name.lower(), h * w * c, (1, h * w, c), h * w * 16, 0)
    to, back, plain = edge_times(edge, repeats, to=True, back=True)
    size = edge.host_bytes
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
