"""Whole networks with random weights: MobileNetV1, MobileNetV2 and a detector of YOLO's form.

Comes from: a NumPy generator, the size of the input, a width. Goes to: bytes for an interpreter.
Shapes and operators are those of the published architectures; what they answer means nothing.
"""

from __future__ import annotations

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.pooling import PoolOptions
from rk3588_conformance.builder import Net, options
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.builder.ranges import LIMITS

_CHANNEL_STEP = 8
_PIXEL_SCALE = 1.0 / 128.0

# MobileNetV1: output channels at width 1 and stride of every depthwise-separable block.
_V1_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
# MobileNetV2: expansion, output channels at width 1, blocks, stride of the first block.
_V2_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
_V2_LAST = 1280
_YOLO_ANCHORS = 3
_YOLO_CHANNELS = (16, 32, 64, 128, 256)


def scaled_channels(channels: int, width: float) -> int:
    """``channels`` times ``width``, rounded to a multiple of 8 and never down by more than 10 %."""
    wanted = channels * width
    rounded = max(_CHANNEL_STEP, int(wanted + _CHANNEL_STEP / 2) // _CHANNEL_STEP * _CHANNEL_STEP)
    return rounded + _CHANNEL_STEP if rounded < 0.9 * wanted else rounded


class _Network:
    """A network under construction: its builder, generator and arithmetic."""

    def __init__(
        self, name: str, rng: np.random.Generator, h: int, w: int, dtype: DType, per_channel: bool
    ) -> None:
        self.builder = Net(name, rng)
        self.relu6 = Arithmetic(activation=Activation.RELU6, per_channel=per_channel)
        self.linear = Arithmetic(per_channel=per_channel)
        low, high = LIMITS[dtype]
        self.lowest = low
        middle = (low + high + 1) // 2
        self.x = self.builder.input(
            "image", (1, h, w, 3), dtype, Quantization((_PIXEL_SCALE,), (middle,))
        )

    def conv(
        self, x: int, channels: int, kernel: int = 1, stride: int = 1, *, linear: bool = False
    ) -> int:
        arithmetic = self.linear if linear else self.relu6
        window = Window(kernel, kernel, stride, stride)
        return self.builder.conv(x, channels, window, arithmetic=arithmetic)

    def depthwise(self, x: int, stride: int = 1) -> int:
        window = Window(3, 3, stride, stride)
        return self.builder.depthwise(x, window, arithmetic=self.relu6)

    def classifier(self, x: int, classes: int) -> bytes:
        """Mean over the image, a 1x1 convolution to the classes, softmax."""
        builder = self.builder
        spec = builder.spec(x)
        _, h, w, c = spec.shape
        pooled = builder.tensor("pooled", (1, 1, 1, c), spec.dtype, spec.quantization)
        builder.operator(
            "AVERAGE_POOL_2D", [x], [pooled],
            PoolOptions(Padding.VALID, stride_h=1, stride_w=1, filter_h=h, filter_w=w), version=2,
        )  # fmt: skip
        logits = self.conv(pooled, classes, linear=True)
        flat_spec = builder.spec(logits)
        flat = builder.tensor("logits", (1, classes), spec.dtype, flat_spec.quantization)
        shape = builder.constant("shape", np.array([1, classes], np.int32))
        builder.operator("RESHAPE", [logits, shape], [flat], options.reshape((1, classes)))
        scores = builder.tensor(
            "scores", (1, classes), spec.dtype, Quantization((1 / 256,), (self.lowest,))
        )
        builder.operator("SOFTMAX", [flat], [scores], options.softmax(), version=2)
        return builder.build(scores)


def mobilenet_v1(
    rng: np.random.Generator,
    h: int = 224,
    w: int = 224,
    *,
    width: float = 1.0,
    classes: int = 1001,
    dtype: DType = DType.INT8,
    per_channel: bool = True,
) -> bytes:
    """MobileNetV1 for an image [1, h, w, 3]: 31 nodes."""
    net = _Network("mobilenet_v1", rng, h, w, dtype, per_channel)
    x = net.conv(net.x, scaled_channels(32, width), 3, 2)
    for channels, stride in _V1_BLOCKS:
        x = net.conv(net.depthwise(x, stride), scaled_channels(channels, width))
    return net.classifier(x, classes)


def mobilenet_v2(
    rng: np.random.Generator,
    h: int = 224,
    w: int = 224,
    *,
    width: float = 1.0,
    classes: int = 1001,
    dtype: DType = DType.INT8,
    per_channel: bool = True,
) -> bytes:
    """MobileNetV2 for an image [1, h, w, 3]: inverted residuals, ten of them with an addition."""
    net = _Network("mobilenet_v2", rng, h, w, dtype, per_channel)
    x = net.conv(net.x, scaled_channels(32, width), 3, 2)
    for expansion, channels, blocks, first_stride in _V2_STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            wide = x
            inside = net.builder.spec(x).shape[3]
            if expansion > 1:
                wide = net.conv(x, inside * expansion)
            y = net.conv(net.depthwise(wide, stride), scaled_channels(channels, width), linear=True)
            same = net.builder.spec(y).shape == net.builder.spec(x).shape
            x = net.builder.add(x, y) if stride == 1 and same else y
    return net.classifier(net.conv(x, scaled_channels(_V2_LAST, max(width, 1.0))), classes)


def yolo_like(
    rng: np.random.Generator,
    h: int = 320,
    w: int = 320,
    *,
    width: float = 1.0,
    classes: int = 80,
    dtype: DType = DType.INT8,
    per_channel: bool = True,
) -> bytes:
    """A detector for an image [1, h, w, 3], h and w multiples of 32: residual levels, a pyramid by
    nearest-neighbour upsampling and addition, and grids [1, h/s, w/s, 3 (5 + classes)] for s = 8,
    16 and 32. Raises ValueError for other sizes.
    """
    if h % 32 or w % 32:
        raise ValueError(f"the input must be a multiple of 32 in both directions: it is {h} x {w}")
    net = _Network("yolo_like", rng, h, w, dtype, per_channel)
    builder = net.builder
    x = net.x
    levels = []
    for channels in _YOLO_CHANNELS:
        x = net.conv(x, scaled_channels(channels, width), 3, 2)
        y = net.conv(net.conv(x, builder.spec(x).shape[3] // 2), builder.spec(x).shape[3], 3)
        x = builder.add(x, y)
        levels.append(x)
    neck = scaled_channels(64, width)
    above: int | None = None
    heads = []
    for level in reversed(levels[2:]):
        x = net.conv(level, neck)
        if above is not None:
            x = builder.add(x, _upsampled(builder, above))
        above = x
        heads.append(net.conv(net.conv(x, neck, 3), _YOLO_ANCHORS * (5 + classes), linear=True))
    return builder.build(*reversed(heads))


def _upsampled(builder: Net, x: int) -> int:
    spec = builder.spec(x)
    _, h, w, c = spec.shape
    size = builder.constant("size", np.array([2 * h, 2 * w], np.int32))
    y = builder.tensor("upsampled", (1, 2 * h, 2 * w, c), spec.dtype, spec.quantization)
    builder.operator("RESIZE_NEAREST_NEIGHBOR", [x, size], [y], ResizeNearestOptions(), version=2)
    return y
