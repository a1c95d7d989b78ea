"""Convolutions that compute nothing: each result is the one input that a weight of 1 meets, or the
value outside the image.

What they move: maps into larger ones with a border, every second pixel, pixels apart from one
another. Depthwise, or dense with the unit matrix where a depthwise task would be widened and fetch
channels that do not belong to the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, DMA_ALIGN_BYTES, align
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import adding_stage
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.legalize import with_equal_sides
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array, OutConvert
from delegate.lower.operation import ConstantPool
from delegate.lower.task import BnStage, ConvTask, Ref, Stages, Task
from delegate.model.graph import Activation, Node


@dataclass(frozen=True, slots=True)
class Selection:
    """``taps``: rows and columns of the kernel, ``tap``: where its weight lies (None: everywhere);
    the padding above and left. ``spread``: rows and columns that a pixel of the source takes.
    ``outside``: the value around the image and between pixels. ``clamp``: least and largest result.
    """

    taps: tuple[int, int] = (1, 1)
    tap: tuple[int, int] | None = (0, 0)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    spread: tuple[int, int] = (1, 1)
    outside: int = 0
    clamp: tuple[int, int] = (INT8_MIN, INT8_MAX)


_MOST_TAPS: Final = 31
"""Rows and columns of a kernel (CNA.WEIGHT_SIZE2 has five bits for each)."""


def bordering(
    rows: tuple[int, int],
    columns: tuple[int, int],
    outside: int,
    clamp: tuple[int, int] = (INT8_MIN, INT8_MAX),
    *,
    is_square: bool = False,
) -> Selection:
    """A map with a border of ``outside``: so many rows above and below, columns left and right.

    The kernel reaches over as many pixels as the border has, so that it meets the image everywhere;
    its weight lies where the border behind the image begins. ``is_square``: it reaches over as many
    rows as columns, those of the larger border.
    """
    sides = rows, columns
    dilations = [1, 1]
    if max(map(sum, sides)) >= _MOST_TAPS:  # else no task needs to spread its weights
        dilations = [gcd(*side) or 1 for side in sides]
    if is_square and dilations[0] != dilations[1]:
        dilations = [gcd(*dilations)] * 2
    pairs = list(zip(sides, dilations, strict=True))
    kh, kw = (sum(side) // dilation + 1 for side, dilation in pairs)
    if is_square:
        kh = kw = max(kh, kw)
    y, x = (side[1] // dilation for side, dilation in pairs)
    return Selection(
        taps=(kh, kw),
        tap=(y, x),
        dilations=(dilations[0], dilations[1]),
        padding=(sum(rows), sum(columns)),
        outside=outside,
        clamp=clamp,
    )


def is_depthwise(chip: Chip, channels: int) -> bool:
    """Return whether a depthwise task fetches no more surfaces than there are."""
    return chip.groups.depthwise_lanes(channels) == align(channels, CHANNELS_PER_SURFACE)


def surfaces_written(chip: Chip, channels: int) -> int:
    """Return the surfaces that a selection writes, padding of the last group included."""
    return chip.groups.surfaces_written(channels, is_depthwise=is_depthwise(chip, channels))


def surface_pixels(chip: Chip, channels: int) -> int:
    """Return of what the pixels of a surface that a selection writes are a multiple."""
    return chip.groups.surface_pixels(is_depthwise(chip, channels))


def map_bytes(chip: Chip, pixels: int, channels: int) -> int:
    """Return the bytes of a map between two tasks, of one image: whole groups of depthwise
    channels, their surfaces as far apart as such tasks write them.
    """
    surfaces = chip.groups.surfaces_written(channels, is_depthwise=True)
    apart = align(pixels, chip.groups.surface_pixels(is_depthwise=True))
    return align(surfaces * apart * ATOM_BYTES, DMA_ALIGN_BYTES)


def kernels(taps: npt.NDArray[Any], channels: int, *, depthwise: bool) -> npt.NDArray[np.int8]:
    """Return the same ``taps`` for each of ``channels``, HWC of a depthwise convolution or OHWI."""
    small = taps.astype(np.int8)
    if depthwise:
        return np.repeat(small[:, :, np.newaxis], channels, axis=2)
    unit = np.eye(channels, dtype=np.int8)
    return unit[:, np.newaxis, np.newaxis] * small[..., np.newaxis]


class Move(NamedTuple):
    """``tasks`` that bring elements from one map to another, the last argument being where memory
    of their own begins; and what they touch, see ``Footprint``. ``launches``: how many tasks they
    are before they are tiled; 0: nobody asks.
    """

    tasks: Callable[[Moving, DeviceTensor, DeviceTensor, Ref], Iterable[Task]]
    reads: int
    writes: int
    work_bytes: int = 0
    surface_pixels: int = 1
    launches: int = 0


_AS_IT_IS: Final = Selection()


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Makes such convolutions for ``node``, whose weights are among ``constants``: of ``target``
    from ``source``, one image each. Raises LoweringError.
    """

    chip: Chip
    node: Node
    constants: ConstantPool

    def select(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        selection: Selection = _AS_IT_IS,
        *,
        depthwise: bool | None = None,
    ) -> list[ConvTask]:
        """``depthwise``: None: where that fetches no more surfaces than there are."""
        channels = source.view.channels
        if depthwise is None:
            depthwise = is_depthwise(self.chip, channels)
        ones = np.ones(selection.taps, np.int8)
        if selection.tap is not None:
            ones[:] = 0
            ones[selection.tap] = 1
        weights = kernels(ones, channels, depthwise=depthwise)
        return self.move(source, target, weights, selection, is_depthwise=depthwise)

    def move(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        weights: npt.NDArray[np.int8],
        selection: Selection = _AS_IT_IS,
        *,
        is_depthwise: bool = False,
        summands: Int64Array | None = None,
        out: OutConvert | None = None,
        region: tuple[range, range] | None = None,
    ) -> list[ConvTask]:
        """Move elements by ``weights`` instead of taps, HWC or OHWI, all of them 0 but one of each
        kernel, which is 1, unless ``out`` divides their sum. ``summands``: what is added to each
        channel before. ``region``: see ``tile_tasks``.
        """
        conv = self.convolution(source, target, weights, selection, is_depthwise=is_depthwise)
        low, high = selection.clamp
        is_clamped = (low, high) != (INT8_MIN, INT8_MAX)
        bias = np.full(target.view.channels, -low if is_clamped else 0, np.int64)
        if summands is not None:
            bias = bias + summands
        bs = adding_stage(conv, bias, self.constants)
        # Both clamps: BN with the lower one alone is known of dense convolutions only.
        bn = BnStage(relu=is_clamped, relux_max=high - low if is_clamped else None)
        plain = OutConvert(offset=low if is_clamped else 0)
        return tile_tasks(conv, Stages(bs, bn, out_convert=out or plain), self.constants, region)

    def convolution(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        weights: npt.NDArray[np.int8],
        selection: Selection,
        *,
        is_depthwise: bool,
    ) -> Convolution:
        """Return a convolution of whole numbers, without a requantisation: ``selection`` without
        its taps and clamp.
        """
        channels = target.view.channels
        conv = Convolution(
            chip=self.chip,
            node=self.node.index,
            weights=weights,
            weight_zero_point=0,
            bias=np.zeros(channels, np.int64),
            ratios=np.ones(channels),
            per_channel=False,
            activation=Activation.NONE,
            output_scale=target.scale,
            output_zero_point=target.zero_point,
            source=replace(source, zero_point=selection.outside),
            target=target,
            input_view=source.view,
            output_view=target.view,
            strides=selection.strides,
            dilations=selection.dilations,
            padding=selection.padding,
            is_depthwise=is_depthwise,
            spread=selection.spread,
        )
        return with_equal_sides(conv) if Primitive.UNEQUAL_SIDES in self.chip.lacks else conv
