"""Tests what worse chips compute, against NumPy: right results of other registers, or a formula."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tests.loops import for_each
from tests.sim import oracle
from tests.sim import programs as p
from tests.sim import stream as s

KINDS = ("dense", "depthwise", "transposed", "alone")
CONVS = KINDS[:3]
DENSE = p.Conv(c=16, oc=104, h=5, w=4, kh=2, kw=2, dh=2, dw=2, oh=4, ow=3, blocks=True, truncate=2)
SHAPES: dict[str, p.Conv | p.Elementwise] = {
    "dense": DENSE,
    "depthwise": replace(DENSE, c=142, depthwise=True),
    "transposed": replace(DENSE, h=3, w=2, oh=5, ow=3, c=142, depthwise=True, dh=1, dw=1),
    "alone": p.Elementwise(c=104, h=4, w=3, blocks=True),
}


@dataclass
class Case:
    """A task of a kind, and what the oracle needs of it."""

    t: p.Conv | p.Elementwise
    r: s.Registers
    data: p.Tensors

    def values(self) -> p.Int64:
        """Return what goes into the stages, [C, h, w]."""
        if isinstance(self.t, p.Elementwise):
            return self.data.x[: self.t.c].astype(np.int64)
        acc, sums = oracle.accumulate(self.t, self.data)
        total = acc + sums * self.data.ow[:, None, None]
        return oracle.sat32(oracle.half_away(total, self.t.truncate))

    def expected(self) -> p.Int8:
        """All stages; the operand of EW is one number per channel."""
        return oracle.stages(self.r, self.values(), self.data, self.data.ew[: len(self.data.alu)])


def make(
    kind: str, registers: s.Registers, blocks: bool = True
) -> tuple[Case, Callable[[str], p.Int8]]:
    """A case, and what it gives on a chip with the named deviation."""
    rng = np.random.default_rng(len(kind))
    memory, program = s.Memory(), s.Program()
    t = replace(SHAPES[kind], blocks=blocks)
    if isinstance(t, p.Elementwise):
        data = p.random_elementwise(rng, t)
        data.bn_mul = rng.integers(-(1 << 15), 1 << 15, t.c)
        real, cube, h, w = t.c, t.cube, t.h, t.w
    else:
        data = p.random_tensors(rng, t)
        if t.depthwise:
            data.alu //= 32
        real, cube, h, w = t.real, t.cube, t.oh, t.ow
    data.ew[:] = data.ew[:, :1, :1]
    mask = s.FLYING if isinstance(t, p.Elementwise) else s.CONV
    place = p.elementwise_registers if isinstance(t, p.Elementwise) else p.conv_registers
    r = place(t, memory, data)  # type: ignore[operator]
    r |= {s.ERDMA_CFG: 4, s.EW_SURF_STRIDE: 16, s.NRDMA_CFG: 8}
    r |= {s.EW_BASE: memory.add("ew", data.ew[:, 0, 0])}
    r |= {s.BN_BASE: memory.add("bn", data.bn_mul.astype("<i2"))}
    r |= registers
    seen: p.Conv | p.Elementwise = t
    if kind == "transposed":
        assert isinstance(t, p.Conv)
        r |= {s.CONV_CON1: 0x10003, s.CONV_CON3: r[s.CONV_CON3] | 0x900}
        spread = np.full((t.c_al, 5, 3), t.pad, np.int8)
        spread[:, ::2, ::2] = data.x
        data = replace(data, x=spread)
        seen = replace(t, h=5, w=3)
    program.add(r, mask)
    tasks = program.place(memory)

    def found(deviations: str) -> p.Int8:
        own = memory.copy()
        s.run(own, tasks, deviations=deviations)
        return p.from_surfaces(own.bytes("output"), p.align(real, 16), h, w, h * w)[:real]

    assert cube >= real
    return Case(seen, r, data), found


# Every stage at work, in the middle of its range.
FULL = {
    s.BS_CFG: 0x20180, s.BS_MUL_CFG: 14 << 8 | 1, s.BS_RELUX: 50_000,
    s.BN_CFG: 0x82, s.BN_MUL_CFG: 13 << 8 | 1, s.BN_RELUX: 70_000,
    s.EW_CFG: 0x804004C4, s.EW_CVT_OFFSET: 3, s.EW_CVT_SCALE: 6 << 22 | 1 << 16 | 3,
    s.EW_RELUX: 40_000, s.DATA_FORMAT: 7 << 16 | 11 << 10 | 12 << 4,
    s.OUT_SCALE: 0x4ABC, s.OUT_SHIFT: 23, s.OUT_OFFSET: 5,
}  # fmt: skip
# Where sums are smaller.
FEWER = {s.BS_RELUX: 9000, s.BN_RELUX: 7000, s.EW_RELUX: 6000, s.OUT_SHIFT: 20}
MIDDLE: dict[str, s.Registers] = {
    "dense": {},
    "depthwise": FEWER,
    "transposed": FEWER,
    "alone": {s.BS_RELUX: 900, s.BN_RELUX: 900, s.EW_RELUX: 500, s.OUT_SHIFT: 17,
              s.BS_MUL_CFG: 12 << 8 | 1},
}  # fmt: skip
# Nothing is left of negative values otherwise.
UNCLAMPED = {s.BS_CFG: 0x20140, s.BN_CFG: 0x42, s.EW_CFG: 0x804002C4}


def set_bits(register: int, value: int) -> Callable[[Case], None]:
    return lambda case: case.r.__setitem__(register, case.r[register] | value)


def clear_bits(register: int, value: int) -> Callable[[Case], None]:
    return lambda case: case.r.__setitem__(register, case.r[register] & ~value)


def both(*changes: Callable[[Case], None]) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        for each in changes:
            each(case)

    return change


def fill(name: str, value: int) -> Callable[[Case], None]:
    return lambda case: getattr(case.data, name).fill(value)


def shape(**changes: int) -> Callable[[Case], None]:
    return lambda case: setattr(case, "t", replace(case.t, **changes))


def from_channels(
    names: tuple[str, ...], source: Callable[[p.Int64, int], p.Int64]
) -> Callable[[Case], None]:
    """Operands of channel c become those of ``source(c, channels of groups)``, or 0."""

    def change(case: Case) -> None:
        real = len(case.data.alu)
        count = case.t.cube
        for name in names:
            old = getattr(case.data, name)
            new = np.zeros((count, *old.shape[1:]), old.dtype)
            new[: min(real, len(old))] = old[:real]
            taken = new[source(np.arange(count), count)]
            setattr(case.data, name, taken[: len(old)])

    return change


def rest_is_zero(*names: str) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        for name in names:
            getattr(case.data, name)[len(case.data.alu) // 16 * 16 :] = 0

    return change


def next_group(case: Case) -> None:
    group = 64 if getattr(case.t, "depthwise", False) else 32
    weights = case.data.weights
    whole = len(case.data.alu) // group * group
    weights[:whole] = np.roll(weights[:whole], -group, axis=0)


def rest_of_kernels(case: Case) -> None:
    group = 64 if getattr(case.t, "depthwise", False) else 32
    case.data.weights[len(case.data.alu) // group * group :] = 0


PLACES = {
    "of_next_8": lambda c, count: (c + 8) % count,
    "of_next_32": lambda c, count: (c + 32) % count,
    "of_first_32": lambda c, count: c % 32,
}
OF_BS = ("alu", "ow", "mul")
ALL_STAGES: dict[str, Callable[[Case], None]] = {
    "bs:summand_ignored": set_bits(s.BS_CFG, 2),
    "bs:multiplier_ignored": fill("mul", 1),
    "bs:shift_ignored": both(clear_bits(s.BS_MUL_CFG, 63 << 8), clear_bits(s.DATA_FORMAT, 63 << 4)),
    "bs:shift_of_negatives_ignored": clear_bits(s.DATA_FORMAT, 63 << 4),
    "bs:clamp_missing": set_bits(s.BS_CFG, 0x40),
    "bs:limit_missing": clear_bits(s.BS_CFG, 0x80),
    "bs:operands_of_the_rest_zero": rest_is_zero(*OF_BS),
    "bn:multiplier_ignored": fill("bn_mul", 1),
    "bn:shift_ignored": both(
        clear_bits(s.BN_MUL_CFG, 63 << 8), clear_bits(s.DATA_FORMAT, 63 << 10)
    ),
    "bn:shift_of_negatives_ignored": clear_bits(s.DATA_FORMAT, 63 << 10),
    "bn:clamp_missing": set_bits(s.BN_CFG, 0x40),
    "bn:limit_missing": clear_bits(s.BN_CFG, 0x80),
    "bn:operands_of_the_rest_zero": rest_is_zero("bn_mul"),
    "ew:conversion_ignored": set_bits(s.EW_CFG, 0x100),
    "ew:conversion_offset_ignored": clear_bits(s.EW_CVT_OFFSET, 3),
    "ew:conversion_scale_ignored": clear_bits(s.EW_CVT_SCALE, 2),
    "ew:conversion_shift_ignored": clear_bits(s.EW_CVT_SCALE, 63 << 16),
    "ew:conversion_ties_away": set_bits(s.EW_CFG, 1 << 30),
    "ew:shift_ignored": both(
        clear_bits(s.EW_CVT_SCALE, 1023 << 22), clear_bits(s.DATA_FORMAT, 63 << 16)
    ),
    "ew:shift_of_negatives_ignored": clear_bits(s.DATA_FORMAT, 63 << 16),
    "ew:clamp_missing": set_bits(s.EW_CFG, 0x200),
    "ew:limit_missing": clear_bits(s.EW_CFG, 0x400),
    "out:shift_ignored": clear_bits(s.OUT_SHIFT, 63),
    "out:offset_ignored": clear_bits(s.OUT_OFFSET, 255),
    "out:scale_ignored": both(clear_bits(s.OUT_SCALE, 0xFFFF), set_bits(s.OUT_SCALE, 1)),
    **{f"bs:operands_{name}": from_channels(OF_BS, at) for name, at in PLACES.items()},
    **{f"bn:operands_{name}": from_channels(("bn_mul",), at) for name, at in PLACES.items()},
    **{f"ew:operands_{name}": from_channels(("ew",), at) for name, at in PLACES.items()},
}
MAC: dict[str, Callable[[Case], None]] = {
    "core:input_sums_ignored": fill("ow", 0),
    "core:shift_ignored": shape(truncate=0),
    "cna:dilation_ignored": shape(dh=1, dw=1),
    "cna:padding_of_zeros": shape(pad=0),
    "cbuf:groups_swapped": next_group,
    "cbuf:rest_of_kernels_zero": rest_of_kernels,
}
AS_HEALTHY = [(kind, way) for kind in KINDS for way in ALL_STAGES]
AS_HEALTHY += [(kind, way) for kind in CONVS for way in MAC]
# Taps two apart would all meet pixels, or all zeros.
AS_HEALTHY.remove(("transposed", "cna:dilation_ignored"))


@for_each("kind, way", AS_HEALTHY)
def test_it_computes_what_others_registers_or_tensors_give(kind: str, way: str) -> None:
    unclamped = UNCLAMPED if "negatives" in way else {}
    case, found = make(kind, FULL | MIDDLE[kind] | unclamped)
    right = case.expected()
    np.testing.assert_array_equal(found(""), right)
    worse = copy.deepcopy(case)
    {**ALL_STAGES, **MAC}[way](worse)
    expected = worse.expected()
    assert (expected != right).any(), "the case does not show it"
    np.testing.assert_array_equal(found(f"{kind}:{way}"), expected)


def rounding(way: str) -> Callable[[Fraction], int]:
    """To an integer, by definition."""

    def rounded(x: Fraction) -> int:
        floor = x.numerator // x.denominator
        rest = x - floor
        if way == "floored":
            return floor
        if way == "truncated":
            return floor + int(x < 0 and rest > 0)
        if rest != Fraction(1, 2):
            return floor + int(rest > Fraction(1, 2))
        return floor + {"ties_up": 1, "ties_even": floor & 1, "ties_away": int(x > 0)}[way]

    return rounded


def shifted(values: p.Int64, shift: int, way: str) -> p.Int64:
    round_it = rounding(way)
    flat = [round_it(Fraction(int(v), 1 << shift)) for v in values.reshape(-1)]
    return np.array(flat, np.int64).reshape(values.shape)


OFF = {
    s.BS_CFG: 0x53, s.BN_CFG: 0x53, s.EW_CFG: 0x383, s.ERDMA_CFG: 1, s.NRDMA_CFG: 0, s.BRDMA_CFG: 0,
    s.OUT_SCALE: 1, s.OUT_SHIFT: 0, s.OUT_OFFSET: 0,
}  # fmt: skip
WAYS = ("ties_even", "ties_away", "ties_up", "truncated", "floored")
SHIFTS = {"dense": 10, "depthwise": 7, "transposed": 7, "alone": 1}
"""The shifts of products with 3 in one stage, so that some 8 bits are left."""


def alone_registers(stage: str, shift: int) -> s.Registers:
    """Only this stage is at work: it takes 3 times what comes, or adds half of 3 times a number."""
    signs = {"bs": shift << 4, "bn": shift << 10, "ew": shift << 16}
    registers = OFF | {s.DATA_FORMAT: signs.get(stage, 0)}
    values = {s.EW_OP_VALUE_0 + 4 * i: 3 if stage == "ew" else 2 * i - 7 for i in range(8)}
    return registers | {
        "bs": {s.BS_CFG: 0x42, s.BS_MUL_CFG: 3 << 16 | shift << 8},
        "bn": {s.BN_CFG: 0x42, s.BN_MUL_CFG: 3 << 16 | shift << 8},
        "ew": {s.EW_CFG: 0x80000384, s.EW_CVT_SCALE: shift << 22 | 1, **values},
        "ew:conversion": {s.EW_CFG: 0x80020280, s.EW_CVT_SCALE: 1 << 16 | 3, s.EW_CVT_OFFSET: 0,
                          **values},
        "out": {s.OUT_SCALE: 3, s.OUT_SHIFT: shift},
    }[stage]  # fmt: skip


@for_each("way", WAYS)
@for_each("stage", ["bs", "bn", "ew", "ew:conversion", "out"])
@for_each("kind", KINDS)
def test_roundings(kind: str, stage: str, way: str) -> None:
    own = way == "ties_even"
    deviation = f"{kind}:{stage}{'_' if ':' in stage else ':'}{way}"
    shift = SHIFTS[kind]
    registers = alone_registers(stage, shift)
    if stage == "ew:conversion" and kind != "alone":  # brings the sums down
        registers |= {s.BS_CFG: 0x42, s.BS_MUL_CFG: 1 << 16 | shift << 8, s.DATA_FORMAT: shift << 4}
    case, found = make(kind, registers, blocks=False)
    v = case.values()
    if stage == "ew:conversion":
        if kind != "alone":
            v = shifted(v, shift, "ties_even")
        operand = np.array([2 * (c % 8) - 7 for c in range(len(v))])[:, None, None]
        expected = v + shifted(operand * 3, 1, way)
    else:
        expected = shifted(v * 3, shift, way)
    always_even = stage in ("bs", "bn", "ew")
    result = found("" if own and always_even else deviation)
    np.testing.assert_array_equal(result, np.clip(expected, -128, 127))
    assert own or (result != found("")).any()


def clamped(values: p.Int64, limit: int) -> p.Int64:
    return np.minimum(np.maximum(values, 0), limit)


ORDERS: dict[str, tuple[s.Registers, Callable[[p.Int64, int], p.Int64]]] = {
    "bs:other_order": (
        {s.BS_CFG: 0x20040, s.BS_ALU_CFG: 500, s.BS_MUL_CFG: 3 << 16},
        lambda v, n: shifted(v * 3 + 500, n, "ties_even"),
    ),
    "bn:other_order": (
        {s.BN_CFG: 0x20040, s.BN_ALU_CFG: 500, s.BN_MUL_CFG: 3 << 16},
        lambda v, n: shifted((v + 500) * 3, n, "ties_even"),
    ),
    "bs:clamp_before_shift": (
        {s.BS_CFG: 0x82, s.BS_RELUX: 99, s.BS_MUL_CFG: 3 << 16},
        lambda v, n: shifted(clamped(v * 3, 99), n, "ties_even"),
    ),
    "bn:clamp_before_shift": (
        {s.BN_CFG: 0x82, s.BN_RELUX: 99, s.BN_MUL_CFG: 3 << 16},
        lambda v, n: shifted(clamped(v * 3, 99), n, "ties_even"),
    ),
    "ew:clamp_before_shift": (
        {s.EW_CFG: 0x80000584, s.EW_RELUX: 99, s.EW_CVT_SCALE: 1},
        lambda v, n: shifted(clamped(v * 3, 99), n, "ties_even"),
    ),
    "out:offset_before_scale": (
        {s.OUT_SCALE: 3, s.OUT_OFFSET: 70},
        lambda v, n: shifted((v + 70) * 3, n, "ties_even"),
    ),
    "out:clamp_before_offset": (
        {s.OUT_SCALE: 3, s.OUT_OFFSET: -70 & 0xFFFFFFFF},
        lambda v, n: np.clip(shifted(v * 3, n, "ties_even"), -128, 127) - 70,
    ),
    "out:clamp_missing": (
        {s.OUT_SCALE: 3},
        lambda v, n: shifted(v * 3, n, "ties_even").astype(np.int8).astype(np.int64),
    ),
}  # fmt: skip


@for_each("way", ORDERS)
@for_each("kind", KINDS)
def test_orders_and_clamps(kind: str, way: str) -> None:
    registers, formula = ORDERS[way]
    shift = 1 if kind == "alone" else SHIFTS[kind] - 2
    r = OFF | registers | {s.DATA_FORMAT: shift << 4 | shift << 10 | shift << 16}
    r |= {s.EW_OP_VALUE_0 + 4 * i: 3 for i in range(8)}
    place = {"bs": s.BS_MUL_CFG, "bn": s.BN_MUL_CFG, "ew": s.EW_CVT_SCALE, "out": s.OUT_SHIFT}
    stage = way.partition(":")[0]
    r[place[stage]] = r[place[stage]] | shift << {"ew": 22, "out": 0}.get(stage, 8)
    case, found = make(kind, r, blocks=False)
    expected = np.clip(formula(case.values(), shift), -128, 127)
    result = found(f"{kind}:{way}")
    np.testing.assert_array_equal(result, expected)
    assert (result != found("")).any()
