"""Small .tflite models built in memory for tests, conformance and benchmarks."""

from delegate.builder.layers import Arithmetic
from delegate.builder.model_builder import ModelBuilder
from delegate.builder.single_op import (
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
