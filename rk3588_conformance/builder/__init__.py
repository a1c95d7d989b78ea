"""Small .tflite models built in memory for tests, conformance and benchmarks."""

from rk3588_conformance.builder.layers import Arithmetic
from rk3588_conformance.builder.net import Net
from rk3588_conformance.builder.single_op import (
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
)

__all__ = [
    "Arithmetic",
    "Net",
    "add_model",
    "conv_model",
    "depthwise_model",
    "fully_connected_model",
]
