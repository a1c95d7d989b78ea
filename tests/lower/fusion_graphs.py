"""Graphs, runs and judges of the tests of ``numerics=auto``."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from delegate._native import Executable
from delegate.chip.chip import Chip
from delegate.compile.compiler import CompileResult, compile_model
from delegate.lower.lowered import Layer
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.options import Options
from rk3588_conformance.builder import Net, options
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.random_layers import Numbers
from tests.lower.reference import random_inputs, tflite_outputs, whole_graph

AUTO = Options.from_mapping({"numerics": "auto"}, {})
EXACT = Options.from_mapping({"numerics": "exact"}, {})

TYPES = (DType.INT8, DType.UINT8)
LOWEST = {DType.INT8: -128, DType.UINT8: 0}

Arrays = list[npt.NDArray[np.generic]]


def middle(dtype: DType, value: int) -> int:
    """A zero point, given as int8."""
    return value + 128 + LOWEST[dtype]


def logistic(builder: Net, x: int) -> int:
    low = LOWEST[builder.spec(x).dtype]
    return builder.function("LOGISTIC", (x,), Quantization((1 / 256,), (low,)))


def silu(builder: Net, x: int) -> int:
    spec = builder.spec(x)
    assert spec.quantization is not None
    target = Quantization((spec.quantization.scale * 0.6,), (middle(spec.dtype, -120),))
    return builder.function("MUL", (x, logistic(builder, x)), target, MulOptions())


def hard_swish(builder: Net, x: int) -> int:
    spec = builder.spec(x)
    assert spec.quantization is not None
    target = Quantization((spec.quantization.scale * 0.7,), (middle(spec.dtype, -117),))
    return builder.function("HARD_SWISH", (x,), target)


def leaky(builder: Net, x: int) -> int:
    spec = builder.spec(x)
    assert spec.quantization is not None
    target = Quantization((spec.quantization.scale * 0.8,), (middle(spec.dtype, -70),))
    return builder.function("LEAKY_RELU", (x,), target, options.of(LeakyReluOptions(alpha=0.1)))


def line(op: str, factor: float, zero_point: int) -> Callable[[Net, int], int]:
    """Return what adds a function that is a line with ends: QUANTIZE or a RELU."""

    def added(builder: Net, x: int) -> int:
        spec = builder.spec(x)
        assert spec.quantization is not None
        scale, zero = spec.quantization.scale * factor, middle(spec.dtype, zero_point)
        return builder.function(op, (x,), Quantization((scale,), (zero,)))

    return added


LINES = {
    "quantize": line("QUANTIZE", 0.63, 20),
    "coarser": line("QUANTIZE", 2.57, -62),
    "relu": line("RELU", 0.52, -128),
    "relu6": line("RELU6", 0.71, -90),
}
FUNCTIONS: dict[str, Callable[[Net, int], int]] = {
    "logistic": logistic, "silu": silu, "hard_swish": hard_swish, "leaky_relu": leaky, **LINES,
}  # fmt: skip


def start(
    dtype: DType, shape: Sequence[int], scale: float = 0.05, name: str = "input"
) -> tuple[Net, int]:
    builder = Net("fused", np.random.default_rng(shape))
    return builder, more(builder, dtype, shape, scale, name)


def more(builder: Net, dtype: DType, shape: Sequence[int], scale: float, name: str) -> int:
    return builder.input(name, shape, dtype, Quantization((scale,), (middle(dtype, -7),)))


def arithmetic(
    dtype: DType, scale: float = 0.06, zero_point: int = 5, **others: object
) -> Arithmetic:
    """Return the arithmetic of a convolution whose results deviate by 2 or so."""
    return Arithmetic(
        per_channel=dtype is DType.INT8,
        output_scale=scale,
        output_zero_point=middle(dtype, zero_point),
        **others,  # type: ignore[arg-type]
    )


def run(
    model: bytes, given: Options, arrays: Arrays, chip: Chip | None = None
) -> tuple[CompileResult, Arrays]:
    """All delegated, in one partition, on the simulator."""
    result = compile_model(model, given, chip)
    assert not result.rejections
    (compiled,) = result.partitions
    order = [result.graph.inputs.index(t) for t in compiled.partition.inputs]
    executable = Executable(compiled.program, "simulator")
    results = executable.run([arrays[i] for i in order])
    places = [compiled.partition.outputs.index(t) for t in result.graph.outputs]
    return result, [results[place] for place in places]


def inputs_of(model: bytes, seed: int = 0) -> Arrays:
    graph = read_graph(model)
    return random_inputs(graph, graph.inputs, np.random.default_rng(seed))


def references(model: bytes, arrays: Arrays) -> Arrays:
    graph = read_graph(model)
    found = tflite_outputs(model, whole_graph(graph), arrays)
    return list(found)


def is_exact(
    model: bytes, seed: int = 0, given: Options = EXACT, chip: Chip | None = None
) -> tuple[bool, CompileResult]:
    """Return whether the simulator's results are the reference kernels'."""
    arrays = inputs_of(model, seed)
    result, ours = run(model, given, arrays, chip)
    same = zip(ours, references(model, arrays), strict=True)
    return all(np.array_equal(*pair) for pair in same), result


def joined(result: CompileResult) -> list[Layer]:
    return [layer for p in result.partitions for layer in p.layers if layer.difference is not None]


def off(ours: npt.NDArray[np.generic], theirs: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    return np.asarray(np.abs(ours.astype(np.int64) - theirs.astype(np.int64)))


SHAPES = (
    # n, h, w, ic, oc, kh, kw
    (1, 7, 5, 24, 24, 1, 1),
    (1, 13, 3, 17, 33, 3, 5),
    (2, 3, 11, 40, 16, 1, 3),
    (1, 1, 29, 64, 97, 1, 1),
    (1, 61, 37, 3, 47, 3, 3),
)


SAME = Quantization((0.05,), (3,))
AXES = {"channels": 3, "rows": 1, "images": 0}


def beside(axis: str, kernels: Sequence[int], window: Window, readers: int) -> bytes:
    """Two convolutions of one map, joined along ``axis``, and a reader of both."""
    b, numbers = Net("beside", np.random.default_rng(kernels[0])), Numbers(output=SAME)
    x = b.input("x", (1, 16, 22, 24), DType.INT8, SAME)
    parts = [b.conv(x, n, window, numbers, name=f"part{k}") for k, n in enumerate(kernels)]
    both = b.concatenation(parts, AXES[axis])
    return b.build(b.conv(both, readers, Window(3, 3), numbers, name="reader"))


def sliced(begin: Sequence[int], size: Sequence[int], window: Window) -> bytes:
    """A convolution of a part of what another one makes."""
    b, numbers = Net("slice", np.random.default_rng(11)), Numbers(output=SAME)
    x = b.input("x", (1, 16, 22, 8), DType.INT8, SAME)
    y = b.conv(x, 48, Window(3, 3), numbers, name="first")
    return b.build(b.conv(b.slice_of(y, begin, size), 16, window, numbers, name="second"))
