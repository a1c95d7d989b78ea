"""Mutated streams end in a fault or in the same result on both paths, never in anything else."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.sim import stream as s
from tests.sim.programs import (
    Conv,
    Elementwise,
    conv_registers,
    elementwise_registers,
    random_elementwise,
    random_tensors,
    to_surfaces,
)
from tests.sim.test_float_oracle import half_conv
from tests.sim.wide_programs import AVERAGE, MAX, pool_registers

# Values at the borders of fields.
EDGES = (
    0,
    1,
    2,
    15,
    16,
    31,
    63,
    64,
    255,
    0x7FF,
    0x1FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFF0,
)


def mutate(rng: np.random.Generator, words: np.ndarray) -> None:
    """One change of one word: a bit, the value, or the whole word."""
    i, j = (int(k) for k in rng.integers(0, words.size, 2))
    value_bits = np.uint64(0xFFFFFFFF0000)
    kind = rng.integers(0, 5)
    if kind == 0:
        words[i] ^= np.uint64(1 << int(rng.integers(0, 64)))
    elif kind == 1:
        words[i] = (words[i] & ~value_bits) | np.uint64(int(rng.choice(EDGES)) << 16)
    elif kind == 2:
        near = (int(words[i] & value_bits) + (int(rng.integers(-3, 4)) << 16)) & int(value_bits)
        words[i] = (words[i] & ~value_bits) | np.uint64(near)
    elif kind == 3:
        words[i], words[j] = words[j], words[i]
    else:
        words[i] = words[j]


def seed_program(rng: np.random.Generator) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    memory, program = s.Memory(), s.Program()
    conv = Conv(c=24, oc=40, fused=True, blocks=True, gap=1)
    program.add(conv_registers(conv, memory, random_tensors(rng, conv), "0"))
    depthwise = Conv(c=32, depthwise=True, sh=2, sw=2, oh=4, ow=3, ow_operand=-5)
    program.add(conv_registers(depthwise, memory, random_tensors(rng, depthwise), "1"))
    flying = Elementwise(second="pixel", gap=1)
    data = random_elementwise(rng, flying)
    program.add(elementwise_registers(flying, memory, data, "2"), s.FLYING)
    return memory, program.place(memory)


def wide_program(rng: np.random.Generator) -> tuple[s.Memory, list[tuple[int, int, str]]]:
    """Packed pixels, a transposed convolution, pooling, unpooling and fp16."""
    memory, program = s.Memory(), s.Program()
    packed = Conv(c=3, oc=12, h=6, w=16, oh=6, ow=16)
    pixels = {s.CONV_CON1: 0x6000_A000, s.DMA_CON1: 16, s.CBUF_CON1: 96}
    program.add(conv_registers(packed, memory, random_tensors(rng, packed), "0") | pixels)
    spread = Conv(c=16, h=4, w=3, oh=7, ow=5, registers={s.CONV_CON1: 0x10000, s.CONV_CON3: 0x909})
    program.add(conv_registers(spread, memory, random_tensors(rng, spread), "1"))
    x = to_surfaces(rng.integers(-128, 128, (16, 6, 5)).astype(np.int8), 30)
    for tag, method in (("2", MAX), ("3", AVERAGE)):
        pool = pool_registers(memory, x, (16, 6, 5), (3, 3), method=method, kernel=(2, 3),
                              stride=(2, 2), pads=(0, 1, 0, 1), tag=tag)  # fmt: skip
        program.add(pool, s.POOL)
    large = Elementwise(c=16, h=6, w=8)
    registers = elementwise_registers(large, memory, random_elementwise(rng, large), "4")
    registers |= {s.RDMA_SRC_DMA: 0x1249, s.RDMA_WIDTH: 3, s.RDMA_HEIGHT: 2}
    program.add(registers, s.FLYING)
    half = Conv(c=24, oc=17, h=5, w=4, oh=5, ow=4)
    program.add(half_conv(half, memory, rng, 4)[0])
    return memory, program.place(memory)


@pytest.mark.parametrize("program", [seed_program, wide_program])
@pytest.mark.parametrize("seed", range(6))
def test_mutated_streams(seed, program):
    rng = np.random.default_rng(seed)
    original, tasks = program(rng)
    faults, runs = 0, 0
    for _ in range(100):
        memory = original.copy()
        for _ in range(int(rng.integers(1, 3))):
            mutate(rng, memory.bytes("regcmd").view(np.uint64))
        chained = bool(rng.random() < 0.5)
        plain = memory.copy()
        try:
            s.run(memory, tasks, chained=chained, threads=2)
        except SimulatorFault as fault:
            faults += 1
            assert "\n" not in str(fault)
            with pytest.raises(SimulatorFault) as again:
                s.run(plain, tasks, chained=chained, plain=True)
            assert str(again.value) == str(fault)
        else:
            runs += 1
            s.run(plain, tasks, chained=chained, plain=True)
        for (name, _, found), (_, _, wanted) in zip(memory.regions, plain.regions, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=name)
    assert faults > 15
    assert runs > 5
