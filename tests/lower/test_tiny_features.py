"""Layers whose results hardly vary, as networks without training have them.

Their multipliers are 2^-15, and the clamp lies within the range: int8 takes nothing off there.
"""

import numpy as np
import pytest

from delegate.model.graph import Activation, DType, Quantization
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.layers import Arithmetic, Window, conv, depthwise
from tests.lower.fusion_graphs import AUTO, EXACT, inputs_of, off, references, run

TINY = 7.9e-9
"""The least scale that TensorFlow's converter gives: its narrowest range, 2e-6, over 255 steps."""


def model(channels: int, activation: Activation, zero_point: int, *, dense: bool) -> bytes:
    rng = np.random.default_rng([channels, zero_point + 128])
    builder = ModelBuilder("tiny")
    x = builder.input("x", (1, 14, 13, channels), DType.INT8, Quantization((TINY,), (-1,)))
    numbers = Arithmetic(
        activation=activation,
        per_channel=True,
        weight_scales=tuple(rng.uniform(2e-5, 5e-5, channels)),
        bias=rng.integers(-20_000, 20_000, channels, dtype=np.int32),
        output_scale=TINY,
        output_zero_point=zero_point,
    )
    if dense:
        return builder.build(conv(builder, rng, x, channels, Window(3, 3), numbers))
    return builder.build(depthwise(builder, rng, x, Window(3, 3), numbers))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("channels", "activation", "zero_point"),
    [
        (48, Activation.RELU6, -1),
        (37, Activation.RELU, 40),
        (16, Activation.RELU6, 127),
        (20, Activation.RELU_N1_TO_1, -100),
    ],
)
def test_a_clamp_within_the_range_has_known_forms(channels, activation, zero_point, dense):
    """No node stays on the CPU, and results are the reference kernels', but for a step at ties."""
    content = model(channels, activation, zero_point, dense=dense)
    arrays = inputs_of(content, 3)
    for options, most in ((AUTO, 1 / 50), (EXACT, 1 / 1000)):
        _, results = run(content, options, arrays)
        steps = off(results[0], references(content, arrays)[0])
        assert steps.max() <= 1
        assert (steps > 0).mean() <= most
