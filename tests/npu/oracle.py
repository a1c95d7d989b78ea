"""The arithmetic of the stages in NumPy, and operands in the layouts that the hardware reads.

Written from the description of the data paths, without looking at encoder, lowering or simulator.
"""

from __future__ import annotations

import numpy as np

from tests.machine.dpu_arithmetic import bn, bs, rounded


def align(value, multiple):
    return -(-value // multiple) * multiple


def bs_stage(values, alu=0, mul=None, shift=0, shift_negative=0):
    return bs(np.asarray(values, np.int64), alu, mul, shift, shift_negative)


def bn_stage(values, alu=None, mul=None, shift=0, shift_negative=0, relu=False, relux_max=None):
    values = bn(np.asarray(values, np.int64), alu, mul, shift, shift_negative)
    if relu:
        values = np.maximum(values, 0)
    return values if relux_max is None else np.minimum(values, relux_max)


def out_convert(values, out):
    values = rounded(np.asarray(values, np.int64) * out.scale, out.shift, out.ties_away)
    return np.clip(values + out.offset, -128, 127).astype(np.int8)


def windows(x, kh, kw, oh, ow, stride, dilation, pad_top, pad_left, pad):
    """x [h, w, c] to [oh, ow, kh, kw, c], pixels outside x reading ``pad``."""
    h, w, c = x.shape
    rows = (oh - 1) * stride + (kh - 1) * dilation + 1
    columns = (ow - 1) * stride + (kw - 1) * dilation + 1
    field = np.full((max(rows, pad_top + h), max(columns, pad_left + w), c), pad, dtype=np.int64)
    field[pad_top : pad_top + h, pad_left : pad_left + w] = x
    result = np.empty((oh, ow, kh, kw, c), dtype=np.int64)
    for y in range(oh):
        for z in range(ow):
            patch = field[
                y * stride : y * stride + (kh - 1) * dilation + 1 : dilation,
                z * stride : z * stride + (kw - 1) * dilation + 1 : dilation,
            ]
            result[y, z] = patch
    return result


def dense(patches, weights):
    """Weights [o, kh, kw, c]: sums of products [oh, ow, o] and of inputs [oh, ow, 1]."""
    return np.einsum("yzabc,oabc->yzo", patches, weights.astype(np.int64)), patches.sum(
        axis=(2, 3, 4)
    )[..., None]


def depthwise(patches, weights):
    """Weights [kh, kw, c]: sums of products and of inputs, both [oh, ow, c]."""
    return np.einsum("yzabc,abc->yzc", patches, weights.astype(np.int64)), patches.sum(axis=(2, 3))


def pack_dense(weights):
    """[o, kh, kw, c] int8 to [o / 32][c / 32][kh][kw][32 o][32 c], c padded to 16 and o to even."""
    o, kh, kw, c = weights.shape
    padded = np.zeros((align(o, 2), kh, kw, align(c, 16)), dtype=np.int8)
    padded[:o, :, :, :c] = weights
    parts = []
    for first in range(0, padded.shape[0], 32):
        for lane in range(0, padded.shape[3], 32):
            block = padded[first : first + 32, :, :, lane : lane + 32]
            parts.append(block.transpose(1, 2, 0, 3).tobytes())
    return b"".join(parts)


def pack_depthwise(weights):
    """[kh, kw, c] int8 to [c / 64][kh][kw][64 c], c padded to 16."""
    kh, kw, c = weights.shape
    padded = np.zeros((kh, kw, align(c, 16)), dtype=np.int8)
    padded[..., :c] = weights
    parts = [padded[..., first : first + 64].tobytes() for first in range(0, padded.shape[2], 64)]
    return b"".join(parts)


def pack_bias(bias, channels):
    """Dense int32 for ``channels`` programmed channels."""
    padded = np.zeros(channels, dtype="<i4")
    padded[: len(bias)] = bias
    return padded.tobytes()


def pack_blocks(bias, ow, mul, channels):
    """Blocks of 8 channels: 8 int32 | 8 int16 | 8 int16."""
    parts = []
    rows = []
    for values, dtype in ((bias, "<i4"), (ow, "<i2"), (mul, "<i2")):
        padded = np.zeros(channels, dtype=dtype)
        padded[: len(values)] = values
        rows.append(padded)
    for first in range(0, channels, 8):
        parts += [row[first : first + 8].tobytes() for row in rows]
    return b"".join(parts)
