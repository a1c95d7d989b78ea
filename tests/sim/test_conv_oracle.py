"""The literal path against NumPy integers: convolution, stages, and what is written where."""

import numpy as np

from tests.loops import for_each
from tests.sim import oracle
from tests.sim import stream as s
from tests.sim.programs import Conv, conv_registers, random_tensors

BS_MUL = {"blocks": True, "mul_shift": 14, "mul_shift_negative": 14}
CASES = {
    "dense": Conv(),
    "rectangular kernel": Conv(kh=1, kw=4, pad_top=0, pad_left=2, oh=7, ow=6),
    "pointwise": Conv(kh=1, kw=1, pad_top=0, pad_left=0),
    "partial input group": Conv(c=37, oc=64),
    "three input groups": Conv(c=80, oc=40, h=6, w=9, oh=6, ow=9),
    "partial output group": Conv(oc=41),
    "odd kernels": Conv(oc=3),
    "stride": Conv(h=11, w=8, sh=2, sw=3, oh=6, ow=3),
    "dilation": Conv(h=11, w=13, dh=2, dw=3, pad_top=2, pad_left=3, oh=11, ow=13),
    "stride and dilation": Conv(h=13, w=17, sh=3, sw=2, dh=3, dw=2, oh=4, ow=8),
    "no padding": Conv(pad_top=0, pad_left=0, oh=5, ow=3),
    "surface gaps": Conv(c=48, oc=64, gap=3),
    "one row": Conv(h=1, w=19, oh=1, ow=19),
    "one column": Conv(h=19, w=1, oh=19, ow=1),
    "one pixel": Conv(h=1, w=1, kh=1, kw=1, pad_top=0, pad_left=0, oh=1, ow=1, c=96, oc=70),
    "window sum": Conv(ow_operand=-37),
    "positive window sum": Conv(ow_operand=128, c=37),
    "per channel": Conv(oc=50, **BS_MUL),
    "negative shift": Conv(oc=32, blocks=True, mul_shift=10, mul_shift_negative=13),
    "truncated": Conv(truncate=3, ow_operand=5),
    "depthwise": Conv(depthwise=True, c=64),
    "depthwise rest 16": Conv(depthwise=True, c=72, gap=1),
    "depthwise rest 32": Conv(depthwise=True, c=96, ow_operand=-9),
    "depthwise rest 48": Conv(depthwise=True, c=42, sh=2, sw=2, oh=4, ow=3),
    "depthwise stride": Conv(depthwise=True, c=64, h=9, w=12, sh=2, sw=2, oh=5, ow=6),
    "depthwise dilation": Conv(
        depthwise=True, c=16, h=9, w=12, dh=2, dw=4, pad_left=4, pad_top=2, oh=9, ow=12
    ),
    "depthwise per channel": Conv(depthwise=True, c=70, **BS_MUL),
    "depthwise truncated": Conv(depthwise=True, c=64, truncate=2, ow_operand=7),
    "relu": Conv(registers={s.BN_CFG: 0x12}),
    "relu6": Conv(registers={s.BN_CFG: 0x92, s.BN_RELUX: 90000}),
    "bn alu": Conv(registers={s.BN_CFG: 0x20050, s.BN_ALU_CFG: 0xFFFF0000}),
    "bs minus register": Conv(registers={s.BS_CFG: 0x40050, s.BS_ALU_CFG: 77777}),
    "clip": Conv(
        registers={
            s.BN_CFG: 0x20090,
            s.BN_ALU_CFG: -5000 & 0xFFFFFFFF,
            s.BN_RELUX: 60000,
            s.EW_CFG: 0x10020380,
            **{s.EW_OP_VALUE_0 + 4 * i: 5000 + 100 * i for i in range(8)},
        }
    ),
    "leaky relu": Conv(
        registers={
            s.BS_CFG: 0x20140,
            s.BS_MUL_CFG: 0x4000 << 16,
            s.DATA_FORMAT: 14 << 4,
            s.BN_CFG: 0x62,
            s.BN_MUL_CFG: 1638 << 16,
            s.OUT_SHIFT: 40,
        }
    ),
    "bn multiplier": Conv(
        registers={s.BN_CFG: 0x42, s.BN_MUL_CFG: 0x7123 << 16 | 15 << 8, s.DATA_FORMAT: 13 << 10}
    ),
    "bn multiplies, then adds": Conv(
        registers={
            s.BN_CFG: 0x20040,
            s.BN_ALU_CFG: 0x4567_89AB,
            s.BN_MUL_CFG: 0x7123 << 16 | 15 << 8,
            s.DATA_FORMAT: 13 << 10,
        }
    ),
    "bn multiplies, subtracts and limits": Conv(
        registers={
            s.BN_CFG: 0x40080,
            s.BN_ALU_CFG: -0x3456_789A & 0xFFFFFFFF,
            s.BN_MUL_CFG: (-0x5123 & 0xFFFF) << 16 | 14 << 8,
            s.DATA_FORMAT: 14 << 10,
            s.BN_RELUX: 150000,
        }
    ),
    "bn sum beyond 32 bits": Conv(
        registers={
            s.BS_CFG: 0x20040,
            s.BS_MUL_CFG: 0x7FFF << 16,
            s.BN_CFG: 0x20040,
            s.BN_ALU_CFG: 0x7FFFFFFF,
            s.BN_MUL_CFG: 0x7FFF << 16 | 14 << 8,
            s.DATA_FORMAT: 15 << 10,
            s.OUT_SHIFT: 40,
        }
    ),
    "bn summands per channel": Conv(oc=45, bn_summands=True),
    "bn summands per channel alone": Conv(
        oc=45, bn_summands=True, registers={s.BN_CFG: 0x20150, s.OUT_SHIFT: 36}
    ),
    "bs multipliers per channel alone": Conv(
        oc=45, bs_multipliers=True, mul_shift=13, mul_shift_negative=12, ow_operand=3
    ),
    "bs multipliers behind a register's summand": Conv(
        depthwise=True,
        c=70,
        bs_multipliers=True,
        mul_shift=12,
        mul_shift_negative=12,
        registers={s.BS_CFG: 0x20040, s.BS_ALU_CFG: -3000 & 0xFFFFFFFF},
    ),
    "bn multipliers per channel": Conv(oc=45, bn_multipliers=True),
    "bn prelu per channel": Conv(oc=45, bn_multipliers=True, registers={s.BN_CFG: 0x62}),
    "relux below zero": Conv(
        registers={s.BN_CFG: 0x92, s.BN_RELUX: -9000000 & 0xFFFFFFFF, s.EW_CFG: 0x10020380}
        | {s.EW_OP_VALUE_0 + 4 * i: 9000000 + 20000 * i for i in range(8)}
    ),
    "ties away": Conv(registers={s.OUT_SCALE: 0x4000, s.OUT_SHIFT: 1 << 30 | 24}),
    "ties to even": Conv(registers={s.OUT_SCALE: 0x4000, s.OUT_SHIFT: 24}),
    "negative out scale": Conv(registers={s.OUT_SCALE: 0x8000, s.OUT_OFFSET: 0xFFFFFFF0}),
    "pad value": Conv(registers={s.OFFSET_PEND: 0x1F3}, oc=5),
    "fused": Conv(
        fused=True,
        c=32,
        oc=80,
        gap=5,
        registers={s.EW_CVT_OFFSET: 0xFFFFFFF5, s.EW_CVT_SCALE: 7 << 16 | 0x5123},
    ),
    "fused one surface": Conv(fused=True, oc=10, registers={s.EW_CVT_SCALE: 0x6000}),
    "fused relu": Conv(fused=True, oc=64, registers={s.EW_CFG: 0x904200C0, s.EW_CVT_SCALE: 0x3001}),
    "fused minus": Conv(fused=True, oc=64, registers={s.EW_CFG: 0x904402C0, s.EW_CVT_SCALE: 4095}),
    "fused max": Conv(fused=True, oc=64, registers={s.EW_CFG: 0x904002C0, s.EW_CVT_SCALE: 999}),
    "fused wide product": Conv(
        fused=True,
        oc=40,
        ow_operand=-11,
        truncate=1,
        registers={
            s.EW_CFG: 0x904002C4,
            s.EW_CVT_SCALE: 20 << 22 | 0x7FFF,
            s.DATA_FORMAT: 20 << 16,
            s.OUT_SHIFT: 32,
            s.BS_CFG: 0x20150,
        },
    ),
    "fused wide product depthwise": Conv(
        fused=True,
        depthwise=True,
        c=40,
        ow_operand=-11,
        registers={
            s.EW_CFG: 0x904002C4,
            s.EW_CVT_SCALE: 20 << 22 | 0x7FFF,
            s.DATA_FORMAT: 20 << 16,
            s.OUT_SHIFT: 28,
            s.BS_CFG: 0x20150,
        },
    ),
    "fused depthwise": Conv(
        fused=True, depthwise=True, c=100, registers={s.EW_CVT_SCALE: 2 << 16 | 0x7777}
    ),
}


@for_each("name", CASES)
def test_literal_path_equals_numpy(name):
    t = CASES[name]
    rng = np.random.default_rng(len(name))
    memory, program = s.Memory(), s.Program()
    data = random_tensors(rng, t)
    registers = conv_registers(t, memory, data)
    program.add(registers)
    background = memory.bytes("output").view(np.int8).copy()
    s.run_all_ways(memory, program.place(memory))
    pend = oracle.signed(registers[s.OFFSET_PEND], 8)
    expected = oracle.image(oracle.conv(t, registers, data), t.cube, pend, background)
    np.testing.assert_array_equal(memory.bytes("output").view(np.int8), expected)
    assert len(np.unique(expected)) > 3, "the case does not distinguish anything"


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
