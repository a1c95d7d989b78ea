"""The models of the self-test: each asks something of the hardware that those before it did not.

Together they use every feature of the chip that programs use (a test holds them to that), so that
a run of all on a board says of each feature whether it is there. Weights are random and fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.known_forms import known_forms_of
from delegate.model.graph import Activation, DType, Graph, Quantization
from delegate.model.operator_options import Options
from delegate.model.tflite_reader import read_graph
from delegate.npu.evidence import OWN_TABLES
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.builder.products import covering
from rk3588_conformance.builder.ranges import uniform_moments

_SEED = 588
_INPUT_SCALE = 0.02
_INPUT_ZERO_POINT = -3  # as int8 counts


class _Row(Net):
    """A model whose operators are in a row. ``last``: the tensor that the next one reads."""

    last: int

    def __init__(self) -> None:
        super().__init__("", np.random.default_rng(_SEED))

    def graph(self) -> Graph:
        return read_graph(self.build(self.last))


class _Net(_Row):
    """A net of int8 tensors; of uint8 ones if weights have a zero point."""

    def __init__(self, shape: tuple[int, ...], weight_zero_point: int = 0) -> None:
        super().__init__()
        self._weight_zero_point = weight_zero_point
        dtype, shift = (DType.UINT8, 128) if weight_zero_point else (DType.INT8, 0)
        self._like_input = Quantization((_INPUT_SCALE,), (_INPUT_ZERO_POINT + shift,))
        self.last = self.input("input", shape, dtype, self._like_input)

    def second_input(self) -> int:
        """One more input of the model, like the first."""
        first = self.spec(0)
        return self.input("second", first.shape, first.dtype, self._like_input)

    def per_channel(self) -> int:
        """A constant with a value per channel, quantised as the input."""
        channels = self.spec(self.last).shape[-1]
        values = self.rng.integers(-128, 127, channels, dtype=np.int8, endpoint=True)
        return self.constant("per channel", values, self._like_input)

    def numbers(
        self, activation: Activation = Activation.NONE, spread: float | None = None
    ) -> Arithmetic:
        """``spread``: of the channels' scales, the greatest over the least; None: one scale."""
        return Arithmetic(
            activation=activation, per_channel=spread is not None, channel_spread=spread or 1.0,
            weight_zero_point=self._weight_zero_point,
        )  # fmt: skip

    def then(self, made: Callable[[_Net, int], int]) -> _Net:
        """Add what is ``made`` of the last tensor."""
        self.last = made(self, self.last)
        return self

    def convolve(self, channels: int, kernel: int, *, dilation: int = 1, **numbers: Any) -> _Net:
        window = Window(kernel, kernel, dh=dilation, dw=dilation)
        return self.then(lambda net, x: net.conv(x, channels, window, net.numbers(**numbers)))

    def plus(self, other: int, activation: Activation = Activation.NONE) -> _Net:
        return self.then(lambda net, x: net.add(x, other, activation=activation))

    def choose(self, op: str, other: int) -> _Net:
        """``op``: MAXIMUM or MINIMUM, whose tensors are quantised alike."""
        return self.then(lambda net, x: net.function(op, (x, other), self._like_input))

    def leaky_relu(self, slope: float) -> _Net:
        target, table = (
            Quantization((self.scaling(self.last).scale,), (5,)),
            LeakyReluOptions(slope),
        )
        return self.then(lambda net, x: net.function("LEAKY_RELU", (x,), target, table))


class _HalfNet(_Row):
    """A net of float32 maps of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.channels = 24
        self.last = self.input("x", (1, 6, 7, self.channels), DType.FLOAT32)

    def node(
        self, op: str, *shapes: tuple[int, ...], other: int | None = None,
        options: Options | None = None,
    ) -> _HalfNet:  # fmt: skip
        """``op`` of the last map, of ``other`` if there is one, and of constants of ``shapes``."""
        maps = (self.last,) if other is None else (self.last, other)
        drawn = (self.rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)
        operands = (*maps, *(self.constant("constant", values) for values in drawn))
        self.last = self.result(op, operands, op.lower(), options=options)
        return self


def _half() -> _HalfNet:
    """A depthwise and a dense convolution, the sum and the difference of both, a PRELU, and a
    product with constants.
    """
    net = _HalfNet()
    channels = net.channels
    taps = DepthwiseOptions(activation=Activation.RELU6)
    first = net.node("DEPTHWISE_CONV_2D", (1, 3, 3, channels), (channels,), options=taps).last
    kernels = ConvOptions()
    net.node("CONV_2D", (channels, 1, 1, channels), (channels,), options=kernels)
    net.node("ADD", other=first, options=AddOptions(Activation.RELU))
    net.node("SUB", other=first, options=SubOptions())
    net.node("PRELU", (1, 1, channels))
    return net.node("MUL", (channels,), options=MulOptions())


def _deviation() -> _HalfNet:
    """One over the deviation of each pixel's channels."""
    net = _HalfNet()
    images, rows, columns, _ = net.spec(net.last).shape
    axis = net.constant("axis", np.array([-1], np.int32))
    small = net.constant("epsilon", np.array(1e-5, np.float32))
    squares = net.node("SQUARE").last

    def of_pixels(op: str, *operands: int, options: Options | None = None) -> int:
        shape = (images, rows, columns, 1)
        return net.result(op, operands, op.lower(), shape, options=options)

    mean = of_pixels("MEAN", squares, axis, options=ReducerOptions(True))
    net.last = of_pixels("RSQRT", of_pixels("ADD", mean, small, options=AddOptions()))
    return net


