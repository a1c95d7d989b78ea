"""The models of the self-test: each asks something of the hardware that those before it did not.

Together they use every feature of the chip that programs use (a test holds them to that), so that
a run of all on a board says of each feature whether it is there. Weights are random and fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization, Tensor
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.sub import SubOptions

_SEED = 588
_INPUT_SCALE = 0.02
_WEIGHT_SCALE = 0.01
# Standard deviation of a value drawn evenly from int8, and the one that results should have, so
# that few of them saturate.
_DEVIATION = 74.0
_TARGET_DEVIATION = 40.0
_INT8 = np.iinfo(np.int8)


@dataclass(frozen=True, slots=True)
class Case:
    """``what`` says in words what the case asks of the hardware for the first time. ``numerics``
    and ``float``: the options it is compiled with.
    """

    name: str
    what: str
    build: Callable[[], Graph]
    numerics: str = "exact"
    float: str = "off"


class _Builder:
    """A graph of int8 tensors, nodes in a row; of uint8 ones if weights have a zero point."""

    def __init__(self, shape: tuple[int, ...], weight_zero_point: int = 0) -> None:
        self._rng = np.random.default_rng(_SEED)
        self._weight_zero_point = weight_zero_point
        self._dtype = DType.UINT8 if weight_zero_point else DType.INT8
        self._tensors: list[Tensor] = []
        self._nodes: list[Node] = []
        self._input = self._zero(_INPUT_SCALE, -3)
        self.last = self._tensor("input", shape, self._input)
        self._inputs = [self.last]

    def second_input(self) -> int:
        """One more input of the graph, like the first."""
        self._inputs.append(self._tensor("second", self._tensors[0].shape, self._input))
        return self._inputs[-1]

    def _zero(self, scale: float, zero_point: int) -> Quantization:
        """``zero_point`` as int8 counts."""
        shift = 128 if self._dtype is DType.UINT8 else 0
        return Quantization((scale,), (zero_point + shift,))

    def _tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        quantization: Quantization,
        dtype: DType | None = None,
        constant: npt.NDArray[np.generic] | None = None,
    ) -> int:
        index = len(self._tensors)
        kind = dtype or self._dtype
        self._tensors.append(Tensor(index, name, shape, kind, quantization, constant))
        return index

    def _constants(
        self, shape: tuple[int, ...], channels: int, ratios: npt.NDArray[np.float64] | None = None
    ) -> tuple[int, int]:
        """Weights and a bias. ``ratios``: of the scales of the channels to the usual one."""
        ends = np.iinfo(np.uint8 if self._weight_zero_point else np.int8)
        weights = self._rng.integers(ends.min + 1, ends.max, shape, endpoint=True)
        bias = self._rng.integers(-1000, 1000, channels, dtype=np.int32)
        factors = [1.0] if ratios is None else ratios.tolist()
        scales = tuple(float(np.float32(_WEIGHT_SCALE * factor)) for factor in factors)
        filters = Quantization(scales, (self._weight_zero_point,) * len(scales))
        filter_index = self._tensor("weights", shape, filters, constant=weights.astype(ends.dtype))
        biases = Quantization(tuple(self._scale(self.last) * x for x in scales), (0,) * len(scales))
        return filter_index, self._tensor("bias", (channels,), biases, DType.INT32, bias)

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
        output = self._tensor(f"{op} output", shape, self._zero(scale, 5))
        self._nodes.append(Node(len(self._nodes), op, inputs, (output,), options))
        self.last = output
        return self

    def conv(
        self,
        channels: int,
        kernel: int,
        *,
        dilation: int = 1,
        activation: Activation = Activation.NONE,
        spread: float | None = None,
    ) -> _Builder:
        """``spread``: of the channels' scales, the greatest over the least; None: one scale."""
        n, h, w, c = self._tensors[self.last].shape
        ratios = None if spread is None else spread ** self._rng.uniform(-0.5, 0.5, channels)
        weights, bias = self._constants((channels, kernel, kernel, c), channels, ratios)
        options = ConvOptions(Padding.SAME, 1, 1, dilation, dilation, activation)
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

    def add(self, other: int, activation: Activation = Activation.NONE) -> _Builder:
        shape = self._tensors[self.last].shape
        scale = self._scale(self.last) + self._scale(other)
        options = AddOptions(activation)
        return self._node("ADD", (self.last, other), shape, options, scale)

    def per_channel(self) -> int:
        """A constant with a value per channel, quantised as the input."""
        channels = self._tensors[self.last].shape[-1]
        values = self._rng.integers(_INT8.min, _INT8.max, channels, dtype=np.int8, endpoint=True)
        return self._tensor("per channel", (channels,), self._input, constant=values)

    def multiply(self, other: int) -> _Builder:
        shape = self._tensors[self.last].shape
        scale = self._scale(self.last) * self._scale(other) * _DEVIATION
        options = MulOptions(Activation.NONE)
        return self._node("MUL", (self.last, other), shape, options, scale)

    def matrix_product(self, other: int) -> _Builder:
        """The rows of ``other``, of the last one's shape, are its columns."""
        shape = self._tensors[self.last].shape
        scale = self._scale(self.last) * self._scale(other) * _DEVIATION**2
        scale *= math.sqrt(shape[-1]) / _TARGET_DEVIATION
        options = BatchMatMulOptions(False, True, False)
        result = (*shape[:-1], shape[-2])
        return self._node("BATCH_MATMUL", (self.last, other), result, options, scale)

    def choose(self, op: str, other: int) -> _Builder:
        """``op``: MAXIMUM or MINIMUM, whose tensors are quantised alike."""
        return self._kept(op, (self.last, other), self._tensors[0].shape, None)

    def _kept(
        self, op: str, inputs: tuple[int, ...], shape: tuple[int, ...], options: Options | None
    ) -> _Builder:
        """An operator whose tensors are quantised alike."""
        result = self._tensor(f"{op} output", shape, self._input)
        self._nodes.append(Node(len(self._nodes), op, inputs, (result,), options))
        self.last = result
        return self

    def max_pool(self, size: int) -> _Builder:
        options = PoolOptions(Padding.SAME, 1, 1, size, size, Activation.NONE)
        return self._kept("MAX_POOL_2D", (self.last,), self._tensors[self.last].shape, options)

    def enlarge(self, factor: int) -> _Builder:
        n, h, w, c = self._tensors[self.last].shape
        shape = (n, h * factor, w * factor, c)
        size = np.array(shape[1:3], np.int32)
        sizes = self._tensor("size", size.shape, Quantization((1.0,), (0,)), DType.INT32, size)
        options = ResizeNearestOptions(align_corners=False, half_pixel_centers=False)
        return self._kept("RESIZE_NEAREST_NEIGHBOR", (self.last, sizes), shape, options)

    def leaky_relu(self, slope: float) -> _Builder:
        shape = self._tensors[self.last].shape
        options = LeakyReluOptions(slope)
        scale = self._scale(self.last)
        return self._node("LEAKY_RELU", (self.last,), shape, options, scale)

    def concatenate(self, *parts: int) -> _Builder:
        """Of tensors quantised as the input, along the channels."""
        shapes = [self._tensors[part].shape for part in parts]
        shape = (*shapes[0][:3], sum(shape[3] for shape in shapes))
        result = self._tensor("joined", shape, self._input)
        options = ConcatenationOptions(3, Activation.NONE)
        self._nodes.append(Node(len(self._nodes), "CONCATENATION", parts, (result,), options))
        self.last = result
        return self

    def graph(self, name: str) -> Graph:
        inputs = tuple(self._inputs)
        return Graph(tuple(self._tensors), tuple(self._nodes), inputs, (self.last,), name)


