"""Small programs that show whether an NPU computes what the simulator computes.

Comes in: the name of a device. Goes out: results case by case, from the program that asks least of
the hardware to the one that asks most. Every case is compiled in memory from a graph with fixed
random weights, runs on the device and on the simulator, and must give the same bytes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError, DeviceError
from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization, Tensor
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions

_SEED = 588
_INPUT_SCALE = 0.02
_WEIGHT_SCALE = 0.01
# Standard deviation of a value drawn evenly from int8, and the one that results should have, so
# that few of them saturate.
_DEVIATION = 74.0
_TARGET_DEVIATION = 40.0
_INT8 = np.iinfo(np.int8)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """``error`` is None for a case that passed."""

    name: str
    what: str
    passed: bool
    seconds: float
    tasks: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """``what`` says in words what the case asks of the hardware for the first time."""

    name: str
    what: str
    build: Callable[[], Graph]


class _Builder:
    """A graph of int8 tensors, one input, nodes in a row."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._rng = np.random.default_rng(_SEED)
        self._tensors: list[Tensor] = []
        self._nodes: list[Node] = []
        self.last = self._tensor("input", shape, Quantization((_INPUT_SCALE,), (-3,)))

    def _tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        quantization: Quantization,
        dtype: DType = DType.INT8,
        constant: npt.NDArray[np.generic] | None = None,
    ) -> int:
        index = len(self._tensors)
        self._tensors.append(Tensor(index, name, shape, dtype, quantization, constant))
        return index

    def _constants(self, shape: tuple[int, ...], channels: int) -> tuple[int, int]:
        weights = self._rng.integers(_INT8.min + 1, _INT8.max + 1, shape, dtype=np.int8)
        bias = self._rng.integers(-1000, 1000, channels, dtype=np.int32)
        filter_index = self._tensor(
            "weights", shape, Quantization((_WEIGHT_SCALE,), (0,)), constant=weights
        )
        scale = Quantization((self._scale(self.last) * _WEIGHT_SCALE,), (0,))
        return filter_index, self._tensor("bias", (channels,), scale, DType.INT32, bias)

    def _scale(self, tensor: int) -> float:
        quantization = self._tensors[tensor].quantization
        assert quantization is not None  # all tensors made here have one
        return quantization.scale

    def _conv_scale(self, products: int) -> float:
        """Of a sum of ``products`` of the last tensor's values and weights."""
        deviation = _DEVIATION * _DEVIATION * math.sqrt(products)
        return self._scale(self.last) * _WEIGHT_SCALE * deviation / _TARGET_DEVIATION

    def _node(
        self,
        op: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        options: Options,
        scale: float,
    ) -> _Builder:
        output = self._tensor(f"{op} output", shape, Quantization((scale,), (5,)))
        self._nodes.append(Node(len(self._nodes), op, inputs, (output,), options))
        self.last = output
        return self

    def conv(self, channels: int, kernel: int) -> _Builder:
        n, h, w, c = self._tensors[self.last].shape
        weights, bias = self._constants((channels, kernel, kernel, c), channels)
        options = ConvOptions(Padding.SAME, 1, 1, 1, 1, Activation.NONE)
        scale = self._conv_scale(kernel * kernel * c)
        shape = (n, h, w, channels)
        return self._node("CONV_2D", (self.last, weights, bias), shape, options, scale)

    def depthwise(self, kernel: int) -> _Builder:
        shape = self._tensors[self.last].shape
        weights, bias = self._constants((1, kernel, kernel, shape[3]), shape[3])
        options = DepthwiseOptions(Padding.SAME, 1, 1, 1, 1, Activation.NONE, 1)
        scale = self._conv_scale(kernel * kernel)
        inputs = (self.last, weights, bias)
        return self._node("DEPTHWISE_CONV_2D", inputs, shape, options, scale)

    def fully_connected(self, outputs: int) -> _Builder:
        n, inputs = self._tensors[self.last].shape
        weights, bias = self._constants((outputs, inputs), outputs)
        options = FullyConnectedOptions(Activation.NONE, False, 0, False)
        scale = self._conv_scale(inputs)
        operands = (self.last, weights, bias)
        return self._node("FULLY_CONNECTED", operands, (n, outputs), options, scale)

    def add(self, other: int) -> _Builder:
        shape = self._tensors[self.last].shape
        scale = self._scale(self.last) + self._scale(other)
        options = AddOptions(Activation.NONE)
        return self._node("ADD", (self.last, other), shape, options, scale)

    def graph(self, name: str) -> Graph:
        return Graph(tuple(self._tensors), tuple(self._nodes), (0,), (self.last,), name)


