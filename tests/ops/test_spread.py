"""TRANSPOSE_CONV on the simulator against the reference kernels: large maps, activations."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.lower.numerics.tflite import activation_range
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.builder import Net
from tests.ops.function_oracle import EXACT, kernel_results, simulated, values


def transposed(
    shape: tuple[int, ...], kernel: int, outputs: int, activation: Activation = Activation.NONE
) -> bytes:
    net = Net("transposed", np.random.default_rng(5))
    x = net.input("x", shape, DType.INT8, Quantization((0.02,), (-7,)))
    sides = (kernel, kernel), (2, 2), Padding.SAME
    return net.build(
        net.transpose_conv(x, outputs, *sides, per_channel=True, activation=activation)
    )


def test_large_transposed_convolutions_are_tiled() -> None:
    shape = (1, 61, 83, 64)
    model = transposed(shape, 4, 72)
    inputs = [values(np.random.default_rng(5), shape, DType.INT8)]
    off = simulated(model, *inputs).astype(int) - kernel_results(model, *inputs)
    assert abs(off).max() <= 1
    assert np.count_nonzero(off) <= 6e-4 * off.size


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6])
def test_fused_activations_clamp_what_the_reference_kernels_give(
    activation: Activation, chip: str
) -> None:
    """They have none: version 4 of the operator is not theirs."""
    shape = (1, 5, 7, 24)
    models = [transposed(shape, 3, 21, each) for each in (Activation.NONE, activation)]
    inputs = [values(np.random.default_rng(4), shape, DType.INT8)]
    quantization = read_graph(models[1]).tensors[-1].quantization
    assert quantization is not None
    limits = activation_range(activation, quantization.scale, quantization.zero_point)
    expected = np.clip(kernel_results(models[0], *inputs).astype(int), *limits)
    off = simulated(models[1], *inputs, options=replace(EXACT, chip=chip)) - expected
    assert abs(off).max() <= 1
    assert np.count_nonzero(off) <= 3 or chip == "rk3576"  # which rounds once
    assert expected.min() == limits[0]
