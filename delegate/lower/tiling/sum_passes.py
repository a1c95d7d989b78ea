"""The convolutions that a layer with split input channels consists of: their kernels and order.

Sums are plain: int32 output excludes the OW term (sum of the inputs), so the weights of all passes
but the last have their zero point taken off. What does not fit int8 then takes more passes over
the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, align
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, INT32_MAX, Int64Array
from delegate.lower.operation import ConstantPool
from delegate.lower.rules import ACCUMULATOR_FITS_INT32
from delegate.lower.task import Weights
from delegate.lower.tiling.choices import SUM_BYTES
from delegate.lower.tiling.geometry import ceil_div
from delegate.lower.weights import OPERAND_BLOCK_CHANNELS, pack_dense

# BRDMA blocks: summands in the first half, OW and multipliers in the second.
BLOCK_BYTES = 64
HALF_BLOCK_BYTES = BLOCK_BYTES // 2
# Channels of an int32 surface.
SUM_LANES = ATOM_BYTES // SUM_BYTES

Int8Array = npt.NDArray[np.int8]


def sorted_channels(chip: Chip) -> int:
    """Channels whose operand blocks two groups of kernels fill, each one half of every block."""
    return 2 * chip.groups.dense_kernels


def blocks_per_copy(chip: Chip) -> int:
    """Operand blocks that one copy brings: each is a surface."""
    return chip.limits.cube_size // CHANNELS_PER_SURFACE


def sum_work(conv: Convolution) -> tuple[int, int, int, int]:
    """Return the work that the layer's numbers add to what its geometry tells, as
    ``plan_input_groups`` takes it.
    """
    low, high = int(conv.weights.min()), int(conv.weights.max())
    low, high = low - conv.weight_zero_point, high - conv.weight_zero_point
    passes = max(ceil_div(low, INT8_MIN), ceil_div(high, INT8_MAX), 1)
    outputs = conv.output_view.channels
    if not conv.per_channel:
        return align(outputs, conv.chip.groups.kernel_unit), passes, 1, 0
    kernels = align(outputs, sorted_channels(conv.chip))
    copies = ceil_div(kernels // OPERAND_BLOCK_CHANNELS, blocks_per_copy(conv.chip))
    return kernels, passes, 2, copies


Pass = tuple[range, Weights]
"""One convolution of a group of input channels, for all pixels."""


def some_kernels(weights: Weights, first: int, count: int) -> Weights:
    """Return some of the kernels, whole groups of them."""
    return replace(
        weights,
        source=weights.source.moved(first * weights.bytes_per_kernel),
        total_bytes=count * weights.bytes_per_kernel,
        kernels=count,
    )


def kernel_order(conv: Convolution) -> npt.NDArray[np.int64]:
    """Return the output channel of every kernel of the sums; beyond the last channel: a kernel of
    zeros.

    Per channel: first those of the first halves of all blocks, then those of the second halves.
    """
    outputs = conv.output_view.channels
    if not conv.per_channel:
        return np.arange(align(outputs, conv.chip.groups.kernel_unit))
    channels = np.arange(align(outputs, sorted_channels(conv.chip)))
    return channels.reshape(-1, 2, SUM_LANES).transpose(1, 0, 2).reshape(-1)


def sum_passes(
    conv: Convolution,
    groups: Sequence[range],
    order: npt.NDArray[np.int64],
    constants: ConstantPool,
) -> tuple[list[Pass], Int64Array]:
    """Return the passes before the last, and how far the sums of each channel can get from 0."""
    passes = []
    reach = np.zeros(conv.output_view.channels, np.int64)
    for group in groups[:-1]:
        lanes = conv.weights[..., group.start : group.stop]
        terms = lanes.astype(np.int16) - np.int16(conv.weight_zero_point)
        for number, part in enumerate(_int8_parts(terms)):
            used = group
            if number:  # whole surfaces of what the first pass leaves
                rest = np.flatnonzero(part.any(axis=(0, 1, 2))) // CHANNELS_PER_SURFACE
                first, last = int(rest[0]), int(rest[-1])
                used = group[first * CHANNELS_PER_SURFACE : (last + 1) * CHANNELS_PER_SURFACE]
            lanes = part[..., used.start - group.start : used.stop - group.start]
            passes.append((used, pack_group(lanes, used, order, constants, conv.chip)))
        reach += np.abs(terms).sum(axis=(1, 2, 3), dtype=np.int64) * -INT8_MIN
    return passes, reach


def _int8_parts(terms: npt.NDArray[np.int16]) -> Iterator[Int8Array]:
    """int8 kernels whose sum is ``terms``: one, or two or three of those with 9 bits."""
    while True:
        part = np.clip(terms, INT8_MIN, INT8_MAX)
        yield part.astype(np.int8)
        terms = terms - part
        if not terms.any():
            return


def pack_group(
    weights: Int8Array,
    group: range,
    order: npt.NDArray[np.int64],
    constants: ConstantPool,
    chip: Chip,
    zero_point: int = 0,
) -> Weights:
    """Kernels of ``group`` in ``order``; ``weights`` has its input channels only."""
    outputs, kh, kw, _ = weights.shape
    if len(order) > outputs or not np.array_equal(order[:outputs], np.arange(outputs)):
        known = np.where((order < outputs)[:, None, None, None], 1, 0).astype(np.int8)
        weights = weights[np.minimum(order, outputs - 1)] * known
    packed = pack_dense(weights, zero_point, chip.groups)
    kernels = align(len(weights), chip.groups.kernel_unit)
    per_kernel = kh * kw * len(group)
    assert len(packed) == kernels * per_kernel
    return Weights(constants.add(packed), len(packed), per_kernel, kernels, kh, kw)


def check_range(conv: Convolution, bias: Int64Array, reach: Int64Array) -> None:
    """Check that no sum in memory leaves int32, whatever the input: BS would saturate it. Raises
    LoweringError.
    """
    worst = np.abs(bias) + reach
    if int(worst.max()) > INT32_MAX:
        channel = int(np.argmax(worst))
        raise LoweringError(
            conv.node,
            ACCUMULATOR_FITS_INT32,
            f"output channel {channel}: the sum over a part of the input channels can reach "
            f"{int(worst[channel])}, beyond int32",
        )
