"""Random tasks of one kind that together use everything that a worse chip can break.

Their results are compared with each other only, so that numbers need not mean anything; they must
keep their bits: one of the stages, taken by chance, brings sums down to 8 bits.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.test_float_oracle import HALF_FORMAT, half_conv
from tests.sim.wide_programs import half_surfaces

WEIGHT_REUSE = 1 << 13
GROUP_LINE_OFF = 1 << 29
SUM_BITS = 9  # more than a result has
NO_RELU, RELU, RELUX = 0x40, 0, 0x80
CONVS = ("dense", "depthwise", "transposed")
KINDS = (*CONVS, "alone", *(f"fp16_{kind}" for kind in (*CONVS, "alone")))


@dataclass
class Maker:
    """Places tasks of a kind in memory; ``tag`` keeps their buffers apart."""

    kind: str
    rng: np.random.Generator
    memory: s.Memory = field(default_factory=s.Memory)
    program: s.Program = field(default_factory=s.Program)
    tasks: int = 0
    shape: p.Conv | None = None  # of all convolutions, instead of one by chance
    size: tuple[int, int] = (5, 4)  # of tasks of the DPU alone

    @property
    def is_half(self) -> bool:
        return self.kind.startswith("fp16_")

    @property
    def is_conv(self) -> bool:
        return not self.kind.endswith("alone")

    @property
    def mask(self) -> int:
        return s.CONV if self.is_conv else s.FLYING

    def pick(self, *values: int) -> int:
        """One of them."""
        return int(self.rng.choice(values))

    def tag(self) -> str:
        """Another one for every task."""
        self.tasks += 1
        return f"_{self.tasks}"

    def half(self, low: float = 0.5, high: float = 2.0) -> int:
        """Bits of a number of fp16."""
        return int(np.float16(self.rng.uniform(low, high)).view(np.uint16))

    def single(self, low: float, high: float) -> int:
        """Bits of a number of fp32."""
        return int(np.float32(self.rng.uniform(low, high)).view(np.uint32))

    def conv(self) -> p.Conv:
        """A shape with a rest of channels behind whole groups and whole surfaces."""
        if self.shape is not None:
            return self.shape
        t = p.Conv(
            c=16, oc=70, h=5, w=4, kh=2, kw=3, pad_top=1, oh=4, ow=3, pad=self.pick(0, -7, 4)
        )
        if self.kind.endswith("depthwise"):
            t = replace(t, c=134, depthwise=True)
        if self.kind.endswith("transposed"):
            t = replace(t, h=3, w=3, kh=3, oh=4, ow=4)
            t = replace(t, c=134, depthwise=True) if self.rng.random() < 0.5 else t
        d = self.pick(1, 2)
        return replace(t, dh=d, dw=d)

    def task(self) -> s.Registers:
        """Registers of a random task."""
        tag = self.tag()
        if not self.is_conv:
            return half_alone(self, tag) if self.is_half else alone(self, tag)
        t = self.conv()
        r = half_convolution(self, t) if self.is_half else convolution(self, t, tag)
        if self.kind.endswith("transposed"):
            r[s.CONV_CON1] |= 0x10000
            r[s.CONV_CON3] = r[s.CONV_CON3] & ~0x3F | 0x909
        return r

    def neighbour(self) -> s.Registers:
        """A small int8 task of the DPU alone."""
        t = p.Elementwise(c=16, h=1, w=2)
        tag = self.tag()
        r = p.elementwise_registers(t, self.memory, p.random_elementwise(self.rng, t), tag)
        return r | {s.DST_BASE_ADDR: self.memory.add(f"room{tag}", 2 * 16 * 2)}


def x_stage(m: Maker, registers: tuple[int, int, int, int], cfg: int, bits: int) -> s.Registers:
    """BS or BN: ``registers``: CFG, ALU_CFG, MUL_CFG, RELUX; ``bits``: that it takes away."""
    at_cfg, at_alu, at_mul, at_relux = registers
    relu = m.pick(NO_RELU, RELU, RELUX)
    slope = m.pick(0, 0, 0x20) if cfg & 2 else 0
    if m.is_half:
        alu, limit, mul = m.single(-2, 2), m.single(0.5, 2), m.half() << 16
    else:
        alu, limit = m.pick(-5000, 3, 7001) & 0xFFFFFFFF, m.pick(50, 70 << SUM_BITS)
        mul = m.pick(0x5433, 0x2FFF) << 16 | bits << 8
    return {at_cfg: cfg | relu | slope, at_alu: alu, at_mul: mul, at_relux: limit}


BS = (s.BS_CFG, s.BS_ALU_CFG, s.BS_MUL_CFG, s.BS_RELUX)
BN = (s.BN_CFG, s.BN_ALU_CFG, s.BN_MUL_CFG, s.BN_RELUX)


def add_stages(m: Maker, r: s.Registers, channels: int, pixels: int, tag: str) -> s.Registers:
    """BS, BN, EW and OUT_CVT of any kind. ``r``: registers of the task as it is."""
    reducing = m.pick(0, 1, 2, 3)
    # What nothing gave a size below is small already.
    surplus = [SUM_BITS * int(m.is_conv) * int(stage == reducing) for stage in range(4)]
    negative = m.pick(0, 1, 2, 3)
    style = m.pick(0, 1, 2, 3)
    # What a task does not write it would take over from the task two before.
    r = (
        {s.RDMA_SRC_DMA: 0}
        | r
        | x_stage(m, BS, (0x20100, 0x20000, 0x40000, 0x2)[style], 13 + surplus[0])
    )
    r[s.BRDMA_CFG] = (2, 0, 0, 8)[style]
    numbers = m.rng.integers(-(1 << 13), 1 << 13, channels)
    factors = m.rng.integers(-(1 << 15), 1 << 15, channels)
    if m.is_half:
        numbers = m.rng.normal(size=channels).astype(np.float32).view(np.int32)
        factors = m.rng.uniform(-2, 2, channels).astype(np.float16).view(np.int16)
    if style == 0 and not m.is_half and m.rng.random() < 0.5:
        sums = m.rng.integers(-99, 99, channels)
        r |= {
            s.BRDMA_CFG: 0xE,
            s.BS_BASE: m.memory.add(f"bs{tag}", p.operand_blocks(numbers, sums, factors)),
        }
        r[s.BS_MUL_CFG] |= 1
        if m.is_conv:
            r[s.BS_OW_CFG] |= 1
    elif style in (0, 3):
        content = numbers.astype("<i4") if style == 0 else factors.astype("<i2")
        r[s.BS_BASE] = m.memory.add(f"bs{tag}", content)
        r[s.BS_MUL_CFG] |= int(style == 3)
    style = m.pick(0, 1, 2, 3, 4)
    r |= x_stage(m, BN, (0x20100, 0x20000, 0x40000, 0x2, 0x53)[style], 13 + surplus[1])
    if r[s.BN_CFG] & 0x20:
        r[s.BN_CFG] |= 2
    r[s.NRDMA_CFG] = (2, 0, 0, 8, 0)[style]
    if style in (0, 3):
        content = (
            (numbers << 11).astype("<i4") if style == 0 and not m.is_half else numbers.astype("<i4")
        )
        content = factors.astype("<i2") if style == 3 else content
        r[s.BN_BASE] = m.memory.add(f"bn{tag}", content)
        r[s.BN_MUL_CFG] |= int(style == 3)
    r |= ew_stage(m, r, channels, pixels, surplus[2], tag)
    if m.is_half:
        return r | {s.OUT_SCALE: 0x10000 | m.pick(1, 3), s.OUT_SHIFT: m.pick(0, 1) << 12}
    shift = 14 + surplus[3]
    r[s.DATA_FORMAT] |= (13 + surplus[0] - negative & 63) << 4 | (13 + surplus[1] - negative) << 10
    r[s.DATA_FORMAT] |= (5 + surplus[2] - negative % 2) << 16
    return r | {
        s.OUT_SCALE: m.pick(0x4000, 0x4000, 0x4ABC), s.OUT_SHIFT: m.pick(0, 1) << 30 | shift,
        s.OUT_OFFSET: m.pick(0, -9, 30, 77) & 0xFFFFFFFF,
    }  # fmt: skip


def ew_stage(
    m: Maker, r: s.Registers, channels: int, pixels: int, surplus: int, tag: str
) -> s.Registers:
    """EW: nothing, or an operation with registers, with numbers per channel or per pixel."""
    source = m.pick(0, 1, 2, 2, 3, 3)
    if source == 0:
        return {}
    relu = m.pick(0x200, 0, 0x400)
    operation = m.pick(0, 0x10000, 0x20000, 0x40000, 4, 4, 0x24)
    cfg = 0x80000080 | relu | operation
    if m.is_half:
        cfg |= 0x100 if operation & 4 else 0
        limit = m.single(0.5, 2)
    else:
        cfg |= m.pick(0, 0, 1 << 30, 0x100)
        limit = m.pick(50, 70 << SUM_BITS)
    found: s.Registers = {
        s.EW_RELUX: limit,
        s.EW_CVT_OFFSET: 0 if m.is_half else m.pick(0, 3),
        s.EW_CVT_SCALE: 1 if m.is_half else (5 + surplus) << 22 | m.pick(1 << 16 | 3, 1, 5),
    }
    if source == 1:
        values = m.rng.integers(-300_000, 300_000, 8)
        if m.is_half:
            values = m.rng.normal(size=8).astype(np.float32).view(np.int32)
        return found | {s.EW_CFG: cfg} | {
            s.EW_OP_VALUE_0 + 4 * i: int(v) & 0xFFFFFFFF for i, v in enumerate(values)
        }  # fmt: skip
    wide = m.is_half or (source == 2 and m.rng.random() < 0.5)
    cfg |= 0x40 | (2 if wide else 1) << 22
    size = (2 if wide else 1) << 2
    if source == 2:
        content = m.rng.integers(-900, 900, channels).astype("<i2" if wide else "<i1")
        if m.is_half:
            content = m.rng.normal(size=channels).astype(np.float16)
        return found | {
            s.EW_CFG: cfg, s.ERDMA_CFG: size, s.EW_SURF_STRIDE: 16,
            s.EW_BASE: m.memory.add(f"ew{tag}", content),
        }  # fmt: skip
    surface = pixels * 16
    content = m.rng.integers(-100, 100, p.align(channels, 32) * pixels).astype(np.int8)
    if m.is_half:
        content = m.rng.normal(size=content.size).astype(np.float16)
    place = m.memory.add(f"ew{tag}", content)
    found |= {
        s.EW_CFG: cfg | 0x10000000, s.ERDMA_CFG: 0x40000000 | size, s.EW_BASE: place,
        s.EW_SURF_STRIDE: surface, s.EW_SURF_NOTCH: 0,
    }  # fmt: skip
    if m.is_conv:
        notch = 2 * surface - pixels * 16
        found |= {
            s.RDMA_SRC_BASE: place, s.EW_BASE: place + surface, s.SURF_NOTCH: notch,
            s.EW_SURF_NOTCH: notch,
            s.RDMA_FEATURE_MODE: r[s.RDMA_FEATURE_MODE] & ~0x10 | 0x500,
        }  # fmt: skip
    return found


def convolution(m: Maker, t: p.Conv, tag: str) -> s.Registers:
    """An int8 task with the MAC array."""
    t = replace(t, truncate=m.pick(0, 0, 3), ow_operand=m.pick(0, 6))
    r = p.conv_registers(t, m.memory, p.random_tensors(m.rng, t), tag)
    r[s.DATA_FORMAT] = 0
    r = window(m, t, r, tag)
    return write_gap(m, t, add_stages(m, r, t.real, t.oh * t.ow, tag), t.cube, tag)


def window(m: Maker, t: p.Conv, r: s.Registers, tag: str) -> s.Registers:
    """Perhaps the input is a window of a larger map."""
    if m.rng.random() < 0.6:
        return r
    width, height = t.w + 2, t.h + 1
    large = m.rng.integers(-128, 128, (t.c_al, height, width)).astype(np.int8)
    return r | {
        s.FEATURE_DATA_ADDR: m.memory.add(f"large{tag}", p.to_surfaces(large, height * width)),
        s.CONV_CON1: r[s.CONV_CON1] | GROUP_LINE_OFF,
        s.DMA_CON1: width,
        s.DMA_CON2: height * width - t.w,
    }


def write_gap(
    m: Maker, t: p.Conv | p.Elementwise, r: s.Registers, cube: int, tag: str
) -> s.Registers:
    """Perhaps rows of the output have gaps between them."""
    h, w = (t.oh, t.ow) if isinstance(t, p.Conv) else (t.h, t.w)
    if m.rng.random() < 0.7:
        return r
    surface = h * (w + 2) * 16
    return r | {
        s.DST_BASE_ADDR: m.memory.add(f"wide{tag}", p.align(cube, 32) // 16 * surface),
        s.CUBE_NOTCH: 2 << 16 | 2,
        s.DST_SURF_STRIDE: surface,
        s.SURFACE_ADD: surface * (1 + (r[s.BS_OW_CFG] >> 2 & 7)),
    }


def alone(m: Maker, tag: str) -> s.Registers:
    """An int8 task of the DPU alone."""
    t = p.Elementwise(m.pick(70, 37), *m.size)
    r = p.elementwise_registers(t, m.memory, p.random_elementwise(m.rng, t), tag)
    r[s.DATA_FORMAT] = 0
    # Surfaces in pairs.
    r[s.DST_BASE_ADDR] = m.memory.add(f"room{tag}", p.align(t.cube, 32) * t.h * t.w)
    r = add_stages(m, r, t.c, t.h * t.w, tag)
    return write_gap(m, t, operand_gap(m, r, p.align(t.c, 16) // 16, tag), t.cube, tag)


def operand_gap(m: Maker, r: s.Registers, surfaces: int, tag: str) -> s.Registers:
    """Perhaps rows of the operands have gaps between them, in a row more of 3 pixels more."""
    if m.rng.random() < 0.6:
        return r
    height, width = m.size
    surface, rest = (height + 1) * (width + 3), (width + 3 + 3) * 16

    def large(name: str) -> int:
        count = surfaces * surface * 8
        numbers = m.rng.normal(size=count).astype(np.float16)
        bytes_ = m.rng.integers(-128, 128, 2 * count).astype(np.int8)
        return m.memory.add(f"{name}{tag}", numbers if m.is_half else bytes_)

    r = r | {s.RDMA_SRC_BASE: large("main"), s.RDMA_SRC_DMA: 3 << 19, s.SURF_NOTCH: rest}
    if r.get(s.ERDMA_CFG, 1) >> 30 & 1:
        r |= {
            s.EW_BASE: large("other"), s.RDMA_HEIGHT: 3 << 16 | height - 1,
            s.EW_SURF_NOTCH: rest,
            s.EW_SURF_STRIDE: surface * 16,
        }  # fmt: skip
    return r


def half_convolution(m: Maker, t: p.Conv) -> s.Registers:
    """An fp16 task with the MAC array; its buffers have one name for all tasks."""
    inner = s.Memory(next_address=m.memory.next_address)
    r, *_ = half_conv(t, inner, m.rng, 2)
    tag = m.tag()
    m.memory.regions += [(name + tag, place, content) for name, place, content in inner.regions]
    m.memory.next_address = inner.next_address
    r[s.PAD_CON1] = m.half()
    if m.rng.random() < 0.4:
        large = m.rng.normal(size=(p.align(t.c, 8), t.h + 1, t.w + 2)).astype(np.float16)
        r |= {
            s.FEATURE_DATA_ADDR: m.memory.add(
                f"large{tag}", half_surfaces(large, (t.h + 1) * (t.w + 2))
            ),
            s.CONV_CON1: r[s.CONV_CON1] | GROUP_LINE_OFF,
            s.DMA_CON1: t.w + 2,
            s.DMA_CON2: (t.h + 1) * (t.w + 2) - t.w,
        }
    cube = (r[s.CUBE_CHANNEL] & 0x1FFF) + 1
    r = add_stages(m, r, (r[s.CUBE_CHANNEL] >> 16) + 1, t.oh * t.ow, tag)
    return write_gap(m, t, r, 2 * cube, tag)


def half_alone(m: Maker, tag: str) -> s.Registers:
    """An fp16 task of the DPU alone."""
    t = p.Elementwise(m.pick(70, 36), *m.size)
    cube = p.align(t.c, 8)
    pixels = t.h * t.w
    r = p.elementwise_registers(t, m.memory, p.random_elementwise(m.rng, t), f"_unused{tag}") | {
        s.DATA_FORMAT: HALF_FORMAT,
        s.RDMA_SRC_BASE: m.memory.add(
            f"a{tag}", m.rng.normal(size=p.align(cube, 16) * pixels).astype(np.float16)
        ),
        s.DST_BASE_ADDR: m.memory.add(f"output{tag}", p.align(cube, 16) * pixels * 2),
        s.CUBE_CHANNEL: (t.c - 1) << 16 | cube - 1,
        s.WDMA_SIZE_0: cube - 1,
        s.RDMA_CHANNEL: cube - 1,
        s.OUT_OFFSET: 0,
        s.RDMA_FEATURE_MODE: 0x17841,
    }
    r = add_stages(m, r, t.c, pixels, tag)
    if r.get(s.ERDMA_CFG, 1) >> 30 & 1:
        r[s.RDMA_FEATURE_MODE] = 0x17849
    return write_gap(m, t, operand_gap(m, r, cube // 8, tag), 2 * cube, tag)
