"""A model in the making with the generator that its numbers come from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.random_layers import draw_quantization


class Net(ModelBuilder):
    """``x``: the input of a model of one layer."""

    x: int

    def __init__(self, description: str, rng: np.random.Generator) -> None:
        super().__init__(description)
        self.rng = rng

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

    def computed(self, x: int) -> int:
        """A tensor of the same quantisation that the NPU makes: partitions of moves stay on the
        CPU.
        """
        spec, quantization = self.spec(x), self.scaling(x)
        other = self.random_constant(spec.shape, spec.dtype, quantization)
        return function(self, "MAXIMUM", (x, other), quantization)

    def conv(
        self, x: int, outputs: int, window: Window, numbers: layers.Numbers, **how: Any
    ) -> int:
        return layers.conv(self, self.rng, x, outputs, window, numbers, **how)

    def depthwise(self, x: int, window: Window, numbers: layers.Numbers, **how: Any) -> int:
        return layers.depthwise(self, self.rng, x, window, numbers, **how)

    def fully_connected(self, x: int, outputs: int, numbers: layers.Numbers, **how: Any) -> int:
        return layers.fully_connected(self, self.rng, x, outputs, numbers, **how)
