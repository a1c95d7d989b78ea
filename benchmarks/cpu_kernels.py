"""Measures how long TensorFlow Lite's kernels take on this machine's CPU, by operator and element
type.

    python -m benchmarks.cpu_kernels --save rates.json [--seed N] [--shapes N]
    python -m benchmarks.cpu_kernels --verify rates.json MODEL.tflite ...

Measures models of one operator with drawn shapes on one thread, without the delegate, and finds
for each operator and type what a run, a multiply-accumulate, an element in, an element out and an
element under a window take: what ``compile --cpu-rates rates.json`` estimates with. ``--verify``
measures whole models, which the rates have not seen, and prints the estimate beside them, times
one factor: how much longer a reference convolution takes than when the rates were measured.

Times are the least of several runs, in the thread's own processor time, so that other processes of
a busy machine count little.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.cli.command import natural_number, positive_integer
from delegate.host.host_facts import host_facts
from delegate.host.runtimes import find_runtime
from delegate.insight.cpu_time import FEATURES, FORMAT, features, kernel_class, load_rates
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.mul import MulOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import (
    Net,
    conv_model,
    depthwise_model,
    fully_connected_model,
    options,
)
from rk3588_conformance.builder.layers import Arithmetic
from rk3588_conformance.builder.ranges import random_quantization
from tools.script import ScriptParser, existing_file, run_script

_BUDGET_S = 0.02
_FEWEST_RUNS = 4
_LEAST_US = 0.05  # what is not told from nothing
_TOLERANCE = 0.3
_TABLE_QUANTIZATION = Quantization((1 / 256,), (-128,))

Rng = np.random.Generator
Map = tuple[int, int, int]


def _log_uniform(rng: Rng, low: float, high: float) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _map(rng: Rng, most: float = 1e6) -> Map:
    """Height, width and channels of an activation, up to ``most`` elements."""
    channels = _log_uniform(rng, 3, 320)
    side = _log_uniform(rng, 3, max(4, min(300, (most / channels) ** 0.5)))
    return side, max(2, side + int(rng.integers(-2, 3))), channels


def _conv(kernel: int) -> Callable[[Rng, DType], bytes]:
    def build(rng: Rng, dtype: DType) -> bytes:
        h, w, c = _map(rng, 4e5)
        outputs, stride = _log_uniform(rng, 8, 320), int(rng.integers(1, 3))
        arithmetic = Arithmetic(per_channel=dtype is DType.INT8)
        return conv_model(
            rng, h, w, c, outputs, kernel, kernel, stride, stride, dtype=dtype,
            arithmetic=arithmetic,
        )  # fmt: skip

    return build


def _depthwise(rng: Rng, dtype: DType) -> bytes:
    h, w, c = _map(rng, 4e5)
    kernel, stride = int(rng.choice([3, 3, 5])), int(rng.integers(1, 3))
    arithmetic = Arithmetic(per_channel=dtype is DType.INT8)
    return depthwise_model(
        rng, h, w, c, kernel, kernel, stride, stride, dtype=dtype, arithmetic=arithmetic
    )


def _dense(rng: Rng, dtype: DType) -> bytes:
    return fully_connected_model(
        rng, (1, _log_uniform(rng, 16, 2048)), _log_uniform(rng, 8, 2048), dtype
    )


Body = Callable[[Net, Rng, int], int]


def _of_map(body: Body) -> Callable[[Rng, DType], bytes]:
    """A model of one operator on one activation."""

    def build(rng: Rng, dtype: DType) -> bytes:
        builder = Net("one operator")
        quantization = random_quantization(rng, dtype)
        x = builder.input("x", (1, *_map(rng)), dtype, quantization)
        return builder.build(body(builder, rng, x))

    return build


def _other(builder: Net, x: int) -> int:
    spec = builder.spec(x)
    return builder.input("other", spec.shape, spec.dtype, spec.quantization)


def _drawn(builder: Net, rng: Rng, x: int) -> Quantization:
    return random_quantization(rng, builder.spec(x).dtype)


def _pool(op: str) -> Body:
    def body(builder: Net, rng: Rng, x: int) -> int:
        size = int(rng.integers(2, 6))
        return builder.pool(op, x, size, size, *([int(rng.integers(1, 3))] * 2))

    return body


def _logistic(builder: Net, rng: Rng, x: int) -> int:
    low = -128 if builder.spec(x).dtype is DType.INT8 else 0
    return builder.function("LOGISTIC", (x,), Quantization((1 / 256,), (low,)))


def _softmax(builder: Net, rng: Rng, x: int) -> int:
    low = -128 if builder.spec(x).dtype is DType.INT8 else 0
    quantization = Quantization((1 / 256,), (low,))
    return builder.function("SOFTMAX", (x,), quantization, options.softmax())


def _concatenation(builder: Net, rng: Rng, x: int) -> int:
    return builder.concatenation((x, _other(builder, x)), int(rng.integers(1, 4)))


def _slice(builder: Net, rng: Rng, x: int) -> int:
    _, h, w, c = builder.spec(x).shape
    return builder.slice_of(x, (0, 0, 0, c // 2), (1, h, w, c - c // 2), strided=True)


def _transpose(builder: Net, rng: Rng, x: int) -> int:
    axes = [(0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2)][int(rng.integers(0, 3))]
    return builder.transpose(x, axes)


def _reshape(builder: Net, rng: Rng, x: int) -> int:
    _, h, w, c = builder.spec(x).shape
    return builder.reshape(x, (1, h * w, c))


def _pad(builder: Net, rng: Rng, x: int) -> int:
    return builder.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))


def _nearest(builder: Net, rng: Rng, x: int) -> int:
    _, h, w, _ = builder.spec(x).shape
    return builder.resize("RESIZE_NEAREST_NEIGHBOR", x, 2 * h, 2 * w, ResizeNearestOptions())


def _requantize(builder: Net, rng: Rng, x: int) -> int:
    return builder.function("QUANTIZE", (x,), _drawn(builder, rng, x))


def _dequantize(builder: Net, rng: Rng, x: int) -> int:
    y = builder.tensor("y", builder.spec(x).shape, DType.FLOAT32)
    builder.operator("DEQUANTIZE", (x,), (y,), version=2)
    return y


_BODIES: dict[str, Body] = {
    "ADD": lambda b, r, x: b.add(x, _other(b, x)),
    "MUL": lambda b, r, x: b.function("MUL", (x, _other(b, x)), _drawn(b, r, x), MulOptions()),
    "SUB": lambda b, r, x: b.function("SUB", (x, _other(b, x)), _drawn(b, r, x), SubOptions()),
    "LOGISTIC": _logistic,
    "SOFTMAX": _softmax,
    "MAX_POOL_2D": _pool("MAX_POOL_2D"),
    "AVERAGE_POOL_2D": _pool("AVERAGE_POOL_2D"),
    "MEAN": lambda b, r, x: b.reduced("MEAN", x, _drawn(b, r, x), keep_dims=True),
    "CONCATENATION": _concatenation,
    "STRIDED_SLICE": _slice,
    "TRANSPOSE": _transpose,
    "RESHAPE": _reshape,
    "PAD": _pad,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "QUANTIZE": _requantize,
    "DEQUANTIZE": _dequantize,
}
_BUILDERS: dict[str, Callable[[Rng, DType], bytes]] = {
    "CONV_2D 1x1": _conv(1),
    "CONV_2D": _conv(3),
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    **{name: _of_map(body) for name, body in _BODIES.items()},
}


def invoke_us(content: bytes | Path) -> float:
    """Least processor time of one inference on the CPU alone, one thread, after a warm-up."""
    interpreter = find_runtime().interpreter(content, [], threads=1)
    rng = np.random.default_rng(0)
    for details in interpreter.get_input_details():
        if np.issubdtype(details["dtype"], np.integer):
            limits = np.iinfo(details["dtype"])
            values = rng.integers(limits.min, limits.max + 1, details["shape"], details["dtype"])
        else:
            values = rng.random(details["shape"], np.float32)
        interpreter.set_tensor(details["index"], values)
    interpreter.invoke()
    least, runs, start = math.inf, 0, time.thread_time()
    while runs < _FEWEST_RUNS or time.thread_time() - start < _BUDGET_S:
        begin = time.thread_time_ns()
        interpreter.invoke()
        least = min(least, time.thread_time_ns() - begin)
        runs += 1
    return least / 1e3


def fitted(
    rows: npt.NDArray[np.float64], times: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Rates, none below 0, with the least sum of squares of relative errors.

    By coordinate descent on the normal equations: each rate in turn takes its best value.
    """
    scaled = rows / times[:, None]
    sizes = np.maximum(np.abs(scaled).max(axis=0), 1e-30)
    a = scaled / sizes
    gram, target = a.T @ a, a.sum(axis=0)
    rates = np.zeros(len(target))
    for _ in range(20_000):
        for i in range(len(rates)):
            if gram[i, i] > 0:
                rates[i] = max(0.0, rates[i] + (target[i] - gram[i] @ rates) / gram[i, i])
    return rates / sizes


