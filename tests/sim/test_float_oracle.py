"""fp16 convolutions and element-wise tasks, and integer results of 32 bits, against NumPy."""

from fractions import Fraction

import numpy as np
import pytest

from tests.loops import for_each
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.test_lut import SIGMOID_RANGE
from tests.sim.wide_programs import (
    HALF_FORMAT,
    half_alone,
    half_dense_weights,
    half_depthwise_weights,
    half_operand,
    half_surfaces,
    lut_registers,
)

RAW32 = 4 << 29


def from_atoms(image: np.ndarray, dtype: type, c: int, h: int, w: int) -> np.ndarray:
    lanes = 16 // np.dtype(dtype).itemsize
    cube = image.view(dtype)[: p.align(c, lanes) * h * w].reshape(-1, h * w, lanes)
    return cube.transpose(0, 2, 1).reshape(-1, h, w)[:c]


def half_conv(t: p.Conv, memory: s.Memory, rng: np.random.Generator, spread: int):
    """Registers of an fp16 task, and its tensors. ``spread``: powers of two between magnitudes."""
    c_al = p.align(t.c, 8)

    def numbers(*shape: int) -> np.ndarray:
        scale = np.exp2(rng.integers(-spread, 1, shape))
        return (rng.normal(size=shape) * scale).astype(np.float16)

    x = numbers(c_al, t.h, t.w)
    w = numbers(c_al, t.kh, t.kw) if t.depthwise else numbers(t.oc, c_al, t.kh, t.kw)
    bias = rng.normal(size=t.real).astype(np.float32)
    native = half_depthwise_weights(w) if t.depthwise else half_dense_weights(w)
    group = 32 if t.depthwise else 16
    cube = p.align(c_al if t.depthwise else t.oc, group)
    size_e = 3 if t.depthwise else 1
    mode = 3 if t.depthwise else 0
    entries = -(-t.w * c_al * 2 // 64)
    data_banks = min(11, max(1, -(-t.h * entries // 512)))
    pixels, out_pixels = t.h * t.w, t.oh * t.ow
    dims = (t.oh - 1) << 16 | (t.ow - 1)
    r = p.conv_registers(t, memory, p.random_tensors(rng, t), tag="_unused") | {
        s.CBUF_CON0: (12 - data_banks) << 4 | data_banks,
        s.CONV_CON1: 0x120 | mode,
        s.DATA_SIZE1: (t.c - 1 & 63) << 16 | c_al,
        s.WEIGHT_SIZE0: native.size * 2,
        s.WEIGHT_SIZE1: native.size * 2 // (1 if t.depthwise else t.oc),
        s.WEIGHT_SIZE2: t.kw << 24 | t.kh << 16 | (1 if t.depthwise else t.oc),
        s.CBUF_CON1: entries,
        s.FEATURE_DATA_ADDR: memory.add("input", half_surfaces(x, pixels)),
        s.FC_DATA_SIZE1: c_al,
        s.DCOMP_ADDR0: memory.add("weights", native),
        s.PAD_CON1: 0,
        s.CORE_MISC_CFG: 0x200 | (2 if t.depthwise else 0),
        s.DATAOUT_SIZE_1: cube - 1,
        s.DATA_FORMAT: HALF_FORMAT,
        s.DST_BASE_ADDR: memory.add("output", cube * out_pixels * 2),
        s.CUBE_CHANNEL: (t.real - 1) << 16 | cube - 1,
        s.BS_CFG: 0x20150,
        s.BS_OW_CFG: size_e << 8 | size_e << 5 | size_e << 2 | 2,
        s.WDMA_SIZE_0: cube - 1,
        s.WDMA_SIZE_1: dims,
        s.OUT_OFFSET: 0,
        s.OUT_SCALE: 0x10001,
        s.OUT_SHIFT: 0,
        s.SURFACE_ADD: out_pixels * 16 * (size_e + 1),
        s.RDMA_CHANNEL: cube - 1,
        s.BRDMA_CFG: 2,
        s.BS_BASE: memory.add("bias", bias),
        s.RDMA_FEATURE_MODE: 0x17850 | mode << 1,
    }
    return r | t.registers, x, w, bias


def exact_group(values: np.ndarray, weights: np.ndarray) -> np.float32:
    """The products' sum as a fraction, rounded once to fp32 (through an exact comparison)."""
    pairs = zip(values.tolist(), weights.tolist(), strict=True)
    total = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
    near = np.float32(float(total))  # double first: at most one unit away
    candidates = [
        np.nextafter(near, np.float32(-np.inf)),
        near,
        np.nextafter(near, np.float32(np.inf)),
    ]
    best = min(abs(Fraction(float(c)) - total) for c in candidates)
    nearest = [c for c in candidates if abs(Fraction(float(c)) - total) == best]
    return next((c for c in nearest if c.view(np.uint32) % 2 == 0), nearest[0])


def half_oracle(t: p.Conv, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    out = np.zeros((t.real, t.oh, t.ow), np.float32)
    padded = np.zeros((x.shape[0], 40, 40), np.float16)
    padded[:, t.pad_top : t.pad_top + t.h, t.pad_left : t.pad_left + t.w] = x
    for channel, y, column in np.ndindex(out.shape):
        acc = np.float32(0)
        channels = [slice(channel, channel + 1)] if t.depthwise else [
            slice(i, i + 32) for i in range(0, x.shape[0], 32)
        ]  # fmt: skip
        for part in channels:
            for ky in range(t.kh):
                for kx in range(t.kw):
                    pixel = padded[part, y * t.sh + ky * t.dh, column * t.sw + kx * t.dw]
                    kernel = (
                        w[channel : channel + 1, ky, kx]
                        if t.depthwise
                        else w[channel, part, ky, kx]
                    )
                    acc = np.float32(acc + exact_group(pixel, kernel))
        out[channel, y, column] = np.float32(acc + bias[channel])
    return out


CASES = {
    "dense": p.Conv(c=40, oc=21, h=5, w=4, kh=2, kw=3, pad_top=1, pad_left=1, oh=3, ow=4),
    "dense, stride and dilation": p.Conv(c=24, oc=17, h=7, w=6, kh=2, kw=2, sh=2, dw=2, oh=3, ow=4),
    "matrix product": p.Conv(c=70, oc=33, h=1, w=3, kh=1, kw=1, pad_top=0, pad_left=0, oh=1, ow=3),
    "dense, a rest of 24 channels": p.Conv(c=56, oc=5, h=3, w=4, kh=2, kw=1, pad_top=0, pad_left=0,
                                         oh=2, ow=4),
    "depthwise, a rest of 24 channels": p.Conv(c=50, depthwise=True, h=4, w=3, kh=3, kw=2, oh=4,
                                             ow=3),
    "depthwise": p.Conv(c=37, depthwise=True, h=6, w=5, kh=3, kw=2, oh=6, ow=5),
}  # fmt: skip


@for_each("spread", [2, 12])
@pytest.mark.parametrize("name", CASES)
def test_convolution(name, spread):
    t = CASES[name]
    memory = s.Memory()
    r, x, w, bias = half_conv(t, memory, np.random.default_rng(spread), spread)
    s.run_one(memory, r)
    found = from_atoms(memory.bytes("output"), np.float16, t.real, t.oh, t.ow)
    expected = half_oracle(t, x, w, bias).astype(np.float16)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


def test_fp32_output_and_relu():
    t = CASES["dense"]
    memory = s.Memory()
    r, x, w, bias = half_conv(t, memory, np.random.default_rng(1), 3)
    r |= {s.DATA_FORMAT: 5 << 29 | 2 << 26 | 2, s.BS_OW_CFG: 0x36E, s.OUT_SCALE: 1, s.BN_CFG: 0x12,
          s.DST_BASE_ADDR: memory.add("wide", p.align(t.oc, 16) * 12 * 4),
          s.SURFACE_ADD: 4 * 12 * 16}  # fmt: skip
    s.run_one(memory, r)
    found = from_atoms(memory.bytes("wide"), np.float32, t.oc, t.oh, t.ow)
    np.testing.assert_array_equal(found, np.maximum(half_oracle(t, x, w, bias), 0))


OPERATIONS = {
    0x108202C0: np.add,
    0x108003C4: np.multiply,
    0x108002C0: np.maximum,
    0x108102C0: np.minimum,
}


@pytest.mark.parametrize("cfg", OPERATIONS)
def test_elementwise(cfg):
    c, h, w = 21, 5, 7
    rng = np.random.default_rng(cfg)
    a, b = (rng.normal(size=(24, h, w)).astype(np.float16) for _ in range(2))
    memory = s.Memory()
    r = half_alone(memory, a, c) | half_operand(memory, b) | {s.EW_CFG: cfg}
    s.run_one(memory, r, s.FLYING)
    found = from_atoms(memory.bytes("output"), np.float16, c, h, w)
    expected = OPERATIONS[cfg](a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(found, expected[:c])


def test_bn_multiplies_then_adds():
    """x * 3276 + 16380, as the vendor's exp spreads one side over both tables; out as fp32."""
    c, h, w = 16, 4, 7
    rng = np.random.default_rng(1)
    a = rng.normal(size=(c, h, w)).astype(np.float16)
    memory = s.Memory()
    r = half_alone(memory, a) | {
        s.DATA_FORMAT: 5 << 29 | 2 << 26 | 2,
        s.DST_BASE_ADDR: memory.add("wide", 4 * h * w * 16),
        s.BN_CFG: 0x20040,
        s.BN_ALU_CFG: int(np.float32(16380).view(np.uint32)),
        s.BN_MUL_CFG: int(np.float16(3276).view(np.uint16)) << 16,
        s.OUT_SCALE: 1,
    }
    s.run_one(memory, r, s.FLYING)
    found = from_atoms(memory.bytes("wide"), np.float32, c, h, w)
    expected = a.astype(np.float32) * np.float32(3276) + np.float32(16380)
    np.testing.assert_array_equal(found, expected)


def test_raw_sums_of_an_int8_convolution():
    """int32 out: eight surfaces of four channels per group, nothing rounded."""
    t = p.Conv(c=40, oc=37, h=6, w=5, oh=6, ow=5, pad=-7)
    data = p.random_tensors(np.random.default_rng(3), t)
    memory = s.Memory()
    r = p.conv_registers(t, memory, data) | {
        s.CORE_MISC_CFG: 0,
        s.DATA_FORMAT: RAW32,
        s.BS_OW_CFG: 0x7FE,
        s.OUT_OFFSET: 0,
        s.OUT_SCALE: 1,
        s.OUT_SHIFT: 0,
        s.DST_BASE_ADDR: memory.add("raw", 64 * 30 * 4),
        s.SURFACE_ADD: 8 * 30 * 16,
    }
    s.run_one(memory, r)
    acc, _ = oracle.accumulate(t, data)
    found = from_atoms(memory.bytes("raw"), np.int32, t.oc, t.oh, t.ow)
    np.testing.assert_array_equal(found, acc + data.alu[:, None, None])


@for_each("bits", [16, 32])
def test_wide_integers_element_by_element(bits):
    """Two operands of 16 or 32 bits added and saturated."""
    c, h, w = 9, 4, 5
    dtype = np.dtype(f"int{bits}").type
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(bits)
    lanes = 128 // bits
    cube = p.align(c, lanes)
    a, b = (rng.integers(limits.min, limits.max, (cube, h, w)).astype(dtype) for _ in range(2))

    def surfaces(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.reshape(-1, lanes, h * w).transpose(0, 2, 1))

    code = 1 if bits == 16 else 4
    memory = s.Memory()
    t = p.Elementwise(c=c, h=h, w=w)
    r = p.elementwise_registers(t, memory, p.random_elementwise(rng, t), "_unused") | {
        s.DATA_FORMAT: code << 29 | code << 26 | code,
        s.RDMA_SRC_BASE: memory.add("a", surfaces(a)),
        s.EW_BASE: memory.add("b", surfaces(b)),
        s.DST_BASE_ADDR: memory.add("output", cube * h * w * bits // 8),
        s.CUBE_CHANNEL: (c - 1) << 16 | cube - 1,
        s.WDMA_SIZE_0: cube - 1,
        s.RDMA_CHANNEL: cube - 1,
        s.BS_CFG: 0x53,
        s.EW_CFG: 0x100203C0 | (bits // 16 + 1) << 22,
        s.OUT_OFFSET: 0,
        s.OUT_SCALE: 1,
        s.OUT_SHIFT: 0,
        s.RDMA_FEATURE_MODE: 0x7801 | code << 15 | code << 5,
        s.ERDMA_CFG: 0x40000000 | (bits // 16 + 1) << 2,
        s.EW_SURF_STRIDE: h * w * 16,
    }
    s.run_one(memory, r, s.FLYING)
    found = from_atoms(memory.bytes("output"), dtype, c, h, w)
    expected = np.clip(a.astype(np.int64) + b, limits.min, limits.max)
    np.testing.assert_array_equal(found, expected[:c])


def test_fp16_from_integers():
    """int8 through the integer stages, out as fp16 over 2^MINUS_EXP."""
    c, h, w = 16, 3, 5
    t = p.Elementwise(c=c, h=h, w=w)
    rng = np.random.default_rng(0)
    data = p.random_elementwise(rng, t)
    memory = s.Memory()
    r = p.elementwise_registers(t, memory, data) | {
        s.DATA_FORMAT: 0x40000000 | 13 << 4,
        s.DST_BASE_ADDR: memory.add("half", c * h * w * 2),
        s.OUT_SHIFT: 7 << 12 | 14,
    }
    s.run_one(memory, r, s.FLYING)
    v = oracle.half_even((data.x.astype(np.int64) + 13) * 0x5432, 13)
    scaled = oracle.half_even(v * 0x4ABC, 14) - 10
    found = from_atoms(memory.bytes("half"), np.float16, c, h, w)
    np.testing.assert_array_equal(found, (scaled / 128).astype(np.float16))


def half_sigmoid(memory: s.Memory, x: np.ndarray, channels: int) -> tuple[s.Registers, np.float16]:
    """A task from ``x`` [lanes, rows, columns] to "output" by the sigmoid's tables, of which the
    first ``channels`` lanes count, and the factor that makes indices of values.
    """
    factor = np.float16(16384 / SIGMOID_RANGE)
    registers = half_alone(memory, x, channels) | lut_registers() | {
        s.BN_CFG: 0x42,
        s.BN_MUL_CFG: int(factor.view(np.uint16)) << 16,
        s.OUT_SHIFT: 0xF000,
        s.RDMA_FEATURE_MODE: 0x17849,
    }  # fmt: skip
    return registers, factor
