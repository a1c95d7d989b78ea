"""Convolutions beyond Teflon's grid: dense, depthwise, and dilated as converters store them."""

from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from delegate.model.graph import Padding
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.reals import Reals
from rk3588_conformance.grid import PADDINGS, TYPES, Grid, Values, layer_grid, model_grid, pair
from rk3588_conformance.random_layers import Numbers

_ODD_CHANNELS = (1, 3, 7, 16, 17, 31, 37, 67)
_PADDINGS = tuple(PADDINGS)


@model_grid(
    "ConvShapes.Op/",
    h=(1, 7, 13, 29),
    w=(1, 5, 11, 31),
    kernel=("1x1", "3x3", "5x3", "1x7", "2x4"),
    stride=("1x1", "2x1", "2x3"),
    padding=_PADDINGS,
    type=TYPES,
    is_in=lambda v: v.fits(v.h, v.w),
)
def _conv_shapes(net: Net, v: Values) -> int:
    """Height and width that differ, down to one pixel; channels drawn by name."""
    inputs, outputs = (int(c) for c in net.rng.choice(_ODD_CHANNELS, 2))
    x = net.input("input", (1, v.h, v.w, inputs), v.dtype, net.drawn(v.dtype))
    return net.conv(x, outputs, v.kernel_window, v.layer_numbers)


def _convolutions(label: str, **axes: Any) -> Grid:
    """Kernels of 3 x 3, but for what ``axes`` say."""

    def layer(net: Net, v: Values) -> int:
        outputs = v.groups * (v.output_channels or v.outputs)
        return net.conv(net.x, outputs, v.kernel_window, v.layer_numbers, groups=v.groups)

    return layer_grid(
        f"{label}.Op/",
        input_shape=lambda v: v.map_shape(v.groups * (v.input_channels or v.inputs)),
        **axes,
    )(layer)


