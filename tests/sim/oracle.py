"""Computes what a task must compute, in NumPy integers, from tensors and register values alone."""

import numpy as np

from tests.machine.dpu_arithmetic import bn, bs, half_away, half_even, rounded, shift_by_sign
from tests.machine.dpu_arithmetic import saturate as sat32
from tests.sim import stream as s
from tests.sim.programs import Conv, Elementwise, Int8, Int64, Tensors, align

__all__ = ["accumulate", "bs_stage", "conv", "elementwise", "half_away", "half_even", "image",
           "sat32", "signed", "stages"]  # fmt: skip


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def accumulate(t: Conv, data: Tensors) -> tuple[Int64, Int64]:
    """Products and input sums, [real channels, oh, ow]."""
    x = data.x.astype(np.int64)
    bottom = (t.oh - 1) * t.sh + (t.kh - 1) * t.dh + 1
    right = (t.ow - 1) * t.sw + (t.kw - 1) * t.dw + 1
    padded = np.full((t.c_al, max(bottom, t.pad_top + t.h), max(right, t.pad_left + t.w)), t.pad)
    padded[:, t.pad_top : t.pad_top + t.h, t.pad_left : t.pad_left + t.w] = x
    acc = np.zeros((t.real, t.oh, t.ow), np.int64)
    sums = np.zeros_like(acc)
    for ky in range(t.kh):
        for kx in range(t.kw):
            rows = slice(ky * t.dh, ky * t.dh + (t.oh - 1) * t.sh + 1, t.sh)
            columns = slice(kx * t.dw, kx * t.dw + (t.ow - 1) * t.sw + 1, t.sw)
            window = padded[:, rows, columns]
            if t.depthwise:
                acc += window[: t.c] * data.weights[: t.c, ky, kx, None, None].astype(np.int64)
                sums += window[: t.c]
            else:
                w = data.weights[: t.oc, :, ky, kx].astype(np.int64)
                acc += np.einsum("oi,ihw->ohw", w, window)
                sums += window.sum(axis=0)
    return acc, sums


def stages(r: s.Registers, value: Int64, data: Tensors, ew: Int8 | None) -> Int8:
    """BS, BN, EW and OUT_CVT of [C, h, w] values."""
    alu, mul = data.alu, data.mul
    neg = r[s.DATA_FORMAT]
    bs_alu = alu if r[s.BS_CFG] >> 8 & 1 else np.full(alu.shape, signed(r[s.BS_ALU_CFG], 32))
    bs_mul = mul if r[s.BS_MUL_CFG] & 1 else np.full(mul.shape, signed(r[s.BS_MUL_CFG] >> 16, 16))
    relux = signed(r.get(s.BS_RELUX, 0), 32)
    v = bs_stage(value, r[s.BS_CFG], bs_alu, bs_mul, r[s.BS_MUL_CFG], neg >> 4 & 63, relux)
    bn_mul = np.full(mul.shape, signed(r.get(s.BN_MUL_CFG, 0) >> 16, 16))
    if r.get(s.BN_MUL_CFG, 0) & 1:
        bn_mul = data.bn_mul
    bn_alu = np.full(alu.shape, signed(r.get(s.BN_ALU_CFG, 0), 32))
    if r[s.BN_CFG] >> 8 & 1:
        bn_alu = data.bn_alu
    relux = signed(r.get(s.BN_RELUX, 0), 32)
    v = bn_stage(v, r[s.BN_CFG], bn_alu, bn_mul, r.get(s.BN_MUL_CFG, 0), neg >> 10 & 63, relux)
    v = ew_stage(r, v, ew)
    product = v * signed(r[s.OUT_SCALE], 16)
    scaled = rounded(product, r[s.OUT_SHIFT] & 0xFFF, bool(r[s.OUT_SHIFT] >> 30 & 1))
    return np.clip(scaled + signed(r[s.OUT_OFFSET], 32), -128, 127).astype(np.int8)


