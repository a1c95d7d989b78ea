"""The literal path against NumPy integers: convolution, stages, and what is written where."""

import dataclasses

import numpy as np

from tests.loops import for_each
from tests.sim import oracle
from tests.sim import stream as s
from tests.sim.programs import Conv, conv_registers, random_tensors


def random_conv(rng: np.random.Generator) -> Conv:
    """A convolution with odd sizes that uses any of the features."""

    def pick(*values: int) -> int:
        return int(rng.choice(values))

    def number(bits: int) -> int:
        return int(rng.integers(-(1 << bits), 1 << bits)) & 0xFFFFFFFF

    def chance(p: float) -> bool:
        return bool(rng.random() < p)

    depthwise = chance(0.4)
    kh, kw = pick(1, 1, 2, 3, 5), pick(1, 1, 2, 3, 7)
    sh, sw = pick(1, 1, 2, 3, 4), pick(1, 1, 2, 3, 5)
    dh, dw = pick(1, 1, 1, 2, 3), pick(1, 1, 1, 2, 4)
    pad_top, pad_left = int(rng.integers(0, kh + 1)), int(rng.integers(0, kw + 1))
    h, w = int(rng.integers(1, 24)), int(rng.integers(1, 40))
    t = Conv(
        c=int(rng.integers(1, 150)),
        oc=int(rng.integers(1, 130)),
        h=h, w=w, kh=kh, kw=kw, sh=sh, sw=sw, dh=dh, dw=dw,
        pad_top=pad_top,
        pad_left=pad_left,
        oh=int(rng.integers(1, -(-(h + pad_top) // sh) + 1)),
        ow=int(rng.integers(1, -(-(w + pad_left) // sw) + 1)),
        depthwise=depthwise,
        pad=int(rng.integers(-128, 128)),
        gap=pick(0, 0, 1, 4),
        blocks=chance(0.5),
        mul_shift=pick(0, 9, 14, 15),
        mul_shift_negative=pick(0, 9, 14, 15),
        ow_operand=pick(0, 0, -128, 3, 127, 30000),
        truncate=pick(0, 0, 0, 1, 4),
        fused=chance(0.3),
        bn_multipliers=chance(0.2),
        bn_summands=chance(0.15),
        bs_multipliers=chance(0.15),
    )  # fmt: skip
    if t.bn_summands:
        t = dataclasses.replace(t, bn_multipliers=False)
    if t.bs_multipliers:
        t = dataclasses.replace(t, blocks=False)
    # The size of typical accumulators, so that outputs are neither all zero nor all saturated.
    products = kh * kw * (1 if depthwise else t.c_al)
    bits = 12.5 + np.log2(products) / 2 - t.truncate + (14 - t.mul_shift if t.blocks else 0)
    typical = min(max(int(bits), 3), 30)
    shift = max(0, int(bits) + 14 - 6 + pick(-1, 0, 1, 3))
    registers = {
        s.OUT_SHIFT: pick(0, 1) << 30 | shift,
        s.OUT_SCALE: pick(0x4000, 0x5ABC, 0x7FFF, 0xC123),
        s.OUT_OFFSET: int(rng.integers(-128, 128)) & 0xFFFFFFFF,
        s.OFFSET_PEND: int(rng.integers(0, 256)),
        s.BN_CFG: pick(0x53, 0x53, 0x12, 0x92, 0x20050, 0x40090, 0x62, 0x42, 0x20040, 0x40080),
        s.BN_ALU_CFG: number(pick(12, typical, typical, 31)),
        s.BN_MUL_CFG: int(rng.integers(0, 1 << 16)) << 16 | 14 << 8,
        s.BN_RELUX: pick(0, 6000, 500000, -9000000 & 0xFFFFFFFF),
        s.EW_CVT_OFFSET: int(rng.integers(-300, 300)) & 0xFFFFFFFF,
        s.EW_CVT_SCALE: pick(0, 5) << 22 | pick(8, 11, 20) << 16 | int(rng.integers(0, 1 << 16)),
    }
    if t.bn_multipliers or t.bn_summands:
        del registers[s.BN_CFG], registers[s.BN_MUL_CFG]
    if not t.blocks and not t.bs_multipliers and chance(0.4):  # register operands
        registers |= {s.BS_CFG: pick(0x40050, 0x20140, 0x20060), s.BS_ALU_CFG: number(typical)}
        registers |= {s.BS_MUL_CFG: pick(0x4000, 0x7123, 0xB000) << 16 | 14 << 8}
        registers |= {s.DATA_FORMAT: 13 << 4 | 12 << 10}
    if not t.fused and chance(0.3):
        registers |= {s.EW_OP_VALUE_0 + 4 * i: number(typical) for i in range(8)}
        registers[s.EW_CFG] = 0x10020380
    if t.fused:
        operation = pick(0, 1, 2, 2, 4) << 16 | pick(0, 1) << 30 | pick(0, 1) << 9
        registers[s.EW_CFG] = 0x904000C0 | operation | pick(0, 0, 4)
    return dataclasses.replace(t, registers=registers)


@for_each("seed", range(180))
def test_literal_path_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_conv(rng)
    memory = s.Memory()
    data = random_tensors(rng, t)
    registers = conv_registers(t, memory, data)
    background = memory.bytes("output").view(np.int8).copy()
    s.run_one(memory, registers)
    pend = oracle.signed(registers[s.OFFSET_PEND], 8)
    expected = oracle.image(oracle.conv(t, registers, data), t.cube, pend, background)
    np.testing.assert_array_equal(memory.bytes("output").view(np.int8), expected)


def test_most_cases_distinguish_results() -> None:
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        t, memory = random_conv(rng), s.Memory()
        s.run_one(memory, conv_registers(t, memory, random_tensors(rng, t)), plain=True)
        found.append(len(np.unique(memory.bytes("output"))))
    assert sum(count > 10 for count in found) > 0.45 * len(found)


def test_depthwise_pads_odd_lanes_with_the_second_byte():
    t = Conv(depthwise=True, c=32, registers={s.PAD_CON1: 0xFFFFF305})
    data = random_tensors(np.random.default_rng(3), t)
    results = []
    for pad in (0x05, 0xFFFFFFF3):
        memory, program = s.Memory(), s.Program()
        program.add(
            conv_registers(Conv(**{**vars(t), "registers": {s.PAD_CON1: pad}}), memory, data)
        )
        s.run(memory, program.place(memory), plain=True)
        results.append(memory.bytes("output").reshape(-1, 16))
    memory, program = s.Memory(), s.Program()
    program.add(conv_registers(t, memory, data))
    s.run(memory, program.place(memory), plain=True)
    lanes = memory.bytes("output").reshape(-1, 16)
    np.testing.assert_array_equal(lanes[:, 0::2], results[0][:, 0::2])
    np.testing.assert_array_equal(lanes[:, 1::2], results[1][:, 1::2])
    assert (results[0] != results[1]).any()


def test_dense_pads_all_lanes_with_the_first_byte():
    t = Conv(c=32)
    data = random_tensors(np.random.default_rng(4), t)
    outputs = []
    for pad in (0x05, 0xFFFFF305):
        memory = s.Memory()
        registers = conv_registers(t, memory, data)
        registers[s.PAD_CON1] = pad
        s.run_one(memory, registers, plain=True)
        outputs.append(memory.bytes("output").copy())
    np.testing.assert_array_equal(*outputs)
