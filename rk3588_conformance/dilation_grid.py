"""Dilated convolutions as converters store them: SPACE_TO_BATCH_ND, a convolution on blocks that
became images, BATCH_TO_SPACE_ND. Borders may be larger than the crops that take them off again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Padding
from rk3588_conformance.builder.layers import Window, conv, depthwise
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import grid
from rk3588_conformance.own_grid import TYPES, Outputs, numbers_of, one_layer, pair


def moved(
    builder: ModelBuilder, op: str, x: int, shape: Sequence[int], *numbers: Sequence[object]
) -> int:
    """The result of an operator that moves values, of ``shape``."""
    spec = builder.spec(x)
    given = [builder.constant(f"{op} {x} {n}", np.array(one, np.int32))
             for n, one in enumerate(numbers)]  # fmt: skip
    result = builder.tensor(f"{op} of {x}", tuple(shape), spec.dtype, spec.quantization)
    builder.operator(op, (x, *given), (result,))
    return result


def dilated(
    builder: ModelBuilder,
    rng: np.random.Generator,
    x: int,
    kernel: tuple[int, int],
    blocks: tuple[int, int],
    kind: str,
    *,
    is_depthwise: bool,
    is_same: bool,
) -> int:
    """A convolution of rank 4; ``is_same``: the result has the size of the image."""
    images, *size, channels = builder.spec(x).shape
    pads, crops = [], []
    for side, count, block in zip(size, kernel, blocks, strict=True):
        before = (count - 1) * block // 2 if is_same else 0
        behind = (count - 1) * block - before if is_same else 0
        more = -(side + before + behind) % block
        pads.append((before, behind + more))
        crops.append((0, more))
    count = blocks[0] * blocks[1]
    inner = [(n + sum(p)) // b for n, p, b in zip(size, pads, blocks, strict=True)]
    split = moved(builder, "SPACE_TO_BATCH_ND", x, (images * count, *inner, channels), blocks, pads)
    window = Window(*kernel, padding=Padding.VALID)
    numbers = numbers_of(kind)
    layer = depthwise(builder, rng, split, window, numbers) if is_depthwise else conv(
        builder, rng, split, 19, window, numbers
    )  # fmt: skip
    *_, rows, columns, outputs = builder.spec(layer).shape
    after = [n * b - c for n, b, (_, c) in zip((rows, columns), blocks, crops, strict=True)]
    return moved(builder, "BATCH_TO_SPACE_ND", layer, (images, *after, outputs), blocks, crops)


@grid(
    "DilatedBlocks.Op/",
    layer=("conv", "depthwise"),
    kernel=("3x3", "1x3", "2x2", "3x1"),
    block=("2x2", "3x3", "2x1", "1x4"),
    padding=("same", "valid"),
    channels=(3, 24, 64),
    images=(1, 2),
    type=TYPES,
    # A block alone in a direction says no dilation there, and depthwise taps are at most 64.
    is_in=lambda layer, kernel, block, **_: layer == "conv" or (kernel, block) != ("3x3", "1x4"),
)
def _op(
    name: str, *, layer: str, kernel: str, block: str, padding: str, channels: int, images: int,
    type: str,
) -> Case:  # fmt: skip
    def made(builder: ModelBuilder, rng: np.random.Generator, x: int) -> Outputs:
        return dilated(
            builder, rng, x, pair(kernel), pair(block), type,
            is_depthwise=layer == "depthwise", is_same=padding == "same",
        )  # fmt: skip

    return one_layer(name, "DilatedBlocks", (images, 13, 11, channels), type, made)


FAMILIES: tuple[Family, ...] = (_op,)
