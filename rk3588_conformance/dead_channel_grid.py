"""Layers with channels whose weights vanish: their scales are tiny, their biases saturate at the
ends of int32, as quantisers leave them, and TensorFlow Lite's sums wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import Activation
from rk3588_conformance.builder.layers import Arithmetic, Window, conv, depthwise, fully_connected
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.table_writer import TensorSpec
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import grid
from rk3588_conformance.own_grid import Outputs, one_layer

_ENDS = np.iinfo(np.int32)
_BIASES = {"lowest": (_ENDS.min,), "highest": (_ENDS.max,), "both": (_ENDS.min, _ENDS.max)}
_SCALES = {"1e_minus_12": 1e-12, "1e_minus_16": 1e-16, "1e_minus_30": 1e-30}
"""The scales of dead channels, where the others' are about 1: with much more, int32's end is a
step.
"""
_ACTIVATIONS = {"none": Activation.NONE, "relu6": Activation.RELU6}


@dataclass(frozen=True, slots=True)
class _Dead:
    """A random part of the channels, not all, has ``scale`` times the scale of the others."""

    activation: Activation
    scale: float
    biases: tuple[int, ...]

    def drawn(
        self, rng: np.random.Generator, _x: TensorSpec, shape: Sequence[int], axis: int
    ) -> Arithmetic:
        channels = shape[axis]
        is_dead = rng.random(channels) < 0.3
        is_dead[rng.permutation(channels)[:2]] = (True, False)
        scales = np.exp(rng.uniform(-1, 1, channels)) * np.where(is_dead, self.scale, 1.0)
        live = rng.integers(-999, 1000, channels)
        bias = np.where(is_dead, rng.choice(self.biases, channels), live).astype(np.int32)
        return Arithmetic(
            activation=self.activation, per_channel=True, weight_scales=tuple(scales), bias=bias
        )


@grid(
    "DeadChannels.Op/",
    layer=("conv", "depthwise", "fully_connected"),
    scale=tuple(_SCALES),
    bias=tuple(_BIASES),
    activation=tuple(_ACTIVATIONS),
    channels=(3, 24, 67),
)
def _op(name: str, *, layer: str, scale: str, bias: str, activation: str, channels: int) -> Case:
    numbers = _Dead(_ACTIVATIONS[activation], _SCALES[scale], _BIASES[bias])
    shape = (1, channels) if layer == "fully_connected" else (1, 7, 5, channels)

    def made(builder: ModelBuilder, rng: np.random.Generator, x: int) -> Outputs:
        if layer == "fully_connected":
            return fully_connected(builder, rng, x, 33, numbers)
        if layer == "depthwise":
            return depthwise(builder, rng, x, Window(3, 3), numbers)
        return conv(builder, rng, x, 19, Window(3, 3), numbers)

    return one_layer(name, "DeadChannels", shape, "per_channel", made)


FAMILIES: tuple[Family, ...] = (_op,)
