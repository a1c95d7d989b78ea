"""A model in the making: the operators that it may have, and the numbers that they are given."""

import math
from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import functions, layers, moves, pooling, products
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.random_layers import draw_quantization


class Net(ModelBuilder):
    """``x``: the input of a model of one layer."""

    x: int
    has_infinities = False
    """True if numbers of float32 may be infinite, or none."""

    conv, depthwise, fully_connected = layers.conv, layers.depthwise, layers.fully_connected
    weighted, add = layers.weighted, layers.add
    function, same_values, edged = functions.function, functions.same_values, functions.edged
    quotient = functions.quotient
    pool, reduced = pooling.pool, pooling.reduced
    matrix_product, computed_product = products.matrix_product, products.computed_product
    computed_dense = products.computed_dense
    concatenation, slice_of, split, split_v = (
        moves.concatenation, moves.slice_of, moves.split, moves.split_v,
    )  # fmt: skip
    reshape, squeeze, expand_dims = moves.reshape, moves.squeeze, moves.expand_dims
    transpose, tile, gather = moves.transpose, moves.tile, moves.gather
    reverse = moves.reverse
    pack, unpack, pad, resize = moves.pack, moves.unpack, moves.pad, moves.resize

    def drawn(self, dtype: DType) -> Quantization:
        return draw_quantization(self.rng, dtype)

    def rescaled(self, x: int, ratio: float) -> Quantization:
        """The scale of ``x`` times ``ratio``, and a zero point of its own."""
        zero_point = self.drawn(self.spec(x).dtype).zero_point
        return one_scale(self.scaling(x).scale * ratio, zero_point)

    def random_constant(
        self,
        shape: Sequence[int],
        dtype: DType,
        quantization: Quantization | None = None,
        name: str = "constant",
    ) -> int:
        """A constant of all values of an 8-bit type."""
        low, high = LIMITS[dtype]
        values = self.rng.integers(low, high + 1, tuple(shape)).astype(dtype.element.dtype)
        return self.constant(name, np.asarray(values), quantization or self.drawn(dtype))

    def transpose_conv(
        self,
        x: int,
        outputs: int,
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: Padding,
        *,
        per_channel: bool,
        activation: Activation = Activation.NONE,
    ) -> int:
        """TRANSPOSE_CONV of ``x`` with a bias; without an activation in its own version."""
        images, *sizes, inputs = self.spec(x).shape
        dtype, given, rng = self.spec(x).dtype, self.scaling(x), self.rng
        rows, columns = (
            n * s if padding is Padding.SAME else (n - 1) * s + k
            for n, s, k in zip(sizes, stride, kernel, strict=True)
        )
        count = outputs if per_channel else 1
        scales = tuple(float(np.float32(s)) for s in 0.01 * 2 ** rng.uniform(-2, 1, count))
        zero = int(rng.integers(100, 150)) if dtype is DType.UINT8 else 0
        values = rng.integers(-127, 128, (outputs, *kernel, inputs))
        stored = (values + (127 if dtype is DType.UINT8 else 0)).astype(dtype.element.dtype)
        weights = self.constant("w", stored, Quantization(scales, (zero,) * count))
        shape = (images, rows, columns, outputs)
        numbers = self.constant("shape", np.array(shape, np.int32))
        scale = Quantization(tuple(given.scale * s for s in scales), (0,) * count)
        bias = self.constant("b", rng.integers(-20000, 20000, outputs).astype(np.int32), scale)
        terms = inputs * math.prod(kernel) / math.prod(stride)
        spread = given.scale * max(scales) * 75 * 75 * max(terms, 1.0) ** 0.5
        zero_points = self.drawn(dtype).zero_points
        result = Quantization((float(np.float32(spread / 40)),), zero_points)
        return self.result(
            "TRANSPOSE_CONV", (numbers, weights, x, bias), "y", shape, result, dtype=dtype,
            options=TransposeConvOptions(padding, *stride, activation),
            version=3 if activation is Activation.NONE else 4,
        )  # fmt: skip

    def computed(self, x: int) -> int:
        """A tensor of the same values, or of larger ones, that the NPU makes: partitions of moves
        stay on the CPU.
        """
        spec = self.spec(x)
        if spec.dtype is DType.FLOAT32:
            return self._same_reals(x, spec.shape)
        quantization = self.scaling(x)
        other = self.random_constant(spec.shape, spec.dtype, quantization)
        return self.function("MAXIMUM", (x, other), quantization)

    def _same_reals(self, x: int, shape: Sequence[int]) -> int:
        """A convolution with the unit matrix, which also reads the lanes to spare behind the last
        channel; a sum with 0 where infinities would make NaN of its zeros.
        """
        if len(shape) != 4 or self.has_infinities:
            zero = self.constant("zero", np.zeros(1, np.float32))
            return self.result("ADD", (x, zero), "same", options=AddOptions())
        weights = np.eye(shape[-1], dtype=np.float32)[:, None, None, :]
        bias = self.constant("bias", np.zeros(shape[-1], np.float32))
        operands = x, self.constant("unit", weights), bias
        return self.result("CONV_2D", operands, "same", options=ConvOptions())
