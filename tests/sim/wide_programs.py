"""Programs beyond int8 cubes: tables, packed pixels, pooling, transposed convolution, fp16.

Register values come from the description of the hardware; the expected numbers are computed in the
tests, in NumPy, from the plain tensors.
"""

import numpy as np
import numpy.typing as npt

from tests.sim import programs as p
from tests.sim import stream as s

LUT_ACCESS_CFG, LUT_ACCESS_DATA, LUT_CFG, LUT_INFO = 0x4100, 0x4104, 0x4108, 0x410C
LUT_LE_START, LUT_LE_END, LUT_LO_START, LUT_LO_END = 0x4110, 0x4114, 0x4118, 0x411C
LUT_LE_SCALE, LUT_LE_SHIFT, LUT_LO_SCALE, LUT_LO_SHIFT = 0x4120, 0x4124, 0x4128, 0x412C
CVT_CON1, CVT_CON2, CVT_CON3, CVT_CON4, CVT_CON5 = 0x1050, 0x1054, 0x1058, 0x105C, 0x1180
POOL, REARM_PPU, REARM_PPU_RDMA = 0x60, 0x6004, 0x7004
MAX, MIN, AVERAGE = 1, 2, 0
HALF_FORMAT = 0x48000002

Half = npt.NDArray[np.float16]


def lut_words(le: npt.NDArray[np.int16], lo: npt.NDArray[np.int16]) -> list[int]:
    """The 1028 words that write both tables through the access port."""
    words = []
    for cfg, table in ((0x20000, le), (0x30000, lo)):
        words.append(s.word(0x1001, LUT_ACCESS_CFG, cfg))
        words += [s.word(0x1001, LUT_ACCESS_DATA, int(v) & 0xFFFF) for v in table]
    return words


def lut_registers(**changes: int) -> s.Registers:
    """Return how known programs read the tables: LE below 0, LO above, 32 steps between entries."""
    registers = {
        s.EW_CFG: 0x302,
        LUT_CFG: 0x68,
        LUT_INFO: 0x50500,
        LUT_LE_START: -16384 & 0xFFFFFFFF,
        LUT_LE_END: 0,
        LUT_LO_START: 0,
        LUT_LO_END: 16384,
        LUT_LE_SCALE: 0,
        LUT_LE_SHIFT: 0,
        LUT_LO_SCALE: 0,
        LUT_LO_SHIFT: 0,
    }
    names = {"cfg": LUT_CFG, "le_scale": LUT_LE_SCALE, "le_shift": LUT_LE_SHIFT,
             "lo_scale": LUT_LO_SCALE, "lo_shift": LUT_LO_SHIFT}  # fmt: skip
    return registers | {names[name]: value for name, value in changes.items()}