def _sum(activation: Activation = Activation.NONE) -> _Net:
    """Add two tensors: the sum of one with itself is a function, and a table."""
    net = _Net((1, 5, 7, 16))
    return net.plus(net.second_input(), activation)


def _residual() -> _Net:
    net = _Net((1, 9, 11, 32)).convolve(32, 3)
    first = net.last
    return net.convolve(32, 3).plus(first)


def _joined() -> _Net:
    net = _Net((1, 7, 6, 32)).convolve(32, 3).leaky_relu(0.1)
    first = net.last
    return net.convolve(48, 1).leaky_relu(0.3).convolve(32, 1).plus(first)


def _neighbours() -> _Net:
    net = _Net((1, 5, 7, 16))
    first = net.choose("MAXIMUM", net.per_channel()).last
    second = net.choose("MINIMUM", net.per_channel()).last
    return net.then(lambda *_: net.concatenation((second, first), 3))


def _add_per_channel() -> _Net:
    net = _Net((1, 5, 6, 32))
    return net.plus(net.per_channel())


def _choice(op: str) -> _Net:
    net = _Net((1, 5, 6, 32))
    return net.choose(op, net.per_channel()).choose(op, 0)


def _tables() -> _Net:
    net = _Net((1, 6, 7, 32)).leaky_relu(0.1).convolve(32, 1).leaky_relu(0.3)
    return net.convolve(32, 1).leaky_relu(0.7)


def _own_tables() -> _Net:
    """Alone and behind convolutions, one right behind the other; then the same tables again."""
    net = _Net((1, 31, 40, 64)).leaky_relu(0.1).convolve(32, 3).leaky_relu(0.3)
    return net.convolve(48, 1).leaky_relu(0.2).convolve(32, 1).leaky_relu(0.3)


def _product(net: _Net, x: int) -> int:
    """Results have the scale at which most products are within eight bits."""
    _, deviation = uniform_moments(DType.INT8, _INPUT_ZERO_POINT)
    target = Quantization((net.scaling(x).scale * net.scaling(0).scale * deviation,), (5,))
    return net.function("MUL", (x, 0), target, MulOptions())


def _matrix_product(net: _Net, x: int) -> int:
    """The rows of a function of one more input are its columns."""
    like, slope = net.scaling(x), LeakyReluOptions(0.5)
    other = net.function("LEAKY_RELU", (net.second_input(),), like, slope)
    output = covering(net.spec(x).shape[-1], like, like)
    return net.computed_product(x, other, output, adj_y=True)


@dataclass(frozen=True, slots=True)
class Case:
    """``what`` says in words what the case asks of the hardware for the first time. ``make``: its
    model; ``numerics`` and ``float``: the options it is compiled with. ``tries``: what it takes for
    proved of the board, as it is to prove that.
    """

    name: str
    what: str
    make: Callable[[], _Row]
    numerics: str = "exact"
    float: str = "off"
    tries: tuple[str, ...] = ()

    def build(self) -> Graph:
        return self.make().graph()