def _add() -> Graph:
    return _Builder((1, 5, 7, 16)).add(0).graph("add")


def _residual() -> Graph:
    builder = _Builder((1, 9, 11, 32)).conv(32, 3)
    first = builder.last
    return builder.conv(32, 3).add(first).graph("residual")


CASES = (
    Case("conv 1x1", "one convolution task, no padding",
         lambda: _Builder((1, 4, 4, 32)).conv(32, 1).graph("conv 1x1")),
    Case("add", "the element-wise units without a convolution", _add),
    Case("conv 3x3", "padding, and a width that is not the height",
         lambda: _Builder((1, 9, 7, 16)).conv(32, 3).graph("conv 3x3")),
    Case("odd channels", "channel counts that fill no group",
         lambda: _Builder((1, 6, 5, 19)).conv(37, 3).graph("odd channels")),
    Case("depthwise", "the depthwise mode",
         lambda: _Builder((1, 8, 9, 64)).depthwise(3).graph("depthwise")),
    Case("fully connected", "a single pixel",
         lambda: _Builder((1, 256)).fully_connected(64).graph("fully connected")),
    Case("two layers", "a chain: the second task reads what the first wrote",
         lambda: _Builder((1, 7, 9, 32)).conv(48, 1).conv(32, 3).graph("two layers")),
    Case("residual", "a sum of two layers", _residual),
    Case("row tiles", "several tasks per layer that keep weights in the NPU",
         lambda: _Builder((1, 120, 96, 64)).conv(64, 3).graph("row tiles")),
    Case("input groups", "int32 sums in memory that the next task adds",
         lambda: _Builder((1, 16384)).fully_connected(64).graph("input groups")),
)  # fmt: skip
"""From the safest to the riskiest."""


def run_case(case: Case, device: str, timeout_ms: int = 0) -> CaseResult:
    """Runs one case twice on the device: the second run finds what the first left behind."""
    from delegate._native import Executable
    from delegate.compile.compiler import compile_model
    from delegate.options import Options

    start = time.perf_counter()
    tasks = 0
    error: str | None = None
    try:
        for compiled in compile_model(case.build(), Options.from_mapping({}, {})).partitions:
            tasks += compiled.tasks
            program = compiled.program
            executable = Executable(program, device, timeout_ms)
            simulator = Executable(program, "simulator")
            for seed in range(2):
                rng = np.random.default_rng(seed)
                inputs = [
                    rng.integers(_INT8.min, _INT8.max + 1, shape, dtype=np.int8)
                    for _, _, shape, _ in simulator.inputs
                ]
                pairs = zip(executable.run(inputs), simulator.run(inputs), strict=True)
                for ours, expected in pairs:
                    wrong = int(np.count_nonzero(ours != expected))
                    if wrong and error is None:
                        error = f"{wrong} of {expected.size} elements differ from the simulator"
        if tasks == 0:
            error = "nothing was compiled for the NPU"
    except (DeviceError, DelegateError) as problem:
        error = str(problem)
    return CaseResult(
        case.name, case.what, error is None, time.perf_counter() - start, tasks, error
    )


def run_cases(device: str, timeout_ms: int = 0) -> Iterator[CaseResult]:
    """Results in the order of ``CASES``, ending with the first failure: what comes after it asks
    more of the hardware than what failed.
    """
    for case in CASES:
        result = run_case(case, device, timeout_ms)
        yield result
        if not result.passed:
            return