def pool_registers(
    memory: s.Memory,
    surfaces: npt.NDArray[np.generic],
    shape: tuple[int, int, int],
    out: tuple[int, int],
    *,
    method: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    pad_value: int = 0,
    fp16: bool = False,
    tag: str = "",
) -> s.Registers:
    """A pooling task; ``surfaces`` [C1, H * W, atom], ``shape`` (c, h, w).

    ``pads``: top, left, bottom, right.
    """
    c, h, w = shape
    oh, ow = out
    top, left, bottom, right = pads
    source = memory.add(f"input{tag}", surfaces)
    lanes = 8 if fp16 else 16
    target = memory.add(f"output{tag}", p.align(c, lanes) // lanes * oh * ow * 16)
    recip = [int(np.float16(65536 / k).view(np.uint16)) if fp16 else 65536 // k for k in kernel]
    strides = (stride[0] - 1) << 20 | (stride[1] - 1) << 16
    wide = pad_value & (1 << 35) - 1
    precision = 2 if fp16 else 0
    return {
        0x600C: w - 1, 0x6010: h - 1, 0x6014: c - 1, 0x6018: ow - 1, 0x601C: oh - 1, 0x6020: c - 1,
        0x6024: 0x10 | method,
        0x6034: strides | (kernel[0] - 1) << 8 | kernel[1] - 1,
        0x6038: recip[1], 0x603C: recip[0],
        0x6040: bottom << 12 | right << 8 | top << 4 | left,
        0x6044: wide & 0xFFFFFFFF, 0x6048: wide >> 32,
        0x6070: target, 0x607C: oh * ow * 16, 0x6084: oh * ow * 16 | precision, 0x60DC: 3,
        0x700C: w - 1, 0x7010: h - 1, 0x7014: c - 1,
        0x701C: source, 0x7024: w * 16, 0x7028: surfaces.shape[1] * 16, 0x7030: 2 if fp16 else 1,
    }  # fmt: skip


def half_surfaces(nchw: Half, pixels: int) -> Half:
    """[C, H, W] to NC1HWC2 with 8 channels of fp16 per atom."""
    c, h, w = nchw.shape
    image = np.zeros((p.align(c, 8) // 8, pixels, 8), np.float16)
    for channel in range(c):
        image[channel // 8, : h * w, channel % 8] = nchw[channel].reshape(-1)
    return image


def half_alone(memory: s.Memory, x: Half, channels: int | None = None) -> s.Registers:
    """Return a task of the DPU alone from ``x`` [lanes, rows, columns] to "output", all stages off;
    the first ``channels`` lanes count.
    """
    lanes, h, w = x.shape
    real, cube = channels or lanes, p.align(lanes, 8)
    t = p.Elementwise(c=real, h=h, w=w)
    data = p.random_elementwise(np.random.default_rng(0), t)
    return p.elementwise_registers(t, memory, data, "_unused") | {
        s.DATA_FORMAT: HALF_FORMAT,
        s.RDMA_SRC_BASE: memory.add("a", half_surfaces(x, h * w)),
        s.DST_BASE_ADDR: memory.add("output", cube * h * w * 2),
        s.CUBE_CHANNEL: (real - 1) << 16 | cube - 1,
        s.WDMA_SIZE_0: cube - 1,
        s.RDMA_CHANNEL: cube - 1,
        s.BS_CFG: 0x53,
        s.EW_CVT_OFFSET: 0,
        s.EW_CVT_SCALE: 1,
        s.OUT_OFFSET: 0,
        s.OUT_SCALE: 0x10001,
        s.OUT_SHIFT: 0,
        s.RDMA_FEATURE_MODE: 0x17841,
    }


def half_operand(memory: s.Memory, other: Half) -> s.Registers:
    """Return what makes ``other``, of the same shape, the second map of ``half_alone``."""
    pixels = other.shape[1] * other.shape[2]
    return {
        s.EW_BASE: memory.add("b", half_surfaces(other, pixels)),
        s.RDMA_FEATURE_MODE: 0x17849,
        s.ERDMA_CFG: 0x40000008,
        s.EW_SURF_STRIDE: pixels * 16,
    }


def half_dense_weights(weights: Half) -> Half:
    """[O, I, kh, kw] (8 divides I) to [O/16][I/32][kh][kw][16][32], rests in 8, 16 or 32 lanes."""
    parts = []
    for o in range(0, weights.shape[0], 16):
        for i in range(0, weights.shape[1], 32):
            group = weights[o : o + 16, i : i + 32]
            group = p.padded(group, 1, p.stored_lanes(group.shape[1], (8, 16, 32)))
            parts.append(group.transpose(2, 3, 0, 1).reshape(-1))
    return np.concatenate(parts)


def half_depthwise_weights(weights: Half) -> Half:
    """[C, kh, kw] (C a multiple of 8) to [C/32][kh][kw][32], a rest in 8, 16 or 32 lanes."""
    parts = []
    for c in range(0, weights.shape[0], 32):
        group = weights[c : c + 32]
        group = p.padded(group, 0, p.stored_lanes(len(group), (8, 16, 32)))
        parts.append(group.transpose(1, 2, 0).reshape(-1))
    return np.concatenate(parts)


def pack_pixels(nchw: p.Int8, stride: int, tail: int = 99) -> p.Int8:
    """[C, H, W] to rows of ``stride`` pixels with C bytes each; ``tail`` behind the last one."""
    c, h, w = nchw.shape
    image = np.full((h, stride, c), tail, np.int8)
    image[:, :w] = nchw.transpose(1, 2, 0)
    return image
