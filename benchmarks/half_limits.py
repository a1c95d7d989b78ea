"""Measures what holding numbers in fp16 costs a float model, whatever computes with them:
everything in float64, but for tensors that are rounded to fp16.

    python -m benchmarks.half_limits [MODEL] [--photographs 20] [--least 0] [--last 21]

MODEL: MediaPipe's selfie segmentation of the folder of public models, unless one is given. A row
for each thing that is rounded, with the worst element of any output on any photograph, in percent
of that output's range, and the least cosine of an output and the exact one. "as two fp16": the
input as the nearest fp16 and the fp16 nearest to what that leaves, each in channels of its own.
--least: what stands for black; white is 1. --last: how many nodes the last row takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from delegate.cli.table import format_table  # noqa: E402
from delegate.model.graph import Graph  # noqa: E402
from delegate.model.tflite_reader import read_graph  # noqa: E402
from delegate.options import Options  # noqa: E402
from delegate.partition.half import as_computed  # noqa: E402
from rk3588_conformance.reference.exact_graph import Rounded, exact_values  # noqa: E402
from rk3588_conformance.reference.half_oracle import to_half  # noqa: E402
from tests.e2e.test_mediapipe import FLOAT, LEAST_COSINE, cosine, photographs, pixels  # noqa: E402
from tools.script import ScriptParser, existing_file, run_script  # noqa: E402

MODEL = FLOAT / "mediapipe_selfie_segmentation.tflite"
Array = Any


def two_halves(values: Array) -> Array:
    """The sum of two fp16."""
    return to_half(values) + to_half(values - to_half(values))


def roundings(graph: Graph, last: int) -> dict[str, Rounded]:
    """Return what may be held in fp16, by what it is."""
    (given,) = graph.inputs
    computed = [t for node in graph.nodes for t in node.outputs if graph.tensor(t).constant is None]
    late = frozenset(computed[-last:])
    return {
        "the input alone": lambda t, v: to_half(v) if t == given else v,
        "all tensors": lambda _, v: to_half(v),
        "all, the input as two fp16": lambda t, v: two_halves(v) if t == given else to_half(v),
        "all but the input": lambda t, v: v if t == given else to_half(v),
        f"results of the last {last} of {len(computed)} nodes": lambda t, v: (
            to_half(v) if t in late else v
        ),
    }


def deviations(
    graph: Graph, pictures: Sequence[Path], least: float, kinds: Mapping[str, Rounded]
) -> Iterator[dict[str, tuple[float, float]]]:
    """By kind, the largest in percent of the output's range, and the least cosine, of each
    picture.
    """
    (given,) = graph.inputs
    size = graph.tensor(given).shape[1], graph.tensor(given).shape[2]
    for picture in pictures:
        inputs = {given: pixels(picture, size, least)}
        exact = exact_values(graph, inputs)
        found = {}
        for name, rounded in kinds.items():
            ours = exact_values(graph, inputs, rounded)
            found[name] = (
                max(
                    100 * float(np.abs(ours[t] - exact[t]).max() / np.ptp(exact[t]))
                    for t in graph.outputs
                ),
                min(cosine(ours[t], exact[t]) for t in graph.outputs),
            )
        yield found


def main() -> int:
    """Prints the table."""
    parser = ScriptParser(__doc__)
    parser.add_argument("model", type=existing_file, nargs="?", default=MODEL, metavar="MODEL")
    parser.add_argument("--photographs", type=int, default=20, metavar="N")
    parser.add_argument("--least", type=float, default=0.0, metavar="NUMBER")
    parser.add_argument("--last", type=int, default=21, metavar="N")
    arguments = parser.parse_args()
    graph = as_computed(read_graph(arguments.model), Options(float="fp16"))
    kinds = roundings(graph, arguments.last)
    pictures = photographs(arguments.photographs)
    rows = list(deviations(graph, pictures, arguments.least, kinds))
    table = []
    for name in kinds:
        found, cosines = zip(*(row[name] for row in rows), strict=True)
        within = sum(one <= 1 for one in found)
        near = sum(one >= LEAST_COSINE for one in cosines)
        count = f"of {len(rows)}"
        table.append(
            (name, f"{max(found):.2f}", f"{np.median(found):.2f}", f"{within} {count}",
             f"{min(cosines):.6f}", f"{near} {count}")
        )  # fmt: skip
    titles = ("in fp16", "worst %", "median %", "within 1 %", "least cosine", "of .9999")
    print(format_table(titles, table, right=(1, 2, 3, 4, 5)))
    return 0


if __name__ == "__main__":
    run_script(main)
