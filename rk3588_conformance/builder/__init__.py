"""Small .tflite models built in memory for tests, conformance and benchmarks."""

from rk3588_conformance.builder.layers import Arithmetic
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.single_op import (
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
)

__all__ = [
    "Arithmetic",
    "ModelBuilder",
    "add_model",
    "conv_model",
    "depthwise_model",
    "fully_connected_model",
]