def _measured(
    build: Callable[[Rng, DType], bytes], rng: Rng, dtype: DType, shapes: int, overhead_us: float
) -> tuple[str, list[float], float]:
    rows, times, name = [], [], ""
    for _ in range(shapes):
        content = build(rng, dtype)
        graph = read_graph(content)
        node = graph.nodes[0]
        name, counted = kernel_class(graph, node), features(graph, node)
        rows.append([counted[key] for key in FEATURES])
        times.append(max(invoke_us(content) - overhead_us, _LEAST_US))
    table, measured = np.array(rows, np.float64), np.array(times)
    rates = fitted(table, measured)
    error = float(np.sqrt(np.mean((table @ rates / measured - 1) ** 2)))
    return name, [float(f"{rate:.4g}") for rate in rates], error


def measure(seed: int, shapes: int) -> dict[str, Any]:
    """The document that ``delegate.insight.cpu_time`` reads."""
    overhead_us = invoke_us(_nothing())
    rates: dict[str, list[float]] = {}
    for number, build in enumerate(_BUILDERS.values()):
        for dtype in (DType.INT8, DType.UINT8):
            rng = np.random.default_rng([seed, number])
            name, found, error = _measured(build, rng, dtype, shapes, overhead_us)
            rates[name] = found
            print(f"{name:34} {100 * error:5.1f} % off, root mean square", flush=True)
    return {
        "format": FORMAT,
        "machine": f"{_processor()}, one thread",
        "runtime": "{runtime} {runtime_version}".format(**host_facts(find_runtime())),
        "reference_us": invoke_us(_reference()),
        "overhead_us": overhead_us,
        "rates": rates,
    }