_CONVOLUTIONS = (
    # Around the sizes of groups, and into the thousands.
    _convolutions(
        "ConvChannels",
        size="4x5",
        input_channels=(2, 3, 15, 16, 17, 31, 33, 47, 49, 65, 97, 129, 257, 512, 1021, 2048),
        output_channels=(2, 3, 15, 16, 17, 31, 33, 63, 65, 129, 257, 1001),
        kernel=("1x1", "3x3"),
        type=("uint8", "per_channel"),
    ),
    _convolutions(
        "ConvDilation",
        size="23x37",
        inputs=19,
        outputs=21,
        dilation=("2x2", "1x3", "5x2", "3x1", "9x8"),
        kernel=("3x3", "2x5"),
        stride=("1x1", "2x1"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    _convolutions(
        "ConvBatch",
        size="11x7",
        inputs=19,
        outputs=35,
        batch=(2, 3, 5),
        kernel=("1x1", "3x3", "5x2"),
        stride=("1x1", "2x2"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    # Grouped convolution: each group of outputs sees its own input channels.
    _convolutions(
        "ConvGroups",
        size="9x13",
        groups=(2, 3, 4, 8),
        inputs=(2, 4, 16, 33),
        outputs=(1, 5, 16, 32),
        kernel=("1x1", "3x3"),
        stride=("1x1", "2x2"),
        type=("int8", "per_channel"),
    ),
    # One filter per channel, as Keras stores ConvNeXt's depthwise layers; and two.
    _convolutions(
        "ConvFilters",
        size="9x13",
        groups=(17, 32, 33, 48, 64, 130),
        inputs=1,
        outputs=(1, 2),
        kernel=("3x3", "7x7"),
        stride=("1x1", "2x2"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    # Up to the largest kernel.
    _convolutions(
        "ConvKernels",
        size="37x33",
        inputs=5,
        outputs=6,
        kernel=("4x4", "6x6", "7x7", "11x3", "2x9", "9x8", "15x15", "31x1", "1x31", "31x31"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    _convolutions(
        "ConvStrides",
        size="29x31",
        inputs=12,
        outputs=20,
        stride=("3x3", "4x1", "1x4", "5x5", "7x6"),
        kernel=("1x1", "3x3", "5x4", "8x8"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    # Patches: strides beyond the register's.
    _convolutions(
        "ConvPatches",
        size="67x53",
        inputs=(1, 3, 16),
        outputs=(3, 40),
        stride=("16x16", "8x8", "9x12", "1x8"),
        kernel=("16x16", "8x8", "5x9"),
        padding="valid",
        batch=(1, 2),
        type=TYPES,
    ),
    # More weights per output than CBUF holds for a group of kernels.
    _convolutions(
        "ConvManyInputs",
        size="5x4",
        outputs=41,
        input_channels=(2801, 4099),
        stride=("1x1", "2x3"),
        padding=_PADDINGS,
        type=TYPES,
    ),
)


def _depthwise(label: str, **axes: Any) -> Grid:
    """Kernels of 3 x 3, but for what ``axes`` say; without combinations that have no output."""

    def layer(net: Net, v: Values) -> int:
        return net.depthwise(net.x, v.kernel_window, v.layer_numbers, multiplier=v.multiplier)

    return layer_grid(f"{label}.Op/", is_in=lambda v: v.has_output, **axes)(layer)


_DEPTHWISE = (
    _depthwise(
        "DepthwiseShapes",
        size=("7x13", "1x31", "23x1", "29x17"),
        channels=(2, 17, 64, 65, 97, 130),
        kernel=("1x1", "3x3", "5x2"),
        stride=("1x1", "2x1", "3x2"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    _depthwise(
        "DepthMultiplier",
        size="9x14",
        multiplier=(2, 3, 4, 8),
        channels=(1, 3, 8, 16, 33),
        stride=("1x1", "2x2"),
        type=TYPES,
    ),
    _depthwise(
        "DepthwiseDilation",
        size="25x31",
        channels=70,
        dilation=("2x2", "1x3", "4x5"),
        kernel=("3x3", "2x5"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    _depthwise(
        "DepthwiseBatch",
        size="12x7",
        batch=(2, 5),
        channels=(5, 67),
        stride=("1x1", "2x2"),
        type=TYPES,
    ),
    _depthwise(
        "DepthwiseKernels",
        size="34x37",
        channels=19,
        kernel=("2x2", "4x7", "7x7", "11x11", "31x1", "1x31", "31x31"),
        padding=_PADDINGS,
        type=TYPES,
    ),
)


def moved(builder: Net, op: str, x: int, shape: Sequence[int], *numbers: Sequence[object]) -> int:
    """The result of an operator that moves values, of ``shape``."""
    spec = builder.spec(x)
    given = [builder.constant(f"{op} {x} {n}", np.array(one, np.int32))
             for n, one in enumerate(numbers)]  # fmt: skip
    result = builder.tensor(f"{op} of {x}", tuple(shape), spec.dtype, spec.quantization)
    builder.operator(op, (x, *given), (result,))
    return result


def dilated(
    net: Net,
    x: int,
    kernel: tuple[int, int],
    blocks: tuple[int, int],
    numbers: Numbers,
    *,
    is_depthwise: bool,
    is_same: bool,
) -> int:
    """A convolution of rank 4; ``is_same``: the result has the size of the image."""
    images, *size, channels = net.spec(x).shape
    pads, crops = [], []
    for side, count, block in zip(size, kernel, blocks, strict=True):
        before = (count - 1) * block // 2 if is_same else 0
        behind = (count - 1) * block - before if is_same else 0
        more = -(side + before + behind) % block
        pads.append((before, behind + more))
        crops.append((0, more))
    count = blocks[0] * blocks[1]
    inner = [(n + sum(p)) // b for n, p, b in zip(size, pads, blocks, strict=True)]
    split = moved(net, "SPACE_TO_BATCH_ND", x, (images * count, *inner, channels), blocks, pads)
    window = Window(*kernel, padding=Padding.VALID)
    if is_depthwise:
        layer = net.depthwise(split, window, numbers)
    else:
        layer = net.conv(split, 19, window, numbers)
    *_, rows, columns, outputs = net.spec(layer).shape
    after = [n * b - c for n, b, (_, c) in zip((rows, columns), blocks, crops, strict=True)]
    return moved(net, "BATCH_TO_SPACE_ND", layer, (images, *after, outputs), blocks, crops)


@layer_grid(
    "DilatedBlocks.Op/",
    size="13x11",
    layer=("conv", "depthwise"),
    kernel=("3x3", "1x3", "2x2", "3x1"),
    block=("2x2", "3x3", "2x1", "1x4"),
    padding=("same", "valid"),
    channels=(3, 24, 64),
    images=(1, 2),
    type=TYPES,
    # A block alone in a direction says no dilation there, and depthwise taps are at most 64.
    is_in=lambda v: v.layer == "conv" or (v.kernel, v.block) != ("3x3", "1x4"),
)
def _dilated_blocks(net: Net, v: Values) -> int:
    """SPACE_TO_BATCH_ND, a convolution on blocks that became images, BATCH_TO_SPACE_ND. Borders may
    be larger than the crops that take them off again.
    """
    return dilated(
        net, net.x, pair(v.kernel), pair(v.block), v.layer_numbers,
        is_depthwise=v.layer == "depthwise", is_same=v.padding == "same",
    )  # fmt: skip


def measured_shapes(name: str) -> list[str]:
    """Return one of the lists of measured_shapes.csv, as words: ``measured`` are the distinct
    shapes of a sweep in fp16 by allbilly/rk3588 (217 shapes and 43 of an earlier run, all of which
    pass on a board), ``models`` are convolutions of MobileNet, MobileDet and Inception, with the
    stride and padding that their sizes imply.
    """
    text = resources.files("rk3588_conformance").joinpath("measured_shapes.csv").read_text("utf-8")
    rows = (line.partition(",") for line in text.splitlines()[1:])
    return ["x".join(rest.lower().split(",")) for listed, _, rest in rows if listed == name]


MEASURED = measured_shapes("measured")


@model_grid(
    "Measured.Op/",
    _shape=(*MEASURED, *(shape for shape in measured_shapes("models") if shape not in MEASURED)),
    type=("int8", "fp16_plain"),
    is_in=lambda v: not v.is_half or v._shape in MEASURED,
)
def _measured(net: Net, v: Values) -> int:
    """Images, height, width, input and output channels, kernel, groups, stride, padding."""
    *sizes, padding = v._shape.split("x")
    n, h, w, ic, oc, kh, kw, groups, stride = map(int, sizes)
    window = Window(kh, kw, stride, stride, padding=PADDINGS[padding])
    numbers = Reals(has_bias=False) if v.is_half else v.layer_numbers
    x = net.input("input", (n, h, w, ic), v.dtype, v.quantization(net))
    if groups == ic == oc > 1:
        return net.depthwise(x, window, numbers)
    return net.conv(x, oc, window, numbers, groups=groups)
