"""Models that take milliseconds, by name: one for every kind of program."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from delegate import _native
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.options import Options
from rk3588_conformance.builder import (
    Arithmetic,
    Net,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
    options,
)
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.products import covering
from rk3588_conformance.random_layers import Numbers
from tests.models.blocks import conv_conv_add_model

DIGITS = Path(__file__).parents[2] / "models/digits/digits_int8.tflite"


SAME = Quantization((0.05,), (3,))


def _rng() -> np.random.Generator:
    return np.random.default_rng(3)


def _begun(name: str, height: int = 5, width: int = 7) -> tuple[Net, int]:
    builder = Net(name, _rng())
    return builder, builder.input("x", (1, height, width, 32), DType.INT8, SAME)


def _points(builder: Net, x: int, channels: int, name: str) -> int:
    """A 1 x 1 convolution."""
    point = Window(kh=1, kw=1, sh=1, sw=1)
    return builder.conv(x, channels, point, Numbers(output=SAME), name=name)


def joined_model() -> bytes:
    """A result that lies beside the input, in its memory."""
    builder, x = _begun("joined")
    whole = builder.concatenation((x, _points(builder, x, 24, "first")), 3)
    return builder.build(_points(builder, whole, 9, "second"))


def pooled_model() -> bytes:
    """Maxima behind a convolution, and one before the next: the vendor's driver takes the PPU."""
    builder, x = _begun("pooled", 9, 21)
    first = _points(builder, x, 24, "first")
    maxima = builder.pool("MAX_POOL_2D", first, 5, 5, 1, 1, Padding.SAME)
    second = _points(builder, maxima, 9, "second")
    return builder.build(builder.pool("MAX_POOL_2D", second, 2, 2, 2, 2, Padding.VALID))


def parts_model() -> bytes:
    """A result of two parts: the first one's last group has lanes that the second one fills."""
    builder, x = _begun("parts")
    parts = [_points(builder, x, channels, f"part of {channels}") for channels in (16, 8)]
    return builder.build(builder.concatenation(parts, 3))


def functions_model() -> bytes:
    """SiLU behind a convolution, a sum behind SiLU, LEAKY_RELU: tables, or joined by default."""
    builder, x = _begun("functions")
    y = _points(builder, x, 32, "first")
    gate = builder.function("LOGISTIC", (y,), Quantization((1 / 256,), (-128,)))
    silu = builder.function("MUL", (y, gate), SAME, MulOptions())
    total = builder.function("ADD", (silu, x), Quantization((0.08,), (-2,)), AddOptions())
    z = _points(builder, total, 9, "second")
    leaky = options.of(LeakyReluOptions(alpha=0.1))
    result = Quantization((0.04,), (-70,))
    return builder.build(builder.function("LEAKY_RELU", (z,), result, leaky))


def product_model() -> bytes:
    """The product of a matrix and one that the partition computes."""
    builder = Net("product")
    quantization = Quantization((0.02,), (-3,))
    x, y = (builder.input(name, (2, 9, 48), DType.INT8, quantization) for name in ("x", "y"))
    output = covering(48, quantization, quantization)
    y = builder.function("LEAKY_RELU", (y,), quantization, LeakyReluOptions(0.5))
    return builder.build(builder.computed_product(x, y, output, adj_y=True))


MODELS: dict[str, Callable[[], bytes]] = {
    "conv": lambda: conv_model(_rng(), 11, 7, 5, 37, 3, 3),
    "tiled conv": lambda: conv_model(_rng(), 131, 97, 29, 67, 3, 3),
    "depthwise": lambda: depthwise_model(_rng(), 13, 9, 70, 3, 3),
    "fully connected": lambda: fully_connected_model(_rng(), (3, 131), 37),
    "split inputs": lambda: fully_connected_model(_rng(), (2, 25089), 67),
    "split inputs per channel": lambda: fully_connected_model(
        _rng(), (1, 25089), 67, arithmetic=Arithmetic(per_channel=True)
    ),
    "add": lambda: add_model(_rng(), (1, 7, 5, 19)),
    "residual": lambda: conv_conv_add_model(_rng(), 5, 9, 16, 24, 3, 3),
    "joined": joined_model,
    "parts": parts_model,
    "pooled": pooled_model,
    "product": product_model,
    "functions": functions_model,
    "digits": DIGITS.read_bytes,
}


def programs(model: bytes | Path, **given: str) -> list[bytes]:
    """The model's partitions, compiled with the options ``given``."""
    result = compile_model(model, Options.from_mapping({"deny_ops": "", **given}, {}))
    return [compiled.program for compiled in result.partitions]


def random_inputs(executable: _native.Executable, seed: int) -> list[np.ndarray]:
    """Values over the whole range of the types."""
    rng = np.random.default_rng(seed)
    limits = [np.iinfo(dtype) for _, _, _, dtype in executable.inputs]
    return [
        rng.integers(limit.min, limit.max + 1, shape, dtype=dtype)
        for limit, (_, _, shape, dtype) in zip(limits, executable.inputs, strict=True)
    ]
