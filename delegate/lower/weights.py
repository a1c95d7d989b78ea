"""Weights and per-channel operands in the order the hardware fetches them.

Dense int8: ``[O/32][I/32][kh][kw][32 o][32 i]``. Input channels are padded to 16 (a last block of
16 or 32 lanes), output channels to an even number; the last output group keeps its own size.
Padding lanes hold the weight zero point: together with the OW term (-zero_point * sum of the
inputs) they contribute nothing. Depthwise int8: ``[C/64][kh][kw][64]``, last group 16, 32 or 64
channels. Both observed in programs that run on silicon.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Groups
from delegate.chip.limits import CHANNELS_PER_SURFACE, align

Int8Array = npt.NDArray[np.int8]
Int64Array = npt.NDArray[np.int64]

# BRDMA block: 8 channels as 8 int32 | 8 int16 | 8 int16.
OPERAND_BLOCK_CHANNELS = 8


def padded_kernels(output_channels: int, chip: Chip | None = None) -> int:
    """Kernels programmed and stored for ``output_channels``: an even number, or whole groups."""
    whole = chip is not None and chip.forms.whole_kernel_groups
    return align(output_channels, chip.groups.dense_kernels if chip and whole else 2)


def depthwise_channels(channels: int, groups: Groups) -> int:
    """Channels a depthwise task is programmed with: whole surfaces, a power of two of them in the
    last group.

    A last group of 16, 32 or 64 channels is observed; 48 is not, so it is widened to 64.
    """
    rest = channels % groups.depthwise_channels
    stored = 0 if rest == 0 else CHANNELS_PER_SURFACE
    while stored < rest:
        stored *= 2
    return channels - rest + stored


def pack_dense(
    weights: Int8Array, zero_point: int, groups: Groups, group: int | None = None
) -> bytes:
    """Packs OHWI weights (int8, zero point not taken off) for a dense convolution.

    ``group``: kernels that lie together; fewer than the hardware's where a task takes fewer.
    """
    group = group or groups.dense_kernels
    block = groups.input_lanes
    outputs, kh, kw, inputs = weights.shape
    kernels = padded_kernels(outputs)
    lanes = align(inputs, CHANNELS_PER_SURFACE)
    whole_lanes = lanes - lanes % block
    whole_kernels = outputs - outputs % group
    if inputs != lanes:
        padded = np.full((outputs, kh, kw, lanes), zero_point, np.int8)
        padded[..., :inputs] = weights
        weights = padded
    parts = []
    if whole_kernels:
        whole = weights[:whole_kernels].reshape(-1, group, kh, kw, lanes)
        parts.append(_pack_kernel_groups(whole, whole_lanes, block))
    if whole_kernels < kernels:
        rest = np.full((1, kernels - whole_kernels, kh, kw, lanes), zero_point, np.int8)
        rest[0, : outputs - whole_kernels] = weights[whole_kernels:]
        parts.append(_pack_kernel_groups(rest, whole_lanes, block))
    return b"".join(parts)


def _pack_kernel_groups(groups: Int8Array, whole_lanes: int, block: int) -> bytes:
    """[G][o][kh][kw][lanes] -> per G: [I/L][kh][kw][o][L], then the tail block of fewer lanes."""
    count, size, kh, kw, lanes = groups.shape
    head = groups[..., :whole_lanes].reshape(count, size, kh, kw, -1, block)
    head = head.transpose(0, 4, 2, 3, 1, 5)
    if whole_lanes == lanes:
        return bytes(head.tobytes())
    head = head.reshape(count, -1)
    tail = groups[..., whole_lanes:].transpose(0, 2, 3, 1, 4).reshape(count, -1)
    return bytes(np.concatenate([head, tail], axis=1).tobytes())


def pack_depthwise(weights: Int8Array, zero_point: int, groups: Groups) -> bytes:
    """Packs HWC weights (int8, zero point not taken off) for a depthwise convolution."""
    kh, kw, channels = weights.shape
    lanes = depthwise_channels(channels, groups)
    padded = np.full((kh, kw, lanes), zero_point, np.int8)
    padded[:, :, :channels] = weights
    size = groups.depthwise_channels
    parts = [padded[:, :, start : start + size].tobytes() for start in range(0, lanes, size)]
    return b"".join(parts)


def pack_depthwise_pairs(weights: Int8Array, zero_point: int, groups: Groups) -> bytes:
    """As ``pack_depthwise``, of a chip that adds two bytes per weight: the weight, and what the
    zero point takes off. Channel c of a group has bytes 4 * (c // 2) + c % 2 and two behind it
    (observed). ``zero_point`` -128 is 127 in the second byte and 1 in the first: no weight may be
    127 then. Raises ValueError.
    """
    second = min(-zero_point, np.iinfo(np.int8).max)
    first = weights.astype(np.int16) - (zero_point + second)
    if first.size and int(first.max()) > np.iinfo(np.int8).max:
        raise ValueError(f"weights of {int(weights.max())} with the zero point {zero_point}")
    kh, kw, channels = weights.shape
    lanes = depthwise_channels(channels, groups)
    pairs = np.zeros((kh, kw, lanes, 2), np.int8)
    pairs[:, :, :channels, 0] = first
    pairs[:, :, :channels, 1] = second
    # [lanes / 2][2 channels][2 bytes] to [lanes / 2][2 bytes][2 channels].
    ordered = pairs.reshape(kh, kw, lanes // 2, 2, 2).swapaxes(-1, -2).reshape(kh, kw, 2 * lanes)
    size = 2 * groups.depthwise_channels
    return b"".join(ordered[:, :, i : i + size].tobytes() for i in range(0, 2 * lanes, size))


def pack_bias(bias: Int64Array, channels: int) -> bytes:
    """Dense int32 for BRDMA DATA_USE = 1, zero up to ``channels``."""
    return padded_operands(bias, channels, "<i4").tobytes()


def padded_operands(values: npt.NDArray[Any], channels: int, element: str) -> npt.NDArray[Any]:
    """One for each channel, zero up to ``channels``."""
    padded = np.zeros(channels, element)
    padded[: len(values)] = values
    return padded


def pack_operand_blocks(
    bias: Int64Array,
    multipliers: Int64Array,
    channels: int,
    *,
    ow: int | None = 0,
    unused_multiplier: int = 0,
) -> bytes:
    """Blocks of 8 channels (8 int32 bias | 8 int16 OW | 8 int16 multiplier) for BRDMA
    DATA_USE = 7, or without OW operands for DATA_USE = 5. ``unused_multiplier``: of channels
    beyond ``bias``.
    """
    parts = [("bias", "<i4", OPERAND_BLOCK_CHANNELS), ("multiplier", "<i2", OPERAND_BLOCK_CHANNELS)]
    if ow is not None:
        parts.insert(1, ("ow", "<i2", OPERAND_BLOCK_CHANNELS))
    blocks = np.zeros(channels // OPERAND_BLOCK_CHANNELS, np.dtype(parts))
    if ow:
        blocks["ow"] = ow
    blocks["bias"] = padded_operands(bias, channels, "<i4").reshape(-1, OPERAND_BLOCK_CHANNELS)
    padded = padded_operands(multipliers, channels, "<i2")
    padded[len(multipliers) :] = unused_multiplier
    blocks["multiplier"] = padded.reshape(-1, OPERAND_BLOCK_CHANNELS)
    return bytes(blocks.tobytes())


SCALAR_BYTES = 16


def pack_shifts(shift: int, shift_negative: int) -> bytes:
    """The record of BS's shifts of a chip that reads them from memory: a word with the shift of
    values from 0 on in bits 5:0 and that of others in 13:8.
    """
    return bytes([shift, shift_negative]).ljust(SCALAR_BYTES, b"\0")


def pack_scalars(summand: int, multiplier: int | None, shift: int = 0) -> bytes:
    """The record of a stage's numbers for all channels, likewise: a summand, of which every half of
    32 bytes begins with a copy; and, unless ``multiplier`` is None, that and the word of shifts.
    """
    record = summand.to_bytes(4, "little", signed=True).ljust(SCALAR_BYTES, b"\0") * 2
    if multiplier is None:
        return record
    factor = multiplier.to_bytes(2, "little", signed=True).ljust(SCALAR_BYTES, b"\0")
    return record + factor + pack_shifts(shift, shift)


def pack_bn_multipliers(multipliers: Int64Array, channels: int) -> bytes:
    """Dense int16 for NRDMA DATA_USE = 4, zero up to ``channels``; BN takes them without a sign."""
    if multipliers.min() < 0:
        raise ValueError("BN has no multipliers below 0")
    return padded_operands(multipliers, channels, "<i2").tobytes()


def pack_ew_multipliers(multipliers: Int64Array, channels: int) -> tuple[bytes, int]:
    """Dense integers for ERDMA per channel, zero up to ``channels``, and the bytes of each: 1 where
    they fit int8, else 2.
    """
    size = 1 if int(multipliers.max()) <= np.iinfo(np.int8).max else 2
    return padded_operands(multipliers, channels, f"<i{size}").tobytes(), size
