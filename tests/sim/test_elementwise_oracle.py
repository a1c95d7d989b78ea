"""Tasks of the DPU alone against NumPy integers."""

import numpy as np
import pytest

from tests.sim import oracle
from tests.sim import stream as s
from tests.sim.programs import Elementwise, elementwise_registers, random_elementwise

CASES = {
    "scale": Elementwise(),
    "partial surface": Elementwise(c=21, registers={s.OFFSET_PEND: 0x85}),
    "gaps": Elementwise(c=48, gap=3),
    "add": Elementwise(second="pixel", gap=1),
    "add and relu": Elementwise(second="pixel", registers={s.EW_CFG: 0x904200C0}),
    "add and relux": Elementwise(
        second="pixel", registers={s.EW_CFG: 0x904204C0, s.EW_RELUX: 150, s.OUT_SHIFT: 14}
    ),
    "subtract by a negative scale": Elementwise(
        second="pixel", registers={s.EW_CVT_SCALE: 13 << 16 | 0xC000}
    ),
    "minus": Elementwise(second="pixel", registers={s.EW_CFG: 0x904402C0}),
    "max": Elementwise(second="pixel", registers={s.EW_CFG: 0x904002C0}),
    "min": Elementwise(second="pixel", registers={s.EW_CFG: 0x904102C0}),
    "convert with ties away": Elementwise(
        second="pixel",
        registers={s.EW_CFG: 0xD04202C0, s.EW_CVT_SCALE: 1 << 16 | 3, s.OUT_SHIFT: 14},
    ),
    "unconverted": Elementwise(second="pixel", registers={s.EW_CFG: 0x904203C0}),
    "multiply": Elementwise(
        second="pixel", registers={s.EW_CFG: 0x904002C4, s.EW_CVT_SCALE: 1, s.OUT_SHIFT: 23}
    ),
    "multiply and shift": Elementwise(
        second="pixel",
        registers={s.EW_CFG: 0x904002C4, s.EW_CVT_SCALE: 6 << 22 | 1, s.DATA_FORMAT: 3 << 16 | 208},
    ),
    "prelu by an operand": Elementwise(
        second="pixel",
        registers={
            s.EW_CFG: 0x904002E4,
            s.EW_CVT_SCALE: 7 << 22 | 1,
            s.DATA_FORMAT: 7 << 16 | 13 << 4,
        },
    ),
    "wide product": Elementwise(
        second="pixel",
        registers={
            s.BS_MUL_CFG: 0x7FFF << 16,
            s.EW_CFG: 0x904002C4,
            s.EW_CVT_SCALE: 15 << 22 | 0x7FFF,
            s.DATA_FORMAT: 15 << 16,
            s.OUT_SHIFT: 36,
        },
    ),
    "per channel": Elementwise(c=70, second="channel", gap=2),
    "registers": Elementwise(second="register", registers={s.OUT_SHIFT: 21}),
    "operands per channel": Elementwise(c=37, blocks=True),
    "ties to even": Elementwise(
        registers={s.BS_CFG: 0x53, s.OUT_SCALE: 0x4000, s.OUT_SHIFT: 15, s.OUT_OFFSET: 0}
    ),
    "ties away": Elementwise(
        registers={s.BS_CFG: 0x53, s.OUT_SCALE: 0x4000, s.OUT_SHIFT: 1 << 30 | 15, s.OUT_OFFSET: 0}
    ),
    "ties to even in BS": Elementwise(
        registers={
            s.BS_MUL_CFG: 0x4000 << 16 | 16 << 8,
            s.DATA_FORMAT: 15 << 4,
            s.OUT_SCALE: 0x4000,
            s.OUT_SHIFT: 14,
        }
    ),
    "one pixel": Elementwise(c=128, h=1, w=1, second="pixel"),
}


@pytest.mark.parametrize("name", CASES)
def test_literal_path_equals_numpy(name):
    t = CASES[name]
    memory, program = s.Memory(), s.Program()
    data = random_elementwise(np.random.default_rng(len(name)), t)
    registers = elementwise_registers(t, memory, data)
    program.add(registers, s.FLYING)
    background = memory.bytes("output").view(np.int8).copy()
    s.run_all_ways(memory, program.place(memory))
    pend = oracle.signed(registers[s.OFFSET_PEND], 8)
    expected = oracle.image(oracle.elementwise(t, registers, data), t.cube, pend, background)
    np.testing.assert_array_equal(memory.bytes("output").view(np.int8), expected)
    assert len(np.unique(expected)) > 3, "the case does not distinguish anything"


def test_in_place_is_allowed():
    t = Elementwise(second="pixel")
    memory = s.Memory()
    data = random_elementwise(np.random.default_rng(1), t)
    registers = elementwise_registers(t, memory, data)
    expected = oracle.elementwise(t, registers, data)
    registers[s.DST_BASE_ADDR] = registers[s.RDMA_SRC_BASE]
    s.run_one(memory, registers, s.FLYING)
    image = memory.bytes("input").view(np.int8)
    np.testing.assert_array_equal(
        image, oracle.image(expected, t.cube, 0, np.zeros(image.size, np.int8))
    )