def bs_stage(
    v: Int64, cfg: int, alu: Int64, mul: Int64, mul_cfg: int, shift_negative: int, relux: int
) -> Int64:
    if cfg & 1:
        return v
    added, factor = operands(cfg, alu, mul)
    shifts = mul_cfg >> 8 & 63, shift_negative
    if cfg & 0x20:  # PReLU: the sum decides whether it is multiplied
        total = bs(v, added, None)
        return relu(np.where(total >= 0, total, bs(total, None, factor, *shifts)), cfg, relux)
    return relu(bs(v, added, factor, *shifts), cfg, relux)


def bn_stage(
    v: Int64, cfg: int, alu: Int64, mul: Int64, mul_cfg: int, shift_negative: int, relux: int
) -> Int64:
    if cfg & 1:
        return v
    scaled = bn(v, *operands(cfg, alu, mul), mul_cfg >> 8 & 63, shift_negative)
    return relu(np.where(v >= 0, v, scaled) if cfg & 0x20 else scaled, cfg, relux)


def operands(cfg: int, alu: Int64, mul: Int64) -> tuple[Int64 | None, Int64 | None]:
    """Summand and multiplier of BS or BN per channel, None where they are bypassed."""
    summand = -alu if cfg >> 16 & 15 == 4 else alu
    return (None if cfg & 2 else summand[:, None, None], None if cfg & 0x10 else mul[:, None, None])


def relu(v: Int64, cfg: int, relux: int) -> Int64:
    if cfg & 0x40:
        return v
    v = np.maximum(v, 0)
    return np.minimum(v, relux) if cfg & 0x80 else v


def ew_stage(r: s.Registers, v: Int64, ew: Int8 | None) -> Int64:
    cfg = r[s.EW_CFG]
    if cfg & 1:
        return v
    if cfg & 0x40:
        assert ew is not None
        e = ew.astype(np.int64)
    else:
        values = np.array(
            [signed(r.get(s.EW_OP_VALUE_0 + 4 * (c % 8), 0), 32) for c in range(len(v))]
        )
        e = np.broadcast_to(values[:, None, None], v.shape)
    scale = r[s.EW_CVT_SCALE]
    if not cfg & 0x100:
        product = (e + signed(r.get(s.EW_CVT_OFFSET, 0), 32)) * signed(scale, 16)
        e = sat32(rounded(product, scale >> 16 & 63, bool(cfg >> 30 & 1)))
    if cfg & 4:
        product = v * e
        scaled = sat32(shift_by_sign(product, scale >> 22, r[s.DATA_FORMAT] >> 16 & 0x3FF))
        v = np.where(v >= 0, v, scaled) if cfg & 0x20 else scaled
    else:
        operation = {0: np.maximum, 1: np.minimum, 2: np.add, 4: np.subtract}[cfg >> 16 & 15]
        v = sat32(operation(v, e))
    if cfg & 0x200:
        return v
    v = np.maximum(v, 0)
    return np.minimum(v, signed(r[s.EW_RELUX], 32)) if cfg & 0x400 else v


def conv(t: Conv, r: s.Registers, data: Tensors) -> Int8:
    """The real channels of the output, [C, oh, ow]."""
    acc, sums = accumulate(t, data)
    finished = sat32(half_away(acc + sums * data.ow[:, None, None], t.truncate))
    ew = data.ew[: t.real] if t.fused else None
    return stages(r, finished, data, ew)


def elementwise(t: Elementwise, r: s.Registers, data: Tensors) -> Int8:
    """The real channels of the output, [C, h, w]."""
    ew = data.ew[: t.c]
    if t.second == "channel":
        ew = np.broadcast_to(ew[:, :1, :1], ew.shape)
    return stages(r, data.x[: t.c].astype(np.int64), data, ew)


def image(channels: Int8, cube: int, pend: int, background: Int8) -> Int8:
    """The output surfaces with whole groups: pad lanes hold ``pend``, gaps the ``background``."""
    c, h, w = channels.shape
    expected = background.reshape(cube // 16, -1, 16).copy()
    expected[:, : h * w] = pend
    for channel in range(c):
        expected[channel // 16, : h * w, channel % 16] = channels[channel].reshape(-1)
    assert align(c, 16) <= cube
    return expected.reshape(-1)
