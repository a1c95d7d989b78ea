"""Tasks of the DPU alone against NumPy integers."""

import numpy as np

from tests.loops import for_each
from tests.sim import oracle
from tests.sim import stream as s
from tests.sim.programs import Elementwise, elementwise_registers, random_elementwise

EW = {"pixel": 0x904000C0, "channel": 0x804000C0, "register": 0x10000180}
"""EW with an operand of each kind, that of registers unconverted, without operation and clamp."""


def random_task(rng: np.random.Generator) -> Elementwise:
    """A task with any operation of EW, whose results are neither all zero nor all saturated."""

    def pick(*values: int) -> int:
        return int(rng.choice(values))

    second = str(rng.choice(["", "pixel", "pixel", "channel", "register"]))
    cvt_shift, ew_shift = pick(0, 3, 13), pick(0, 0, 6)
    operation = pick(0, 0x10000, 0x20000, 0x20000, 0x40000, 4, 0x24)
    scale = pick(1, 1, -1) * int(rng.integers(1, 4 << cvt_shift))
    wide = (16 if second == "register" else 8) - ew_shift if operation & 4 else 0
    registers = {
        s.OFFSET_PEND: pick(0, 0x85),
        s.OUT_SCALE: pick(0x4000, 0x4ABC, 0xC123),
        s.OUT_SHIFT: 16 + wide + pick(-2, 0, 2) | pick(0, 1) << 30,
        s.OUT_OFFSET: pick(0, 0xFFFFFFF6),
        s.EW_CVT_SCALE: ew_shift << 22 | cvt_shift << 16 | scale & 0xFFFF,
        s.DATA_FORMAT: pick(ew_shift, 3) << 16 | pick(13, 12) << 4,
    }
    if second:
        clamp, conversion = pick(0x200, 0x200, 0, 0x400), pick(0, 0x100, 1 << 30)
        registers[s.EW_CFG] = EW[second] | operation | clamp
        registers[s.EW_CFG] |= conversion if second != "register" else 0
        registers[s.EW_RELUX] = 150
    if rng.random() < 0.3:
        registers |= {s.BS_CFG: 0x53, s.OUT_SHIFT: registers[s.OUT_SHIFT] - 1}
    return Elementwise(
        *(int(rng.integers(1, most)) for most in (130, 12, 12)), gap=pick(0, 2), second=second,
        blocks=bool(rng.random() < 0.3), registers=registers,
    )  # fmt: skip


@for_each("seed", range(160))
def test_literal_path_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, memory = random_task(rng), s.Memory()
    data = random_elementwise(rng, t)
    registers = elementwise_registers(t, memory, data)
    background = memory.bytes("output").view(np.int8).copy()
    s.run_one(memory, registers, s.FLYING)
    pend = oracle.signed(registers[s.OFFSET_PEND], 8)
    expected = oracle.image(oracle.elementwise(t, registers, data), t.cube, pend, background)
    np.testing.assert_array_equal(memory.bytes("output").view(np.int8), expected)


def test_most_cases_distinguish_results() -> None:
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        t, memory = random_task(rng), s.Memory()
        registers = elementwise_registers(t, memory, random_elementwise(rng, t))
        s.run_one(memory, registers, s.FLYING, plain=True)
        found.append(len(np.unique(memory.bytes("output"))))
    assert sum(count > 20 for count in found) > 0.6 * len(found)


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
