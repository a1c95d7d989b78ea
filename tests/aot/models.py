"""Models with everything that a rewritten file must keep."""

import io
import zipfile

import numpy as np

import rk3588_conformance.builder.layers as layers
from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import Net, options
from rk3588_conformance.builder.ranges import random_quantization

LABELS = b"cat\ndog\n"

SIDES = (37, 1)
"""No kernel of the NPU covers such an image, in no other shape: its RESHAPE stays on the CPU."""


def rich_model(*, dtype: DType = DType.INT8, is_external: bool = False) -> bytes:
    """conv -> RESHAPE -> fully connected, beside conv -> DEQUANTIZE: two partitions, operators with
    options and constants that stay, a constant that both sides use, metadata, a signature."""
    rng = np.random.default_rng(5)
    builder = Net("rich model", rng, name="classifier")
    x = builder.input("image", (1, *SIDES, 3), dtype, random_quantization(rng, dtype, None, None))
    a = builder.conv(x, 19, layers.Window(3, 3), name="first")
    a_spec = builder.spec(a)
    flat = builder.tensor("flat", (1, 703), dtype, a_spec.quantization)
    shape = builder.constant("shape", np.array([1, 703], np.int32), is_external=is_external)
    builder.operator("RESHAPE", [a, shape], [flat], options.reshape([1, 703]))
    scores = builder.fully_connected(flat, outputs=4, name="scores")
    b = builder.conv(x, 6, layers.Window(1, 1), name="second")
    real = builder.tensor("map", (1, *SIDES, 6), DType.FLOAT32)
    builder.operator("DEQUANTIZE", [b], [real])
    builder.output(scores)
    builder.output(real)
    builder.metadata("TFLITE_METADATA", b"some metadata of any length")
    builder.signature("serving_default", {"image": x}, {"scores": scores, "map": real})
    return builder.build()


def single_operator_model(oc: int = 16) -> bytes:
    """One convolution: the whole model is one partition."""
    rng = np.random.default_rng(7)
    builder = Net("single", rng)
    quantization = Quantization((0.05,), (-3,))
    x = builder.input("x", (1, 6, 5, 8), DType.INT8, quantization)
    return builder.build(builder.conv(x, oc, layers.Window(3, 3)))


def two_programs_model() -> bytes:
    """conv -> RESHAPE -> fully connected: two programs, nothing that computes on the CPU."""
    rng = np.random.default_rng(11)
    builder = Net("two programs", rng)
    quantization = Quantization((0.05,), (-3,))
    x = builder.input("x", (1, *SIDES, 3), DType.INT8, quantization)
    a = builder.conv(x, 17, layers.Window(3, 3))
    flat = builder.tensor("flat", (1, 629), DType.INT8, builder.spec(a).quantization)
    shape = builder.constant("shape", np.array([1, 629], np.int32))
    builder.operator("RESHAPE", [a, shape], [flat], options.reshape([1, 629]))
    return builder.build(builder.fully_connected(flat, outputs=4, name="scores"))


def two_subgraphs() -> bytes:
    """Two subgraphs of one convolution each; runtimes run the first."""
    rng = np.random.default_rng(9)
    builder = Net("two", rng)
    quantization = Quantization((0.05,), (-3,))
    for channels in (8, 5):
        x = builder.input("x", (1, 6, 5, channels), DType.INT8, quantization)
        builder.output(builder.conv(x, 7, layers.Window(3, 1)))
        if channels == 8:
            builder.subgraph("other")
    return builder.build()


def with_labels(model: bytes) -> bytes:
    """``model`` with an archive behind it, as the metadata writer of TensorFlow Lite makes them."""
    file = io.BytesIO()
    file.write(model)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zipfile.ZipInfo("labels.txt"), LABELS)
    return file.getvalue()