CASES = (
    Case("conv 1x1", "one convolution task, no padding",
         lambda: _Net((1, 4, 4, 32)).convolve(32, 1)),
    Case("add", "the element-wise units without a convolution", _sum),
    Case("conv 3x3", "padding, and a width that is not the height",
         lambda: _Net((1, 9, 7, 16)).convolve(32, 3)),
    Case("odd channels", "channel counts that fill no group",
         lambda: _Net((1, 6, 5, 19)).convolve(37, 3)),
    Case("depthwise", "the depthwise mode",
         lambda: _Net((1, 8, 9, 64)).then(
             lambda net, x: net.depthwise(x, Window(3, 3), net.numbers()))),
    Case("fully connected", "a single pixel",
         lambda: _Net((1, 256)).then(
             lambda net, x: net.fully_connected(x, 64, net.numbers()))),
    Case("two layers", "a chain: the second task reads what the first wrote",
         lambda: _Net((1, 7, 9, 32)).convolve(48, 1).convolve(32, 3)),
    Case("residual", "a sum of two layers", _residual),
    Case("row tiles", "several tasks per layer that keep weights in the NPU",
         lambda: _Net((1, 120, 96, 64)).convolve(64, 3)),
    Case("zero points", "sums of inputs, for weights with a zero point",
         lambda: _Net((1, 6, 5, 32), weight_zero_point=101).convolve(32, 3)),
    Case("neighbours", "writes of 16 channels that leave the next ones alone", _neighbours),
    Case("dilated", "kernels with gaps",
         lambda: _Net((1, 11, 9, 32)).convolve(32, 3, dilation=2)),
    Case("relu6", "a clamp on both sides",
         lambda: _Net((1, 6, 7, 32)).convolve(32, 1, activation=Activation.RELU6)),
    Case("per channel", "multipliers per channel in BS, BN and EW",
         lambda: _Net((1, 7, 6, 32)).convolve(48, 3, spread=4.0)),
    Case("far scales", "multipliers per channel of 16 bits in EW",
         lambda: _Net((1, 5, 6, 32)).convolve(32, 1, spread=4096.0)),
    Case("add per channel", "an operand per channel in EW", _add_per_channel),
    Case("product", "a product of two tensors",
         lambda: _Net((1, 5, 6, 32)).convolve(32, 1).then(_product)),
    Case("maximum", "the greater of two tensors, and of a tensor and a value per channel",
         lambda: _choice("MAXIMUM")),
    Case("minimum", "the smaller of two tensors, and of a tensor and a value per channel",
         lambda: _choice("MINIMUM")),
    Case("pooling", "rows with gaps, read by both readers of the DPU",
         lambda: _Net((1, 9, 11, 32)).then(lambda net, x: net.pool("MAX_POOL_2D", x, 3, 3))),
    Case("nearest", "pixels that are put apart",
         lambda: _Net((1, 5, 6, 32)).then(lambda net, x: net.resize(
             "RESIZE_NEAREST_NEIGHBOR", x, 10, 12, ResizeNearestOptions()))),
    Case("clamped sum", "a clamp between two limits in EW",
         lambda: _sum(Activation.RELU_N1_TO_1)),
    Case("clamped conv", "a clamp between two limits behind a convolution",
         lambda: _Net((1, 5, 6, 32)).convolve(32, 1, activation=Activation.RELU_N1_TO_1)),
    Case("tables", "lookup tables: one load, three functions", _tables),
    Case("joined", "lookup tables and a sum in the tasks of convolutions", _joined, "auto"),
    Case("own tables", "tasks that load the tables they look up in", _own_tables, "auto",
         tries=(OWN_TABLES,)),
    Case("columns", "windows narrower than the tensor, gaps between rows",
         lambda: _Net((1, 4, 2100, 16)).convolve(16, 3)),
    Case("input groups", "int32 sums in memory that the next task adds",
         lambda: _Net((1, 24576)).then(
             lambda net, x: net.fully_connected(x, 16, net.numbers()))),
    Case("computed product", "weights, and their sums, that earlier tasks wrote",
         lambda: _Net((2, 9, 48)).then(_matrix_product)),
    Case("fp16", "convolutions and maps in fp16", _half, float="fp16"),
    Case("fp16_curve", "a function in fp16, by tables", lambda: _HalfNet().node("LOGISTIC"),
         float="fp16"),
    Case("fp16_deviation", "tables of powers, which take fp16 for int16", _deviation,
         float="fp16"),
)  # fmt: skip
"""All cases, from the safest to the riskiest."""

_ON_CPU = {
    "rk3576": (
        "columns", "input groups", "computed product", "fp16", "fp16_curve", "fp16_deviation",
    ),
}  # fmt: skip
"""The cases, by chip, that its rules leave to the CPU (a test holds them to that)."""


def cases_of(chip: Chip) -> tuple[Case, ...]:
    """The cases that ask something of ``chip``. Where no forms are listed, there is nothing that a
    board could prove.
    """
    cases = CASES if known_forms_of(chip.target) else [case for case in CASES if not case.tries]
    return tuple(case for case in cases if case.name not in _ON_CPU.get(chip.name, ()))
