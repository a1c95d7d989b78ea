"""Programs for tests: convolutions and element-wise tasks from a description and random tensors.

Everything follows the layouts of the hardware description: NC1HWC2 features, native weight order,
BRDMA blocks; the oracle computes the same from the plain tensors.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.sim import stream as s

Int8 = npt.NDArray[np.int8]
Int64 = npt.NDArray[np.int64]


def align(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def to_surfaces(nchw: Int8, pixels: int, fill: int = 0) -> Int8:
    """[C, H, W] to NC1HWC2 with ``pixels`` per surface."""
    c, h, w = nchw.shape
    image = np.full((align(c, 16) // 16, pixels, 16), fill, np.int8)
    for channel in range(c):
        image[channel // 16, : h * w, channel % 16] = nchw[channel].reshape(-1)
    return image


def from_surfaces(image: npt.NDArray[np.uint8], c: int, h: int, w: int, pixels: int) -> Int8:
    surfaces = image.view(np.int8)[: align(c, 16) * pixels].reshape(-1, pixels, 16)
    return np.stack([surfaces[i // 16, : h * w, i % 16].reshape(h, w) for i in range(c)])


def dense_weights(weights: Int8) -> Int8:
    """[O, I, kh, kw] (I a multiple of 16) to [O/32][I/32][kh][kw][32][32] with compact rests."""
    parts = []
    for o in range(0, weights.shape[0], 32):
        for i in range(0, weights.shape[1], 32):
            block = weights[o : o + 32, i : i + 32]
            parts.append(block.transpose(2, 3, 0, 1).reshape(-1))
    return np.concatenate(parts)


def stored_lanes(rest: int, sizes: tuple[int, ...]) -> int:
    """The smallest of the sizes that weights of a rest of channels are stored in."""
    return next(size for size in (0, *sizes) if size >= rest)


def padded(weights: npt.NDArray[Any], axis: int, lanes: int) -> npt.NDArray[Any]:
    """``weights`` with lanes of 99 behind the last channel, which nothing may take part of."""
    widths = [(0, 0)] * weights.ndim
    widths[axis] = (0, lanes - weights.shape[axis])
    return np.pad(weights, widths, constant_values=99)


def depthwise_weights(weights: Int8) -> Int8:
    """[C, kh, kw] (C a multiple of 16) to [C/64][kh][kw][64], a rest in 16, 32 or 64 lanes."""
    parts = []
    for c in range(0, weights.shape[0], 64):
        group = weights[c : c + 64]
        group = padded(group, 0, stored_lanes(len(group), (16, 32, 64)))
        parts.append(group.transpose(1, 2, 0).reshape(-1))
    return np.concatenate(parts)


def operand_blocks(alu: Int64, ow: Int64, mul: Int64) -> npt.NDArray[np.uint8]:
    """Blocks of 8 channels: int32 ALU, int16 OW, int16 MUL."""
    count = align(alu.size, 8)
    blocks = np.zeros((count // 8, 64), np.uint8)
    for c in range(alu.size):
        block, lane = blocks[c // 8], c % 8
        block[4 * lane : 4 * lane + 4] = np.frombuffer(np.int32(alu[c]).tobytes(), np.uint8)
        block[32 + 2 * lane :][:2] = np.frombuffer(np.int16(ow[c]).tobytes(), np.uint8)
        block[48 + 2 * lane :][:2] = np.frombuffer(np.int16(mul[c]).tobytes(), np.uint8)
    return blocks


@dataclass
class Conv:
    """A convolution task. Output sizes are given, so that right and bottom padding follow."""

    c: int = 16
    h: int = 7
    w: int = 5
    oc: int = 32
    kh: int = 3
    kw: int = 3
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    pad_top: int = 1
    pad_left: int = 1
    oh: int = 7
    ow: int = 5
    depthwise: bool = False
    pad: int = -3
    gap: int = 0  # pixels between surfaces
    registers: s.Registers = field(default_factory=dict)  # set over the ordinary ones
    blocks: bool = False  # BRDMA blocks with OW and MUL, else dense int32
    mul_shift: int = 0
    mul_shift_negative: int = 0
    ow_operand: int = 0
    truncate: int = 0
    fused: bool = False  # EW operand with COMB_USE
    bn_multipliers: bool = False  # BN multiplies per channel, from memory
    bn_summands: bool = False  # BN adds per channel, from memory
    bs_multipliers: bool = False  # BS multiplies per channel, from memory, and adds nothing

    @property
    def c_al(self) -> int:
        return align(self.c, 16)

    @property
    def group(self) -> int:
        return 64 if self.depthwise else 32

    @property
    def cube(self) -> int:
        return align(self.c_al if self.depthwise else self.kernels, self.group)

    @property
    def real(self) -> int:
        return self.c if self.depthwise else self.oc

    @property
    def kernels(self) -> int:
        return align(self.oc, 2)


@dataclass
class Tensors:
    x: Int8
    weights: Int8
    alu: Int64
    ow: Int64
    mul: Int64
    ew: Int8
    bn_mul: Int64
    bn_alu: Int64


def random_tensors(rng: np.random.Generator, t: Conv) -> Tensors:
    def int8(*shape: int) -> Int8:
        return rng.integers(-128, 128, shape).astype(np.int8)

    shape = (t.c_al, t.kh, t.kw) if t.depthwise else (t.kernels, t.c_al, t.kh, t.kw)
    return Tensors(
        x=int8(t.c_al, t.h, t.w),
        weights=int8(*shape),
        alu=rng.integers(-(1 << 18), 1 << 18, t.real),
        ow=rng.integers(-130, 130, t.real) if t.blocks else np.full(t.real, t.ow_operand),
        mul=rng.integers(1, 1 << 15, t.real),
        ew=int8(align(t.real, 16), t.oh, t.ow),
        bn_mul=rng.integers(-(1 << 15), 1 << 15, t.real),
        bn_alu=rng.integers(-(1 << 31), 1 << 31, t.real),
    )


def conv_registers(t: Conv, memory: s.Memory, data: Tensors, tag: str = "") -> s.Registers:
    """Places the tensors in ``memory`` and gives the full set of register values."""
    pixels = t.h * t.w + t.gap
    out_pixels = t.oh * t.ow + t.gap
    x = memory.add(f"input{tag}", to_surfaces(data.x, pixels, fill=77))
    native = depthwise_weights(data.weights) if t.depthwise else dense_weights(data.weights)
    weights = memory.add(f"weights{tag}", native)
    operands = operand_blocks(data.alu, data.ow, data.mul) if t.blocks else data.alu.astype("<i4")
    bias = memory.add(f"operands{tag}", operands)
    output = memory.add(f"output{tag}", t.cube * out_pixels)
    entries = -(-t.w * t.c_al // 64)
    data_banks = min(11, max(1, -(-t.h * entries // 512)))
    mode = 3 if t.depthwise else 0
    size_e = 3 if t.depthwise else 1
    bytes_per_kernel = native.size if t.depthwise else t.kh * t.kw * t.c_al
    dims = (t.oh - 1) << 16 | (t.ow - 1)
    pad = t.pad & 0xFFFFFFFF
    r: s.Registers = {
        s.CBUF_CON0: (12 - data_banks) << 4 | data_banks,
        s.CONV_CON1: mode,
        s.CONV_CON2: 50 << 4,
        s.CONV_CON3: (t.dh - 1) << 21 | (t.dw - 1) << 16 | t.sh << 3 | t.sw,
        s.DATA_SIZE0: t.w << 16 | t.h,
        s.DATA_SIZE1: (t.c - 1) << 16 | t.c_al,
        s.DATA_SIZE2: t.ow,
        s.DATA_SIZE3: t.oh * t.ow,
        s.WEIGHT_SIZE0: native.size,
        s.WEIGHT_SIZE1: bytes_per_kernel,
        s.WEIGHT_SIZE2: t.kw << 24 | t.kh << 16 | (1 if t.depthwise else t.kernels),
        s.CBUF_CON1: entries,
        s.CVT_CON0: 0xB,
        s.PAD_CON0: t.pad_left << 4 | t.pad_top,
        s.FEATURE_DATA_ADDR: x,
        s.DMA_CON0: 0xF000F,
        s.DMA_CON1: 4 * t.w,
        s.DMA_CON2: (pixels - 4 * t.w) & 0xFFFFFFF,
        s.FC_DATA_SIZE0: t.w << 16 | t.h,
        s.FC_DATA_SIZE1: t.c_al,
        s.DCOMP_ADDR0: weights,
        s.PAD_CON1: pad,
        s.CORE_MISC_CFG: 1 | (2 if t.depthwise else 0),
        s.DATAOUT_SIZE_0: dims,
        s.DATAOUT_SIZE_1: t.cube - 1,
        s.CLIP_TRUNCATE: t.truncate,
        s.FEATURE_MODE_CFG: 0x1E4 | mode << 3,
        s.DATA_FORMAT: t.mul_shift_negative << 4,
        s.OFFSET_PEND: 0,
        s.DST_BASE_ADDR: output,
        s.DST_SURF_STRIDE: out_pixels * 16,
        s.CUBE_WIDTH: t.ow - 1,
        s.CUBE_HEIGHT: t.oh - 1,
        s.CUBE_NOTCH: 0,
        s.CUBE_CHANNEL: (t.real - 1) << 16 | (t.cube - 1),
        s.BS_CFG: 0x20140 if t.blocks else 0x20150,
        s.BS_ALU_CFG: 0,
        s.BS_MUL_CFG: t.mul_shift << 8 | (1 if t.blocks else 0),
        s.BS_OW_CFG: size_e << 8 | size_e << 5 | size_e << 2 | (1 if t.blocks else 0),
        s.BS_OW_OP: t.ow_operand & 0xFFFF,
        s.WDMA_SIZE_0: t.cube - 1,
        s.WDMA_SIZE_1: dims,
        s.BN_CFG: 0x53,
        s.EW_CFG: 0x383,
        s.EW_CVT_OFFSET: 0,
        s.EW_CVT_SCALE: 1,
        s.OUT_OFFSET: 5,
        s.OUT_SCALE: 0x4ABC,
        s.OUT_SHIFT: 26 if not t.depthwise else 22,
        s.SURFACE_ADD: out_pixels * 16 * (size_e + 1),
        s.RDMA_WIDTH: t.ow - 1,
        s.RDMA_HEIGHT: t.oh - 1,
        s.RDMA_CHANNEL: t.cube - 1,
        s.RDMA_SRC_BASE: 0,
        s.BRDMA_CFG: 0xE if t.blocks else 0x2,
        s.BS_BASE: bias,
        s.NRDMA_CFG: 0,
        s.ERDMA_CFG: 1,
        s.EW_BASE: 0,
        s.RDMA_FEATURE_MODE: 0x7810 | mode << 1,
        s.SURF_NOTCH: 0,
        s.EW_SURF_NOTCH: 0,
    }
    if t.fused:
        ew = memory.add(f"ew{tag}", to_surfaces(data.ew, out_pixels))
        notch = 2 * out_pixels * 16 - t.oh * t.ow * 16
        r |= {
            s.EW_CFG: 0x904202C0,
            s.RDMA_FEATURE_MODE: 0x7D00 | mode << 1,
            s.RDMA_SRC_BASE: ew,
            s.ERDMA_CFG: 0x40000004,
            s.EW_BASE: ew + out_pixels * 16,
            s.EW_SURF_STRIDE: out_pixels * 16,
            s.SURF_NOTCH: notch,
            s.EW_SURF_NOTCH: notch,
        }
    if t.bn_multipliers:
        r |= {
            s.BN_CFG: 0x42,
            s.BN_MUL_CFG: 13 << 8 | 1,
            s.DATA_FORMAT: r[s.DATA_FORMAT] | 12 << 10,
            s.NRDMA_CFG: 4 << 1,
            s.BN_BASE: memory.add(f"multipliers{tag}", data.bn_mul.astype("<i2")),
        }
    if t.bn_summands:
        r |= {
            s.BN_CFG: 0x20100,
            s.BN_MUL_CFG: 0x6123 << 16 | 15 << 8,
            s.DATA_FORMAT: r[s.DATA_FORMAT] | 14 << 10,
            s.NRDMA_CFG: 1 << 1,
            s.BN_BASE: memory.add(f"summands{tag}", data.bn_alu.astype("<i4")),
        }
    if t.bs_multipliers:
        r |= {
            s.BS_CFG: 0x42,
            s.BS_MUL_CFG: t.mul_shift << 8 | 1,
            s.BRDMA_CFG: 4 << 1,
            s.BS_BASE: memory.add(f"factors{tag}", data.mul.astype("<i2")),
        }
    return r | t.registers


@dataclass
class Elementwise:
    """A task of the DPU alone: the main operand from memory, optionally a second one."""

    c: int = 32
    h: int = 5
    w: int = 7
    gap: int = 0
    second: str = ""  # "", "pixel", "channel" or "register"
    blocks: bool = False
    registers: s.Registers = field(default_factory=dict)

    @property
    def cube(self) -> int:
        return align(self.c, 16)


def random_elementwise(rng: np.random.Generator, t: Elementwise) -> Tensors:
    def int8(*shape: int) -> Int8:
        return rng.integers(-128, 128, shape).astype(np.int8)

    return Tensors(
        x=int8(t.cube, t.h, t.w),
        weights=int8(0),
        alu=rng.integers(-4000, 4000, t.c),
        ow=np.zeros(t.c, np.int64),
        mul=rng.integers(-(1 << 15), 1 << 15, t.c),
        ew=int8(t.cube, t.h, t.w),
        bn_mul=np.zeros(t.c, np.int64),
        bn_alu=np.zeros(t.c, np.int64),
    )


def elementwise_registers(
    t: Elementwise, memory: s.Memory, data: Tensors, tag: str = ""
) -> s.Registers:
    """Places the tensors in ``memory`` and gives the full set of register values."""
    pixels = t.h * t.w + t.gap
    dims = (t.h - 1) << 16 | (t.w - 1)
    x = memory.add(f"input{tag}", to_surfaces(data.x, pixels))
    output = memory.add(f"output{tag}", t.cube * pixels)
    r: s.Registers = {
        s.FEATURE_MODE_CFG: 0x1E5,
        s.DATA_FORMAT: 13 << 4,
        s.OFFSET_PEND: 0,
        s.DST_BASE_ADDR: output,
        s.DST_SURF_STRIDE: pixels * 16,
        s.CUBE_WIDTH: t.w - 1,
        s.CUBE_HEIGHT: t.h - 1,
        s.CUBE_NOTCH: 0,
        s.CUBE_CHANNEL: (t.c - 1) << 16 | (t.cube - 1),
        s.BS_CFG: 0x20040,
        s.BS_ALU_CFG: 13,
        s.BS_MUL_CFG: 0x5432 << 16 | 13 << 8,
        s.BS_OW_CFG: 2,
        s.WDMA_SIZE_0: t.cube - 1,
        s.WDMA_SIZE_1: dims,
        s.BN_CFG: 0x53,
        s.EW_CFG: 0x383,
        s.EW_CVT_OFFSET: 0xFFFFFFF7,
        s.EW_CVT_SCALE: 13 << 16 | 0x4321,
        s.OUT_OFFSET: 0xFFFFFFF6,
        s.OUT_SCALE: 0x4ABC,
        s.OUT_SHIFT: 16,
        s.SURFACE_ADD: pixels * 16,
        s.RDMA_WIDTH: t.w - 1,
        s.RDMA_HEIGHT: t.h - 1,
        s.RDMA_CHANNEL: t.cube - 1,
        s.RDMA_SRC_BASE: x,
        s.BRDMA_CFG: 0,
        s.NRDMA_CFG: 0,
        s.ERDMA_CFG: 1,
        s.RDMA_FEATURE_MODE: 0x7801,
        s.SURF_NOTCH: t.gap * 16,
        s.EW_SURF_NOTCH: t.gap * 16,
    }
    if t.blocks:
        r |= {
            s.BS_CFG: 0x20140,
            s.BS_MUL_CFG: 13 << 8 | 1,
            s.BRDMA_CFG: 0xE,
            s.BS_BASE: memory.add(f"operands{tag}", operand_blocks(data.alu, data.ow, data.mul)),
        }
    if t.second == "pixel":
        ew = memory.add(f"ew{tag}", to_surfaces(data.ew, pixels))
        r |= {s.EW_CFG: 0x904202C0, s.ERDMA_CFG: 0x40000004, s.EW_BASE: ew}
        r |= {s.EW_SURF_STRIDE: pixels * 16}
    if t.second == "channel":
        ew = memory.add(f"ew{tag}", data.ew[:, 0, 0])
        r |= {s.EW_CFG: 0x804202C0, s.ERDMA_CFG: 0x4, s.EW_BASE: ew, s.EW_SURF_STRIDE: 16}
    if t.second == "register":
        values = {s.EW_OP_VALUE_0 + 4 * i: data.ew[i, 0, 0] * 1000 & 0xFFFFFFFF for i in range(8)}
        r |= {s.EW_CFG: 0x10020380, **{offset: int(v) for offset, v in values.items()}}
    return r | t.registers
