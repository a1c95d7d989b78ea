"""Small programs of many features, the seeds of mutated streams."""

from collections.abc import Callable

import numpy as np

from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.test_float_oracle import half_conv
from tests.sim.test_lut import sigmoid_tables
from tests.sim.wide_programs import AVERAGE, MAX, lut_registers, lut_words, pool_registers

Placed = tuple[s.Memory, list[tuple[int, int, str]]]


def seed_program(rng: np.random.Generator) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    memory, program = s.Memory(), s.Program()
    conv = p.Conv(c=24, oc=40, fused=True, blocks=True, gap=1)
    program.add(p.conv_registers(conv, memory, p.random_tensors(rng, conv), "0"))
    depthwise = p.Conv(c=32, depthwise=True, sh=2, sw=2, oh=4, ow=3, ow_operand=-5)
    program.add(p.conv_registers(depthwise, memory, p.random_tensors(rng, depthwise), "1"))
    flying = p.Elementwise(second="pixel", gap=1)
    data = p.random_elementwise(rng, flying)
    program.add(p.elementwise_registers(flying, memory, data, "2"), s.FLYING)
    return memory, program.place(memory)


def wide_program(rng: np.random.Generator) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    """Packed pixels, a transposed convolution, pooling, unpooling and fp16."""
    memory, program = s.Memory(), s.Program()
    packed = p.Conv(c=3, oc=12, h=6, w=16, oh=6, ow=16)
    pixels = {s.CONV_CON1: 0x6000_A000, s.DMA_CON1: 16, s.CBUF_CON1: 96}
    program.add(p.conv_registers(packed, memory, p.random_tensors(rng, packed), "0") | pixels)
    spread = p.Conv(
        c=16, h=4, w=3, oh=7, ow=5, registers={s.CONV_CON1: 0x10000, s.CONV_CON3: 0x909}
    )
    program.add(p.conv_registers(spread, memory, p.random_tensors(rng, spread), "1"))
    x = p.to_surfaces(rng.integers(-128, 128, (16, 6, 5)).astype(np.int8), 30)
    for tag, method in (("2", MAX), ("3", AVERAGE)):
        pool = pool_registers(memory, x, (16, 6, 5), (3, 3), method=method, kernel=(2, 3),
                              stride=(2, 2), pads=(0, 1, 0, 1), tag=tag)  # fmt: skip
        program.add(pool, s.POOL)
    large = p.Elementwise(c=16, h=6, w=8)
    registers = p.elementwise_registers(large, memory, p.random_elementwise(rng, large), "4")
    registers |= {s.RDMA_SRC_DMA: 0x1249, s.RDMA_WIDTH: 3, s.RDMA_HEIGHT: 2}
    program.add(registers, s.FLYING)
    half = p.Conv(c=24, oc=17, h=5, w=4, oh=5, ow=4)
    program.add(half_conv(half, memory, rng, 4)[0])
    return memory, program.place(memory)


def table_program(rng: np.random.Generator) -> Placed:
    """Tables uploaded by a task of one pixel, and used by the next one."""
    memory, program = s.Memory(), s.Program()
    dummy = p.Elementwise(c=16, h=1, w=1)
    registers = p.elementwise_registers(dummy, memory, p.random_elementwise(rng, dummy), "_dummy")
    program.add(registers, s.FLYING, extra=lut_words(*sigmoid_tables()))
    t = p.Elementwise(c=37, h=5, w=11)
    used = p.elementwise_registers(t, memory, p.random_elementwise(rng, t)) | lut_registers()
    program.add(used, s.FLYING, pointer=s.CLEAR)
    return memory, program.place(memory)


def half_program(rng: np.random.Generator) -> Placed:
    memory, program = s.Memory(), s.Program()
    half = p.Conv(c=24, oc=17, h=5, w=4, oh=5, ow=4)
    program.add(half_conv(half, memory, rng, 4)[0])
    return memory, program.place(memory)


def walk_program(rng: np.random.Generator) -> Placed:
    """A window of wider rows written as every second pixel, rows that leave as surfaces, operands
    whose surfaces lie one behind the other or lead back, summands of BN and multipliers of BS.
    """
    memory, program = s.Memory(), s.Program()
    phase = p.Conv(c=64, depthwise=True, h=6, w=7, kh=2, kw=2, pad_top=0, pad_left=0, oh=5, ow=6)
    registers = p.conv_registers(phase, memory, p.random_tensors(rng, phase), "0")
    registers |= {
        s.FEATURE_DATA_ADDR: memory.add("large", 4 * 6 * 9 * 16) + 16,
        s.CONV_CON1: registers[s.CONV_CON1] | 1 << 29, s.DMA_CON1: 9, s.DMA_CON2: 6 * 9 - 7,
        s.DST_BASE_ADDR: memory.add("target", 64 * 4 * 30), s.WDMA_SIZE_1: 5 << 16,
        s.CUBE_NOTCH: 1 << 16 | 1, s.SURFACE_ADD: 2 * 12 * 16, s.DST_SURF_STRIDE: 4 * 30 * 16,
    }  # fmt: skip
    program.add(registers)
    rows = p.Elementwise(c=32, h=3, w=8)
    registers = p.elementwise_registers(rows, memory, p.random_elementwise(rng, rows), "1")
    registers |= {
        s.DATA_FORMAT: 1 << 26, s.RDMA_FEATURE_MODE: 0x7801 | 1 << 15, s.RDMA_SRC_DMA: 0x1249,
        s.RDMA_WIDTH: 3, s.BS_CFG: 0x53, s.BS_OW_CFG: 2 | 1 << 2 | 1 << 5 | 1 << 8,
        s.CUBE_NOTCH: 8 << 16 | 8, s.DST_SURF_STRIDE: 8 * 16, s.SURFACE_ADD: 6 * 8 * 16,
    }  # fmt: skip
    program.add(registers, s.FLYING)
    back = p.Elementwise(c=48, h=2, w=5, second="pixel")
    registers = p.elementwise_registers(back, memory, p.random_elementwise(rng, back), "2")
    registers |= {
        s.RDMA_SRC_BASE: registers[s.RDMA_SRC_BASE] + 20 * 16,
        s.SURF_NOTCH: -20 * 16 & 0xFFFFFFFF, s.EW_SURF_NOTCH: -10 * 16 & 0xFFFFFFFF,
        s.EW_SURF_STRIDE: 0, s.EW_CFG: 0x904003C0,
    }  # fmt: skip
    program.add(registers, s.FLYING)
    summands = p.Conv(oc=20, bs_multipliers=True, mul_shift=13, mul_shift_negative=13)
    program.add(p.conv_registers(summands, memory, p.random_tensors(rng, summands), "3"))
    added = p.Conv(oc=20, bn_summands=True)
    program.add(p.conv_registers(added, memory, p.random_tensors(rng, added), "4"))
    return memory, program.place(memory)


PROGRAMS: dict[str, Callable[[np.random.Generator], Placed]] = {
    "int8": seed_program,
    "wide": wide_program,
    "table": table_program,
    "half": half_program,
    "walk": walk_program,
}
