"""Lookup tables: upload, interpolation, what lies outside, fused behind a convolution."""

import numpy as np
import pytest

from delegate.errors import SimulatorFault
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s
from tests.sim.wide_programs import LUT_ACCESS_DATA, LUT_CFG, LUT_LO_END, lut_registers, lut_words

SIGMOID_RANGE, SIGMOID_SCALE = 6.31, 32767


def sigmoid_tables() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(513) * SIGMOID_RANGE / 512
    low, high = 1 / (1 + np.exp(SIGMOID_RANGE - x)), 1 / (1 + np.exp(-x))
    return (
        np.round(low * SIGMOID_SCALE).astype(np.int16),
        np.round(high * SIGMOID_SCALE).astype(np.int16),
    )


def random_tables(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-(1 << 15), 1 << 15, 513).astype(np.int16) for _ in range(2))  # type: ignore[return-value]


def look_up(r: s.Registers, le: np.ndarray, lo: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One value after the other, as the description reads."""
    scale, shift = r[0x4120], r[0x4124]
    lo_scale, lo_shift = r[0x4128], r[0x412C]

    def one(x: int) -> int:
        hybrid_lo, over_lo, under_lo = (r[LUT_CFG] >> bit & 1 for bit in (6, 5, 4))
        if -16384 <= x <= 0 and not (x == 0 and hybrid_lo):
            table, start = le, -16384
        elif 0 <= x <= 16384:
            table, start = lo, 0
        else:
            over = x > 0
            use_lo = over_lo if over else under_lo
            table, factor, by = (lo, lo_scale, lo_shift) if use_lo else (le, scale, shift)
            end = (0 if over else -16384) if not use_lo else (16384 if over else 0)
            if (not use_lo and over) or (use_lo and not over):
                end = 0
            part = factor >> 16 if over else factor & 0xFFFF
            slope = oracle.signed(part, 16)
            steps = by >> 5 & 31 if over else by & 31
            extra = oracle.half_even(np.array([(x - end) * slope]), steps)[0]
            return int(table[512 if over else 0]) + int(extra)
        index, fraction = divmod(x - start, 32)
        if fraction == 0:
            return int(table[index])
        step = (int(table[index + 1]) - int(table[index])) * fraction
        return int(table[index]) + int(oracle.half_even(np.array([step]), 5)[0])

    return np.array([one(int(x)) for x in v.reshape(-1)]).reshape(v.shape)


def out_stage(r: s.Registers, v: np.ndarray) -> np.ndarray:
    product = v * oracle.signed(r[s.OUT_SCALE], 16)
    rounded = oracle.half_even(product, r[s.OUT_SHIFT] & 0xFFF)
    return np.clip(rounded + oracle.signed(r[s.OUT_OFFSET], 32), -128, 127)


def upload(memory: s.Memory, program: s.Program, le: np.ndarray, lo: np.ndarray) -> None:
    """The dummy task of one pixel that writes the tables."""
    dummy = p.Elementwise(c=16, h=1, w=1)
    data = p.random_elementwise(np.random.default_rng(0), dummy)
    registers = p.elementwise_registers(dummy, memory, data, tag="_dummy")
    program.add(registers, s.FLYING, extra=lut_words(le, lo))


CASES = {
    "known use": {},
    "slope above": {"lo_scale": 0x4032 << 16, "lo_shift": 13 << 5},
    "slope below": {"le_scale": 0xC123, "le_shift": 11},
    "LE above and LO below": {"cfg": 0x18, "le_scale": 0x1234_0567, "le_shift": 12 << 5 | 9,
                              "lo_scale": 0x0765_1432, "lo_shift": 8 << 5 | 10},
    "LE at zero": {"cfg": 0x28},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_table_behind_an_elementwise_task(name):
    le, lo = random_tables(len(name))
    memory, program = s.Memory(), s.Program()
    upload(memory, program, le, lo)
    t = p.Elementwise(c=37, h=5, w=11)
    data = p.random_elementwise(np.random.default_rng(3), t)
    data.x[0, 0, 0] = -13  # becomes 0: both tables have it
    # 127 + 13 times 150 goes beyond the tables on either side.
    changes = {s.BS_MUL_CFG: 150 << 16, s.DATA_FORMAT: 0, s.OUT_SCALE: 0x4ABC, s.OUT_SHIFT: 22}
    r = p.elementwise_registers(t, memory, data) | lut_registers(**CASES[name]) | changes
    program.add(r, s.FLYING, pointer=s.CLEAR)
    s.run(memory, program.place(memory), chained=True)
    v = (data.x[: t.c].astype(np.int64) + 13) * 150
    assert (v > 16384).any()
    expected = out_stage(r, look_up(r, le, lo, v))
    found = p.from_surfaces(memory.bytes("output"), t.c, t.h, t.w, t.h * t.w)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


@pytest.mark.parametrize("operation", ["max", "minus"])
def test_the_table_comes_before_the_operation_of_ew(operation):
    """EW_CFG 0x300 (MAX with register operand 0), as the vendor's stand-alone sigmoid has it."""
    le, lo = random_tables(21)
    memory, program = s.Memory(), s.Program()
    upload(memory, program, le, lo)
    t = p.Elementwise(c=37, h=5, w=11)
    data = p.random_elementwise(np.random.default_rng(3), t)
    changes = {s.BS_MUL_CFG: 120 << 16, s.DATA_FORMAT: 0, s.OUT_SCALE: 0x4ABC, s.OUT_SHIFT: 22}
    r = p.elementwise_registers(t, memory, data) | lut_registers() | changes
    operands = np.zeros(t.c, np.int64)
    if operation == "minus":
        operands = (np.arange(t.c) % 8 - 3) * 2000
        values = {s.EW_OP_VALUE_0 + 4 * i: int(operands[i]) & 0xFFFFFFFF for i in range(8)}
        r |= {s.EW_CFG: 0x40300, **values}
    else:
        r |= {s.EW_CFG: 0x300} | {s.EW_OP_VALUE_0 + 4 * i: 0 for i in range(8)}
    program.add(r, s.FLYING, pointer=s.CLEAR)
    s.run_all_ways(memory, program.place(memory), chained=True)
    looked_up = look_up(r, le, lo, (data.x[: t.c].astype(np.int64) + 13) * 120)
    assert (looked_up < 0).any()
    operand = operands[:, None, None]
    v = np.maximum(looked_up, operand) if operation == "max" else looked_up - operand
    found = p.from_surfaces(memory.bytes("output"), t.c, t.h, t.w, t.h * t.w)
    np.testing.assert_array_equal(found, out_stage(r, v))


def test_entries_are_extended_by_their_sign_or_by_zeros():
    le, lo = random_tables(4)
    memory, program = s.Memory(), s.Program()
    t = p.Elementwise(c=16, h=3, w=5)
    data = p.random_elementwise(np.random.default_rng(0), t)
    r = p.elementwise_registers(t, memory, data) | lut_registers()
    results = []
    for words in (
        lut_words(le, lo),
        [word | 0xFFFF << 32 if word >> 31 & 1 else word for word in lut_words(le, lo)],
    ):
        program = s.Program()
        program.add(r, s.FLYING, extra=words)
        image = memory.copy()
        s.run(image, program.place(image))
        results.append(image.bytes("output"))
    assert (le < 0).any()
    np.testing.assert_array_equal(*results)
    fault = one_lut_task([*lut_words(le, lo)[:-1], s.word(0x1001, LUT_ACCESS_DATA, 0x10007)])
    assert (fault.kind, fault.register) == ("ReservedBits", "DPU.LUT_ACCESS_DATA")


def test_sigmoid_behind_a_convolution():
    """A convolution with the known sigmoid tables is a convolution followed by a sigmoid."""
    le, lo = sigmoid_tables()
    memory, program = s.Memory(), s.Program()
    upload(memory, program, le, lo)
    t = p.Conv(c=40, oc=37, h=9, w=7, oh=9, ow=7, blocks=True, mul_shift=14, mul_shift_negative=14)
    data = p.random_tensors(np.random.default_rng(5), t)
    index_bits = 14
    r = p.conv_registers(t, memory, data) | lut_registers() | {
        s.BN_CFG: 0x42,
        s.BN_MUL_CFG: 0x4000 << 16 | index_bits << 8,
        s.DATA_FORMAT: index_bits << 10 | 14 << 4,
        s.OUT_SCALE: 0x4000,
        s.OUT_SHIFT: 21,
        s.OUT_OFFSET: 0xFFFFFF80,
    }  # fmt: skip
    program.add(r, s.CONV, pointer=s.CLEAR)
    tasks = program.place(memory)
    plain = memory.copy()
    s.run(memory, tasks, chained=True, threads=2)
    s.run(plain, tasks, chained=True, plain=True)
    np.testing.assert_array_equal(memory.bytes("output"), plain.bytes("output"))
    acc, sums = oracle.accumulate(t, data)
    v = oracle.sat32(acc + sums * data.ow[:, None, None])
    v = oracle.bs_stage(v, r[s.BS_CFG], data.alu, data.mul, r[s.BS_MUL_CFG], 14, 0)
    v = oracle.half_even(v * 0x4000, index_bits)
    expected = out_stage(r, look_up(r, le, lo, v))
    found = p.from_surfaces(memory.bytes("output"), t.oc, t.oh, t.ow, t.oh * t.ow)
    np.testing.assert_array_equal(found, expected)
    real = 256 / (1 + np.exp(-np.clip(v / 16384, -1, 1) * SIGMOID_RANGE)) - 128
    assert np.abs(found - np.clip(np.round(real), -128, 127)).max() <= 1


def test_tables_outlive_the_tasks_between():
    le, lo = random_tables(9)
    memory, program = s.Memory(), s.Program()
    upload(memory, program, le, lo)
    t = p.Elementwise(c=16, h=3, w=5)
    expected = []
    for i in range(3):
        data = p.random_elementwise(np.random.default_rng(i), t)
        changes = {s.BS_MUL_CFG: 90 << 16, s.DATA_FORMAT: 0, s.OUT_SHIFT: 22}
        r = p.elementwise_registers(t, memory, data, tag=str(i)) | lut_registers() | changes
        program.add(r, s.FLYING)
        v = (data.x.astype(np.int64) + 13) * 90
        expected.append(out_stage(r, look_up(r, le, lo, v)))
    s.run(memory, program.place(memory), chained=True)
    for i, image in enumerate(expected):
        found = p.from_surfaces(memory.bytes(f"output{i}"), 16, 3, 5, 15)
        np.testing.assert_array_equal(found, image)


def one_lut_task(extra: list[int], **changes: int) -> SimulatorFault:
    memory, program = s.Memory(), s.Program()
    t = p.Elementwise(c=16, h=1, w=3)
    data = p.random_elementwise(np.random.default_rng(0), t)
    offsets = {"end": LUT_LO_END, "cfg": LUT_CFG, "ew": s.EW_CFG}
    r = p.elementwise_registers(t, memory, data) | lut_registers()
    r |= {offsets[name]: value for name, value in changes.items()}
    program.add(r, s.FLYING, extra=extra)
    with pytest.raises(SimulatorFault) as fault:
        s.run(memory, program.place(memory))
    return fault.value


def test_tables_must_be_complete():
    le, lo = random_tables(0)
    fault = one_lut_task(lut_words(le, lo)[:-1])
    assert (fault.kind, fault.register) == ("NeverWrittenRegister", "DPU.LUT_ACCESS_DATA")
    fault = one_lut_task([*lut_words(le, lo), s.word(0x1001, 0x4104, 7)])
    assert (fault.kind, fault.register) == ("InvalidValue", "DPU.LUT_ACCESS_DATA")


def test_unknown_uses_are_named():
    words = lut_words(*random_tables(0))
    assert one_lut_task(words, end=16385).kind == "InvalidValue"
    assert one_lut_task(words, cfg=0x6A).register == "DPU.LUT_CFG.LUT_EXPAND_EN"
    assert one_lut_task(words, cfg=0x60).register == "DPU.LUT_CFG.LUT_LO_LE_MUX"
    assert one_lut_task(words, ew=0x102).register == "DPU.EW_CFG.EW_RELU_BYPASS"
