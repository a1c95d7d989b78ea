"""Small float models as exporters write them, and pictures for them."""

from pathlib import Path

import numpy as np

from delegate.model.graph import DType, Padding
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.conv_2d import ConvOptions
from rk3588_conformance.builder import Net, options

SIDE = 16


def conv(
    builder: Net,
    x: int,
    channels: int,
    name: str,
    *,
    seed: int,
    half: bool = False,
    weights: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> int:
    """A 3 x 3 CONV_2D of float32; ``half``: its weights are float16 behind DEQUANTIZE."""
    rng = np.random.default_rng(seed)
    _, h, w, c = builder.spec(x).shape
    if weights is None:
        weights = rng.normal(0, 0.3, (channels, 3, 3, c)).astype(np.float32)
    if bias is None:
        bias = rng.normal(0, 0.1, channels).astype(np.float32)
    kernel = builder.constant(f"{name}/kernel", weights.astype(np.float16) if half else weights)
    if half:
        kernel = builder.result(
            "DEQUANTIZE", [kernel], f"{name}/kernel_dequantize", dtype=DType.FLOAT32
        )
    operands = [x, kernel, builder.constant(f"{name}/bias", bias)]
    return builder.result("CONV_2D", operands, name, (1, h, w, channels), options=ConvOptions())


def reshaped(builder: Net, x: int, shape: tuple[int, ...], name: str) -> int:
    target = builder.constant(f"{name}/shape", np.array(shape, np.int32))
    return builder.result("RESHAPE", [x, target], name, shape, options=options.reshape(shape))


def two_heads(*, half: bool = True, largest: float = 8.0) -> bytes:
    """Two heads of different ranges, reshaped and joined: "conv", "relu", "small", "large",
    "joined". The second head's results are ``largest`` times the first one's.
    """
    builder = Net("two_heads")
    x = builder.input("image", (1, SIDE, SIDE, 3), DType.FLOAT32)
    y = conv(builder, x, 8, "conv", seed=1, half=half)
    y = builder.result("RELU", [y], "relu")
    rng = np.random.default_rng(5)
    weights = rng.normal(0, 0.2, (4, 3, 3, 8)).astype(np.float32)
    small = conv(builder, y, 4, "small", seed=2, weights=weights, half=half)
    large = conv(builder, y, 4, "large", seed=3, weights=weights * np.float32(largest))
    rows = SIDE * SIDE
    parts = [
        reshaped(builder, t, (1, rows, 4), f"{n}_rows") for t, n in ((small, "s"), (large, "l"))
    ]
    joined = builder.result(
        "CONCATENATION", parts, "joined", (1, 2 * rows, 4), options=ConcatenationOptions(axis=1)
    )
    return builder.build(joined)


def chain(*, bias: np.ndarray | None = None, weights: np.ndarray | None = None) -> bytes:
    """Three convolutions: "first", "second", "third"; ``bias``, ``weights`` of the second."""
    builder = Net("chain")
    x = builder.input("image", (1, SIDE, SIDE, 3), DType.FLOAT32)
    y = conv(builder, x, 4, "first", seed=1)
    y = conv(builder, y, 4, "second", seed=2, bias=bias, weights=weights)
    return builder.build(conv(builder, y, 4, "third", seed=3))


def save_pictures(folder: Path, count: int = 6) -> list[Path]:
    """Noisy pictures of two sizes, from black to white."""
    from PIL import Image

    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(9)
    paths = []
    for number in range(count):
        pixels = rng.integers(0, 256, (20 + number, 24, 3), np.uint8)
        pixels[0, 0], pixels[-1, -1] = 0, 255
        paths.append(folder / f"{number}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths


def classifier(classes: int = 10) -> bytes:
    """Scores of ``classes`` over the whole picture, as classifiers have them."""
    builder = Net("classifier")
    x = builder.input("image", (1, 3, 3, 3), DType.FLOAT32)
    weights = np.random.default_rng(7).normal(0, 0.2, (classes, 3, 3, 3)).astype(np.float32)
    operands = [
        x,
        builder.constant("kernel", weights),
        builder.constant("bias", weights[:, 0, 0, 0]),
    ]
    window = ConvOptions(padding=Padding.VALID)
    y = builder.result("CONV_2D", operands, "scores", (1, 1, 1, classes), options=window)
    return builder.build(reshaped(builder, y, (1, classes), "classes"))
