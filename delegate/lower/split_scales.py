"""A convolution whose channels' scales are too far apart for one shift, as a few with one each.

Each part has the channels of a range of scales; the others are the zero point there, whatever the
input is. Two parts together are a sum of two maps, less the zero point, which is exact: of every
channel one part has the result, and what is proven of it is true of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.limits import DMA_ALIGN_BYTES, align, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.constant_channels import with_results
from delegate.lower.conv_stages import share_differing
from delegate.lower.convolution import PlannedConvolution
from delegate.lower.extrema import sums
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.one_rounding import MOST_DIFFERING
from delegate.lower.operation import Memory, Operation, Plan
from delegate.lower.resolved import Convolution
from delegate.lower.weights import depthwise_channels

_MOST_PARTS: Final = 5
"""Each makes the multiplications of the whole."""

_Channels = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SplitConvolution:
    """``parts``: all of them ``whole``, with the results of some channels each."""

    whole: PlannedConvolution
    parts: tuple[Convolution, ...]

    @property
    def operation(self) -> Operation:
        return self.whole.operation

    @property
    def footprint(self) -> Footprint:
        conv = self.whole.conv
        channels = depthwise_channels(conv.target.view.channels, conv.chip.groups)
        work_bytes = 2 * self._map_bytes
        return replace(self.whole.footprint, writes=surfaces_of(channels), work_bytes=work_bytes)

    def lower(self, memory: Memory) -> Layer:
        """Only the last sum writes the result, and reads none of it: that it ran shows there.
        Raises LoweringError.
        """
        result, work = self.operation.result, memory.work.place
        total, part = (
            replace(self._staged, location=work.moved(number * self._map_bytes))
            for number in range(2)
        )
        layer = self._part(memory, self.parts[0], total)
        tasks = [*layer.tasks]
        for number, conv in enumerate(self.parts[1:], 2):
            is_last = number == len(self.parts)
            tasks += self._part(memory, conv, part).tasks
            target = memory.tensors[result] if is_last else total
            tasks += sums(conv.chip, total, part, target)
        choice = f"in {len(self.parts)} parts by channels' scales, {layer.choice}"
        return replace(layer, tasks=tuple(tasks), choice=choice)

    def _part(self, memory: Memory, conv: Convolution, target: DeviceTensor) -> Layer:
        tensors = {**memory.tensors, self.operation.result: target}
        return replace(self.whole, conv=conv).lower(replace(memory, tensors=tensors))

    @property
    def _staged(self) -> DeviceTensor:
        """A map in memory of its own."""
        conv = self.whole.conv
        unit = conv.chip.forms.surface_pixels(conv.is_depthwise)
        return conv.target.staged(conv.target.location, self.whole.surfaces_written, unit)

    @property
    def _map_bytes(self) -> int:
        return align(self._staged.size_bytes, DMA_ALIGN_BYTES)


def split_by_scales(found: PlannedConvolution) -> Plan:
    """``found``, or parts of it where too many results would differ and fewer do of those."""
    conv = found.conv
    if not conv.per_channel or conv.output_view != conv.target.view or conv.sections > 1:
        return found
    parts = _parts(conv)
    return found if len(parts) < 2 else SplitConvolution(found, parts)


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
    """By powers of two, which are TensorFlow Lite's units, else by numbers of channels. None: all
    have one scale.
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