def _nothing() -> bytes:
    """A model that has next to nothing to do: what an inference takes besides."""
    builder = Net("nothing")
    x = builder.input("x", (1, 1, 1, 1), DType.INT8, _TABLE_QUANTIZATION)
    return builder.build(builder.reshape(x, (1, 1)))


def _reference() -> bytes:
    """The convolution that machines are compared by."""
    return conv_model(np.random.default_rng(0), 28, 28, 128, 128, 1, 1)


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def verify(path: Path, models: list[Path]) -> bool:
    """Prints measured and estimated times; whether all are within ``_TOLERANCE``."""
    rates = load_rates(path)
    factor = invoke_us(_reference()) / rates.reference_us
    print(f"this machine takes {factor:.2f} times as long as that of {path.name}")
    good = True
    for model in models:
        measured = invoke_us(model)
        graph = read_graph(model)
        estimate = factor * (
            rates.overhead_us + sum(rates.node_us(graph, node) for node in graph.nodes)
        )
        missing = sorted({kernel_class(graph, n) for n in graph.nodes if not rates.has(graph, n)})
        good = good and abs(estimate / measured - 1) <= _TOLERANCE
        note = f"  without rates: {', '.join(missing)}" if missing else ""
        print(
            f"{model.stem:45} measured {measured / 1e3:9.3f} ms  estimated {estimate / 1e3:9.3f} ms"
            f"  ratio {estimate / measured:.2f}{note}",
            flush=True,
        )
    return good


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("models", type=existing_file, nargs="*", metavar="MODEL")
    parser.add_argument("--save", type=Path, metavar="FILE.json", help="measure rates")
    parser.add_argument(
        "--verify", type=existing_file, metavar="FILE.json", help="measure MODELs instead"
    )
    parser.add_argument("--seed", type=natural_number, default=1)
    parser.add_argument(
        "--shapes", type=positive_integer, default=14, help="of each operator (default 14)"
    )
    arguments = parser.parse_args()
    if (arguments.save is None) == (arguments.verify is None):
        parser.error("give --save or --verify")
    if arguments.verify is not None:
        return 0 if verify(arguments.verify, arguments.models) else 1
    document = measure(arguments.seed, arguments.shapes)
    arguments.save.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    run_script(main)
