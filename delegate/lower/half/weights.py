"""fp16 weights in the order the hardware fetches them.

Dense: ``[O/16][I/32][kh][kw][16 o][32 i]``, input channels padded to 8 and a last block of 8, 16 or
32 lanes (24 take 32). Depthwise: ``[C/32][kh][kw][32]``, a last group of 8, 16 or 32 channels. Both
observed in vendor programs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Groups
from delegate.chip.element import Element
from delegate.lower.weights import depthwise_channels, padded_operands

HalfArray = npt.NDArray[np.float16]
FloatArray = npt.NDArray[np.float32]

_BYTES = Element.FP16.bytes


def stored_lanes(channels: int, block: int) -> int:
    """Lanes that ``channels`` input channels, whole surfaces, take in a kernel."""
    whole, rest = divmod(channels, block)
    stored = Element.FP16.lanes if rest else 0
    while stored < rest:
        stored *= 2
    return whole * block + stored


def pack_dense_half(
    weights: HalfArray, kernels: int, groups: Groups, group: int | None = None
) -> bytes:
    """Packs OHWI weights for a dense convolution programmed with ``kernels``, those beyond the
    weights' being 0. ``group``: kernels that lie together.
    """
    group = group or groups.dense_kernels // _BYTES
    block = groups.input_lanes
    outputs, kh, kw, inputs = weights.shape
    lanes = stored_lanes(-(-inputs // Element.FP16.lanes) * Element.FP16.lanes, block)
    padded = np.zeros((kernels, kh, kw, lanes), np.float16)
    padded[:outputs, :, :, :inputs] = weights
    parts = []
    for first in range(0, kernels, group):
        some = padded[first : first + group]
        for lane in range(0, lanes, block):
            parts.append(some[..., lane : lane + block].transpose(1, 2, 0, 3).tobytes())
    return b"".join(parts)


def pack_depthwise_half(weights: HalfArray, groups: Groups) -> bytes:
    """Packs HWC weights for a depthwise convolution; channels beyond the weights' are 0."""
    kh, kw, channels = weights.shape
    lanes = depthwise_channels(channels * _BYTES, groups) // _BYTES
    padded = np.zeros((kh, kw, lanes), np.float16)
    padded[:, :, :channels] = weights
    size = groups.depthwise_channels // _BYTES
    return b"".join(padded[:, :, first : first + size].tobytes() for first in range(0, lanes, size))


def pack_half_bias(bias: FloatArray, channels: int) -> bytes:
    """Dense fp32 for BRDMA DATA_USE = 1, zero up to ``channels``."""
    return padded_operands(bias, channels, "<f4").tobytes()


def pack_slopes(slopes: HalfArray, channels: int) -> bytes:
    """Dense fp16 for NRDMA DATA_USE = 4, zero up to ``channels``."""
    return padded_operands(slopes, channels, "<f2").tobytes()
