"""A convolution whose channels' scales are too far apart for one shift, as a few with one each.

Each part has the channels of a range of scales; the others are the zero point there, whatever the
input is. Two parts together are a sum of two maps, less the zero point, which is exact: of every
channel one part has the result, and what is proven of it is true of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import DMA_ALIGN_BYTES, align, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.constant_channels import with_results
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import share_differing
from delegate.lower.convolution import TiledConvolution
from delegate.lower.lowered import Layer
from delegate.lower.max_pool_sums import sums
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.one_rounding import MOST_DIFFERING
from delegate.lower.operation import Memory, Plan
from delegate.lower.weights import depthwise_channels

_MOST_PARTS: Final = 5
"""Each makes the multiplications of the whole."""

_Channels = npt.NDArray[np.bool_]


def split_by_scale(found: TiledConvolution) -> Plan | None:
    """Return the plan of parts, where too many results of ``found`` would differ and fewer do of
    those; None: it stays whole.
    """
    conv = found.conv
    if not conv.per_channel or conv.output_view != conv.target.view or conv.parts != (1, 1):
        return None
    parts = _parts(conv)
    return None if len(parts) < 2 else _sum_of_parts(found, parts)


def _sum_of_parts(whole: TiledConvolution, parts: Sequence[Convolution]) -> Plan:
    """Return the plan of ``parts``: all of them ``whole``, with the results of some channels each.

    Only the last sum writes the result, and reads none of it: that it ran shows there.
    """
    conv, result = whole.conv, whole.operation.result
    unit = conv.chip.groups.surface_pixels(conv.is_depthwise)
    apart = conv.target.via_scratch(conv.target.location, whole.surfaces_written, unit)
    map_bytes = align(apart.size_bytes, DMA_ALIGN_BYTES)

    def emit(memory: Memory) -> Layer:
        def part(conv: Convolution, target: DeviceTensor) -> Layer:
            tensors = {**memory.tensors, result: target}
            return replace(whole, conv=conv).emit(replace(memory, tensors=tensors))

        total, other = (
            replace(apart, location=memory.work.moved(number * map_bytes)) for number in range(2)
        )
        layer = part(parts[0], total)
        tasks = [*layer.tasks]
        for number, one in enumerate(parts[1:], 2):
            is_last = number == len(parts)
            tasks += part(one, other).tasks
            target = memory.tensors[result] if is_last else total
            tasks += sums(conv.chip, total, other, target)
        choice = f"in {len(parts)} parts by channels' scales, {layer.choice}"
        return replace(layer, tasks=tuple(tasks), choice=choice)

    channels = depthwise_channels(conv.target.view.channels, conv.chip.groups)
    plan = whole.plan
    footprint = replace(plan.footprint, writes=surfaces_of(channels), work_bytes=2 * map_bytes)
    return Plan(whole.operation, footprint, emit)


def _parts(conv: Convolution) -> tuple[Convolution, ...]:
    """The widest range of scales that differs most is halved until few enough results do."""
    everything = np.ones(conv.ratios.size, np.bool_)
    channels: list[_Channels] = [everything]
    shares = [_share(conv)]
    while sum(shares) > MOST_DIFFERING:
        number = int(np.argmax(shares))
        halves = _halves(conv, channels[number])
        if len(channels) == _MOST_PARTS or halves is None:
            return ()  # the whole says why
        channels[number : number + 1] = halves
        shares[number : number + 1] = [_share(_part(conv, half)) for half in halves]
    return tuple(_part(conv, some) for some in channels) if len(channels) > 1 else ()


def _share(conv: Convolution) -> float:
    """1 where no stages are near enough."""
    try:
        return share_differing(conv)
    except LoweringError:
        return 1.0


def _halves(conv: Convolution, channels: _Channels) -> tuple[_Channels, _Channels] | None:
    """Return two halves of the channels, by powers of two (TensorFlow Lite's units), else by
    numbers of channels. None: all have one scale.
    """
    exponents = np.frexp(conv.ratios)[1]
    low, high = exponents[channels].min(), exponents[channels].max()
    upper = channels & (exponents >= (low + high + 1) // 2)
    if low == high:
        upper = channels & (conv.ratios > np.median(conv.ratios[channels]))
    return (channels & ~upper, upper) if upper.any() else None


def _part(conv: Convolution, channels: _Channels) -> Convolution:
    """The others give the zero point."""
    return with_results(conv, ~channels, np.zeros(conv.ratios.size, np.int64))
