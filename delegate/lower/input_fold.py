"""Folding of a partition's input: windows of pixels become channels while the host converts it.

The MAC array takes 32 channels in a step, so a first layer of 1 to 4 channels wastes most of it. A
3 x 3 kernel of stride 2 on 3 channels becomes 2 x 2 of stride 1 on 12 (space to depth): 4 steps
instead of 9, and a quarter of the pixels in CBUF. Along an axis of stride s the window is j * s
pixels wide (j = 1: space to depth; up to the whole kernel) and starts at the leading padding, so
that padding becomes fill and the folded convolution has none. Results are exactly the same: lanes
without a weight have the weights' zero point, as padding lanes always have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.limits import CHANNELS_PER_SURFACE, align
from delegate.lower.lowered import Fold
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.resolved import Convolution
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.tiling.tiles import TilingError, plan_tiles
from delegate.lower.weights import padded_kernels

# Lanes of a folded pixel that the native conversion has room for.
MAX_FOLDED_LANES = 64


@dataclass(frozen=True, slots=True)
class FoldedAxis:
    """``window`` input pixels every ``step``, the first one ``lead`` before the image; ``axis`` is
    what the convolution becomes. Window 1: the axis is as it was.
    """

    window: int
    step: int
    lead: int
    axis: Axis


def choose_fold(
    chip: Chip, source: View, rows: Axis, columns: Axis, outputs: int
) -> tuple[View, Fold] | None:
    """The folded view of ``source`` for a dense convolution with ``outputs`` kernels over ``rows``
    and ``columns``, or None where that saves nothing.
    """
    channels = source.channels
    best: tuple[int, FoldedAxis, FoldedAxis] | None = None
    for row in _folded(chip, rows):
        for column in _folded(chip, columns):
            lanes = row.window * column.window * channels
            if lanes > MAX_FOLDED_LANES and max(row.window, column.window) > 1:
                continue
            if chip.forms.equal_sides and not _has_equal_sides(row.axis, column.axis):
                continue
            cost = _cost(chip, row.axis, column.axis, lanes, outputs, source.images)
            if cost is not None and (best is None or cost < best[0]):
                best = cost, row, column
    if best is None or best[1].window == best[2].window == 1:
        return None
    _, row, column = best
    fold = Fold(
        height=source.height,
        width=source.width,
        channels=channels,
        window_h=row.window,
        window_w=column.window,
        step_h=row.step,
        step_w=column.step,
        top=row.lead,
        left=column.lead,
    )
    return View(source.images, row.axis.input_size, column.axis.input_size, fold.lanes), fold


def _folded(chip: Chip, axis: Axis) -> Iterator[FoldedAxis]:
    yield FoldedAxis(1, 1, 0, axis)
    taps = 0
    spread = 0
    while taps != 1:
        spread += 1
        taps = -(-axis.reach // (spread * axis.stride))
        window = min(spread * axis.stride, axis.reach)
        size = axis.output_size + (taps - 1) * spread
        if window > 1 and size <= chip.limits.feature_size:
            yield FoldedAxis(
                window,
                axis.stride,
                axis.pad,
                Axis(size, axis.output_size, taps, dilation=spread if taps > 1 else 1),
            )


def _has_equal_sides(rows: Axis, columns: Axis) -> bool:
    sides = [(axis.kernel, axis.stride, axis.dilation) for axis in (rows, columns)]
    return sides[0] == sides[1]


def _cost(
    chip: Chip, rows: Axis, columns: Axis, channels: int, outputs: int, images: int
) -> int | None:
    """Estimated cycles of the layer and of the host's conversion; None if it cannot be planned."""
    lanes = align(channels, CHANNELS_PER_SURFACE)
    geometry = ConvGeometry(
        rows,
        columns,
        lanes,
        padded_kernels(outputs),
        outputs,
        real_channels=channels,
        images=images,
        chip=chip,
    )
    try:
        plan = plan_tiles(geometry)
    except TilingError:
        return None
    converted = images * rows.input_size * columns.input_size * lanes
    return plan.cost_cycles + converted // chip.rates.host_bytes_per_cycle


def host_tensor(source: DeviceTensor) -> DeviceTensor:
    """``source`` as the model sees it; only its view, scale and zero point are of use."""
    assert source.fold is not None
    fold = source.fold
    view = View(source.view.images, fold.height, fold.width, fold.channels)
    return replace(source, view=view, fold=None)


def fold_convolution(conv: Convolution, source: DeviceTensor) -> Convolution:
    """``conv``, resolved for the tensor as the model sees it, on the folded ``source``."""
    fold = source.fold
    assert fold is not None
    outputs, kh, kw, channels = conv.weights.shape
    windows = fold.window_h, fold.window_w
    rows, columns = map(_taps, (kh, kw), conv.strides, conv.dilations, windows)
    shape = (outputs, rows.count, columns.count, fold.window_h, fold.window_w, channels)
    weights = np.full(shape, conv.weight_zero_point, np.int8)
    for ky in range(kh):
        tap_y, dy = divmod(ky * conv.dilations[0], rows.pitch)
        for kx in range(kw):
            tap_x, dx = divmod(kx * conv.dilations[1], columns.pitch)
            weights[:, tap_y, tap_x, dy, dx] = conv.weights[:, ky, kx]
    folds_rows, folds_columns = (window > 1 for window in windows)
    return replace(
        conv,
        weights=weights.reshape(outputs, rows.count, columns.count, fold.lanes),
        source=source,
        input_view=source.view,
        strides=(1 if folds_rows else conv.strides[0], 1 if folds_columns else conv.strides[1]),
        dilations=(rows.dilation, columns.dilation),
        padding=(0 if folds_rows else conv.padding[0], 0 if folds_columns else conv.padding[1]),
    )


@dataclass(frozen=True, slots=True)
class _Taps:
    """``count`` taps left along an axis, ``pitch`` original pixels apart."""

    count: int
    pitch: int
    dilation: int


def _taps(kernel: int, stride: int, dilation: int, window: int) -> _Taps:
    if window == 1:
        return _Taps(kernel, dilation, dilation)
    reach = (kernel - 1) * dilation + 1
    if window == reach:
        return _Taps(1, reach, 1)
    return _Taps(-(-reach // window), window, window // stride)