def _half() -> Graph:
    """A depthwise and a dense convolution, the sum and the difference of both, a PRELU, and a
    product with constants.
    """
    rng = np.random.default_rng(_SEED)
    shape, channels = (1, 6, 7, 24), 24
    tensors: list[Tensor] = []
    nodes: list[Node] = []

    def tensor(name: str, shape: tuple[int, ...], *, is_constant: bool = False) -> int:
        values = rng.uniform(-1, 1, shape).astype(np.float32) if is_constant else None
        tensors.append(Tensor(len(tensors), name, shape, DType.FLOAT32, None, values))
        return len(tensors) - 1

    def node(op: str, inputs: tuple[int, ...], options: Options | None = None) -> int:
        output = tensor(f"{op} output", shape)
        nodes.append(Node(len(nodes), op, inputs, (output,), options))
        return output

    def constants(*shapes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(tensor("constant", found, is_constant=True) for found in shapes)

    x = tensor("input", shape)
    same = (Padding.SAME, 1, 1, 1, 1)
    taps = constants((1, 3, 3, channels), (channels,))
    first = node("DEPTHWISE_CONV_2D", (x, *taps), DepthwiseOptions(*same, Activation.RELU6, 1))
    kernels = constants((channels, 1, 1, channels), (channels,))
    second = node("CONV_2D", (first, *kernels), ConvOptions(*same, Activation.NONE))
    total = node("ADD", (first, second), AddOptions(Activation.RELU))
    result = node("SUB", (total, first), SubOptions(Activation.NONE))
    result = node("PRELU", (result, *constants((1, 1, channels))))
    result = node("MUL", (result, *constants((channels,))), MulOptions(Activation.NONE))
    return Graph(tuple(tensors), tuple(nodes), (x,), (result,), name="fp16")


def _half_curve() -> Graph:
    """A LOGISTIC: the tables, between their entries."""
    tensors = [Tensor(index, name, (1, 6, 7, 24), DType.FLOAT32) for index, name in enumerate("xy")]
    return Graph(tuple(tensors), (Node(0, "LOGISTIC", (0,), (1,)),), (0,), (1,), name="fp16 curve")


def _add() -> Graph:
    """Of two tensors: the sum of one with itself is a function, and a table."""
    builder = _Builder((1, 5, 7, 16))
    return builder.add(builder.second_input()).graph("add")


def _clamped_sum() -> Graph:
    builder = _Builder((1, 5, 7, 16))
    return builder.add(builder.second_input(), Activation.RELU_N1_TO_1).graph("clamped sum")


def _residual() -> Graph:
    builder = _Builder((1, 9, 11, 32)).conv(32, 3)
    first = builder.last
    return builder.conv(32, 3).add(first).graph("residual")


def _joined() -> Graph:
    builder = _Builder((1, 7, 6, 32)).conv(32, 3).leaky_relu(0.1)
    first = builder.last
    return builder.conv(48, 1).leaky_relu(0.3).conv(32, 1).add(first).graph("joined")


def _neighbours() -> Graph:
    builder = _Builder((1, 5, 7, 16))
    first = builder.choose("MAXIMUM", builder.per_channel()).last
    second = builder.choose("MINIMUM", builder.per_channel()).last
    return builder.concatenate(second, first).graph("neighbours")


def _add_per_channel() -> Graph:
    builder = _Builder((1, 5, 6, 32))
    return builder.add(builder.per_channel()).graph("add per channel")


def _choice(op: str) -> Graph:
    builder = _Builder((1, 5, 6, 32))
    return builder.choose(op, builder.per_channel()).choose(op, 0).graph(op.lower())


def _tables() -> Graph:
    builder = _Builder((1, 6, 7, 32)).leaky_relu(0.1).conv(32, 1).leaky_relu(0.3)
    return builder.conv(32, 1).leaky_relu(0.7).graph("tables")


def _matrix_product() -> Graph:
    builder = _Builder((2, 9, 48))
    return builder.matrix_product(builder.second_input()).graph("computed product")


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
    Case("zero points", "sums of inputs, for weights with a zero point",
         lambda: _Builder((1, 6, 5, 32), weight_zero_point=101).conv(32, 3).graph("zero points")),
    Case("neighbours", "writes of 16 channels that leave the next ones alone", _neighbours),
    Case("dilated", "kernels with gaps",
         lambda: _Builder((1, 11, 9, 32)).conv(32, 3, dilation=2).graph("dilated")),
    Case("relu6", "a clamp on both sides",
         lambda: _Builder((1, 6, 7, 32)).conv(32, 1, activation=Activation.RELU6).graph("relu6")),
    Case("per channel", "multipliers per channel in BS, BN and EW",
         lambda: _Builder((1, 7, 6, 32)).conv(48, 3, spread=4.0).graph("per channel")),
    Case("far scales", "multipliers per channel of 16 bits in EW",
         lambda: _Builder((1, 5, 6, 32)).conv(32, 1, spread=4096.0).graph("far scales")),
    Case("add per channel", "an operand per channel in EW",
         _add_per_channel),
    Case("product", "a product of two tensors",
         lambda: _Builder((1, 5, 6, 32)).conv(32, 1).multiply(0).graph("product")),
    Case("maximum", "the greater of two tensors, and of a tensor and a value per channel",
         lambda: _choice("MAXIMUM")),
    Case("minimum", "the smaller of two tensors, and of a tensor and a value per channel",
         lambda: _choice("MINIMUM")),
    Case("pooling", "rows with gaps, read by both readers of the DPU",
         lambda: _Builder((1, 9, 11, 32)).max_pool(3).graph("pooling")),
    Case("nearest", "pixels that are put apart",
         lambda: _Builder((1, 5, 6, 32)).enlarge(2).graph("nearest")),
    Case("clamped sum", "a clamp between two limits in EW", _clamped_sum),
    Case("clamped conv", "a clamp between two limits behind a convolution",
         lambda: _Builder((1, 5, 6, 32)).conv(32, 1, activation=Activation.RELU_N1_TO_1)
         .graph("clamped conv")),
    Case("tables", "lookup tables: one load, three functions", _tables),
    Case("joined", "lookup tables and a sum in the tasks of convolutions", _joined, "fast"),
    Case("columns", "windows narrower than the tensor, gaps between rows",
         lambda: _Builder((1, 4, 2100, 16)).conv(16, 3).graph("columns")),
    Case("input groups", "int32 sums in memory that the next task adds",
         lambda: _Builder((1, 24576)).fully_connected(16).graph("input groups")),
    Case("computed product", "weights, and their sums, that earlier tasks wrote", _matrix_product),
    Case("fp16", "convolutions and maps in fp16", _half, float="fp16"),
    Case("fp16_curve", "a function in fp16, by tables", _half_curve, float="fp16"),
)  # fmt: skip
"""From the safest to the riskiest."""

_ON_CPU = {
    "rk3576": (
        "clamped sum", "clamped conv", "columns", "input groups", "computed product", "fp16",
        "fp16_curve",
    ),
}  # fmt: skip
"""By chip, cases that its rules leave to the CPU (a test holds them to that)."""


def cases_of(chip: Chip) -> tuple[Case, ...]:
    """The cases that ask something of ``chip``."""
    return tuple(case for case in CASES if case.name not in _ON_CPU.get(chip.name, ()))
