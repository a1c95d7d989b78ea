"""The vectorised path equals the literal one, with every instruction set and number of threads."""

import numpy as np

from tests.loops import for_each
from tests.sim import stream as s
from tests.sim import test_lut
from tests.sim.programs import (
    Conv,
    Elementwise,
    conv_registers,
    elementwise_registers,
    random_elementwise,
    random_tensors,
)
from tests.sim.wide_programs import lut_registers
from tests.sim.worse_programs import KINDS, worse_program


@for_each("seed", range(64))
@for_each("kind", KINDS)
def test_programs_of_every_stage(kind, seed):
    """All stages, tables, wide results, notches; small maps, and ones worth a table of bytes."""
    memory, tasks = worse_program(kind, seed, (33, 35) if seed // 8 % 2 else (5, 4))
    s.run_all_ways(memory, tasks)


@for_each("seed", range(20))
def test_random_tables(seed):
    """Tasks of the DPU alone with tables and operands per channel, of many pixels."""
    rng = np.random.default_rng(seed)
    memory, program = s.Memory(), s.Program()
    test_lut.upload(memory, program, *test_lut.random_tables(seed))
    for i in range(3):
        c, h, w = (int(rng.integers(1, most)) for most in (80, 40, 40))
        t = Elementwise(c, h, w, gap=int(rng.choice([0, 2])), blocks=bool(rng.random() < 0.3))
        data = random_elementwise(rng, t)
        r = elementwise_registers(t, memory, data, tag=str(i)) | lut_registers()
        r |= {s.EW_OP_VALUE_0 + 4 * k: int(rng.choice([5, 5000])) for k in range(8)}
        r |= {s.EW_CFG: int(rng.choice([0x302, 0x300, 0x20300])), s.OFFSET_PEND: 0x85}
        r |= {s.OUT_SHIFT: int(rng.choice([21, 23, 1 << 30 | 22]))}
        if not t.blocks:
            r |= {s.BS_MUL_CFG: int(rng.integers(1, 300)) << 16, s.DATA_FORMAT: 0}
        if rng.random() < 0.5:  # rows two pixels apart, those of another size in every second task
            rows, columns = (h, w) if i % 2 else (w, h)
            surface = rows * (columns + 2) * 16
            r |= {s.CUBE_NOTCH: 2 << 16 | 2, s.DST_SURF_STRIDE: surface, s.SURFACE_ADD: surface}
            r |= {s.WDMA_SIZE_1: (rows - 1) << 16 | columns - 1}
            r |= {s.DST_BASE_ADDR: memory.add(f"output_rows{i}", t.cube * surface // 16)}
        program.add(r, s.FLYING, pointer=s.CLEAR)
    s.run_all_ways(memory, program.place(memory))


@for_each("threads", [1, 2, 3, 7])
def test_threads_do_not_change_results(threads):
    rng = np.random.default_rng(5)
    memory, program = s.Memory(), s.Program()
    for i, t in enumerate(
        [Conv(c=64, oc=96, h=29, w=31, oh=29, ow=31), Conv(depthwise=True, c=99)]
    ):
        program.add(conv_registers(t, memory, random_tensors(rng, t), tag=str(i)))
    tasks, wanted = program.place(memory), memory.copy()
    s.run(wanted, tasks, plain=True)
    for chained in (False, True) * 5:
        found = memory.copy()
        s.run(found, tasks, threads=threads, chained=chained)
        for number in range(2):
            output = f"output{number}"
            np.testing.assert_array_equal(found.bytes(output), wanted.bytes(output))


def test_extreme_values_saturate_alike():
    """Full-range weights, inputs, biases and multipliers drive every stage to its limits."""
    rng = np.random.default_rng(11)
    memory, program = s.Memory(), s.Program()
    for i in range(8):
        t = Conv(
            c=128, oc=64, h=6, w=6, oh=6, ow=6, blocks=True, pad=-128,
            mul_shift=i, mul_shift_negative=2 * i, fused=i % 2 == 0,
            registers={s.OUT_SHIFT: 16 + 2 * i, s.EW_CVT_SCALE: 0x7FFF, s.OUT_SCALE: 0x7FFF},
        )  # fmt: skip
        data = random_tensors(rng, t)
        data.x[:] = rng.choice([-128, 127], data.x.shape)
        data.weights[:] = rng.choice([-128, 127], data.weights.shape)
        data.alu[:] = rng.choice([-(1 << 31), (1 << 31) - 1, 0], data.alu.shape)
        data.mul[:] = rng.choice([-(1 << 15), (1 << 15) - 1], data.mul.shape)
        data.ow[:] = rng.choice([-(1 << 15), (1 << 15) - 1, 0], data.ow.shape)
        program.add(conv_registers(t, memory, data, tag=str(i)))
    s.run_all_ways(memory, program.place(memory))
