"""fp16 tasks: the vectorised path gives the literal one's bytes, with every instruction set."""

import numpy as np

from tests.loops import for_each
from tests.sim import stream as s
from tests.sim.programs import Conv
from tests.sim.test_float_oracle import from_atoms, half_conv
from tests.sim.wide_programs import (
    half_alone,
    half_dense_weights,
    half_operand,
    half_surfaces,
    lut_registers,
    lut_words,
)

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def bits_of(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def narrow(rng: np.random.Generator, count: int) -> np.ndarray:
    """Few bits: sums are exact in double precision, and often lie between two of fp32."""
    return rng.integers(-2047, 2048, count) * np.float16(2.0) ** -4


def cancelling(rng: np.random.Generator, count: int) -> np.ndarray:
    """Large numbers of both signs among small ones: what is left of sums has few bits."""
    large = rng.choice([-60000, 60000, 3.5, -3.5], count)
    return np.where(rng.random(count) < 0.5, large, rng.normal(size=count) * 2.0**-20)


KINDS = {
    "normal": lambda rng, count: rng.normal(size=count),
    "spread": lambda rng, count: rng.normal(size=count) * np.exp2(rng.integers(-24, 15, count)),
    "narrow": narrow,
    "cancelling": cancelling,
    "subnormal": lambda rng, count: rng.integers(-1023, 1024, count) * 2.0**-24,
    "zeros": lambda rng, count: rng.choice([0.0, -0.0, 1.0, -(2.0**-24)], count),
    "infinite": lambda rng, count: rng.choice([1, np.inf, -np.inf], count, p=[0.98, 0.01, 0.01]),
    "any bits": lambda rng, count: rng.choice(ALL, count),
}


def fill(region: np.ndarray, kind: str, rng: np.random.Generator) -> None:
    with np.errstate(over="ignore"):
        region.view(np.float16)[:] = KINDS[kind](rng, region.size // 2)


def stage_registers(rng: np.random.Generator) -> s.Registers:
    """BN of any kind, with limits; its operands in registers."""

    def pick(*values: int) -> int:
        return int(rng.choice(values))

    return {
        s.BN_CFG: pick(0x53, 0x12, 0x92, 0x20050, 0x40090, 0x62, 0x42, 0x20040, 0x40080),
        s.BN_ALU_CFG: bits_of(rng.choice([0.5, -3e4, 1e30, -0.0])),
        s.BN_MUL_CFG: int(rng.choice(ALL[:0x7C00]).view(np.uint16)) << 16,
        s.BN_RELUX: bits_of(rng.choice([6.0, 1e9])),
        s.OFFSET_PEND: pick(0, 0x3C00),
    }


def check(memory: s.Memory, program: s.Program, region: str = "output") -> np.ndarray:
    """Return what the literal path writes, which all others do, too."""
    s.run_all_ways(memory, program.place(memory))
    return memory.bytes(region)


def random_shape(rng: np.random.Generator) -> Conv:
    def pick(*values: int) -> int:
        return int(rng.choice(values))

    kh, kw, sh, sw, dh, dw = (pick(1, 1, 2, 3) for _ in range(6))
    pad_top, pad_left = int(rng.integers(0, kh)), int(rng.integers(0, kw))
    h, w = int(rng.integers(1, 12)), int(rng.integers(1, 20))
    return Conv(
        c=int(rng.integers(1, 90)), oc=int(rng.integers(1, 50)), h=h, w=w, kh=kh, kw=kw,
        sh=sh, sw=sw, dh=dh, dw=dw, pad_top=pad_top, pad_left=pad_left,
        oh=int(rng.integers(1, -(-(h + pad_top) // sh) + 1)),
        ow=int(rng.integers(1, -(-(w + pad_left) // sw) + 1)),
        depthwise=bool(rng.random() < 0.4),
    )  # fmt: skip


@for_each("weights", KINDS)
@for_each("features", KINDS)
def test_convolutions(features: str, weights: str) -> None:
    rng = np.random.default_rng([ord(features[0]), ord(weights[0]), ord(weights[1])])
    for _ in range(3):
        t = random_shape(rng)
        memory, program = s.Memory(), s.Program()
        registers, *_ = half_conv(t, memory, rng, spread=2)
        fill(memory.bytes("input"), features, rng)
        fill(memory.bytes("weights"), weights, rng)
        program.add(registers | stage_registers(rng))
        check(memory, program)


def test_ordinary_convolutions_give_many_values() -> None:
    """The cases above do not compare the same number everywhere."""
    rng = np.random.default_rng(0)
    t = Conv(c=70, oc=33, h=6, w=9, kh=3, kw=3, pad_top=1, pad_left=1, oh=6, ow=9)
    memory, program = s.Memory(), s.Program()
    registers, *_ = half_conv(t, memory, rng, spread=12)
    program.add(registers)
    assert len(np.unique(check(memory, program).view(np.float16))) > 500


@for_each("extra", [3.0, np.inf, np.nan])
def test_channels_without_weights(extra: float) -> None:
    """Their products are left out, unless they are no numbers."""
    rng = np.random.default_rng(5)
    t = Conv(c=35, oc=24, h=9, w=21, kh=3, kw=3, sh=2, sw=2, pad_top=1, pad_left=1, oh=5, ow=11)
    memory, program = s.Memory(), s.Program()
    registers, *_ = half_conv(t, memory, rng, spread=2)
    surfaces = memory.bytes("input").view(np.float16).reshape(5, 9 * 21, 8)
    surfaces[4, rng.random(9 * 21) < 0.05, 3:] = extra
    w = rng.normal(size=(24, 40, 3, 3)).astype(np.float16)
    w[:, 35:] = 0
    memory.bytes("weights").view(np.float16)[:] = half_dense_weights(w)
    program.add(registers)
    found = check(memory, program).view(np.float16)
    assert np.isnan(found).any() == (not np.isfinite(extra))
    assert len(np.unique(found)) > 100


def by_channel(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """[..., channels]: 32, 2^-7 and 2^-24 in turns, of any sign, and zeros. Products of equal
    channels add up to numbers half way between two of fp32, and to a little more or less, which
    double precision does not hold.
    """
    sizes = np.array([2.0**5, 2.0**-7, 2.0**-24, 0])[np.arange(shape[-1]) % 4]
    return (rng.choice([-1, 0, 0, 0, 1], shape) * sizes).astype(np.float16)


@for_each("seed", range(4))
def test_sums_between_two_numbers(seed: int) -> None:
    """Results in fp32, so that no later rounding hides which number was taken."""
    rng = np.random.default_rng(seed)
    t = Conv(c=40, oc=32, h=6, w=9, kh=1, kw=1, pad_top=0, pad_left=0, oh=6, ow=9)
    memory, program = s.Memory(), s.Program()
    registers, *_ = half_conv(t, memory, rng, spread=2)
    x, w = by_channel(rng, (54, 40)), by_channel(rng, (32, 40))
    memory.bytes("input").view(np.float16)[:] = half_surfaces(x.T.reshape(40, 6, 9), 54).ravel()
    native = half_dense_weights(w.reshape(32, 40, 1, 1))
    memory.bytes("weights").view(np.float16)[:] = native.view(np.float16).ravel()
    memory.bytes("bias")[:] = 0
    registers |= {
        s.DATA_FORMAT: 5 << 29 | 2 << 26 | 2, s.BS_OW_CFG: 0x36E, s.OUT_SCALE: 1,
        s.SURFACE_ADD: 4 * 54 * 16, s.DST_BASE_ADDR: memory.add("output_wide", 32 * 54 * 4),
    }  # fmt: skip
    program.add(registers)
    found = check(memory, program, "output_wide").view(np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    assert len(np.unique(found)) > 30
    assert np.abs(from_atoms(found, np.float32, 32, 6, 9).reshape(32, 54).T - exact).max() < 2e-3


def flying(
    x: np.ndarray, other: np.ndarray | None, registers: s.Registers
) -> tuple[s.Memory, s.Program]:
    """The same as a program, with a second map if there is one."""
    memory, program = s.Memory(), s.Program()
    r = half_alone(memory, x) | ({} if other is None else half_operand(memory, other))
    program.add(r | registers, s.FLYING)
    return memory, program


@for_each("factor", [1.0, -1.0, 0.37, 2.0**-9, 2.0**-24, 65504.0])
def test_every_number_times_a_factor(factor: float) -> None:
    """All 65,536 halves through BN: subnormal numbers, ties, infinities, NaN."""
    x = ALL.reshape(8, 64, 128)
    factor_bits = int(np.float16(factor).view(np.uint16))
    registers = {s.BN_CFG: 0x42, s.BN_MUL_CFG: factor_bits << 16}
    found = check(*flying(x, None, registers))
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = (x.astype(np.float32) * np.float32(np.float16(factor))).astype(np.float16)
    np.testing.assert_array_equal(from_atoms(found, np.float16, *x.shape), wanted)


@for_each("kind", ["spread", "zeros", "infinite", "any bits"])
@for_each("cfg", [0x108202C0, 0x108402C0, 0x108003C4, 0x108002C0, 0x108102C0, 0x108003E4])
def test_two_maps(cfg: int, kind: str) -> None:
    rng = np.random.default_rng(cfg)
    with np.errstate(over="ignore"):
        a, b = (KINDS[kind](rng, 24 * 5 * 7).astype(np.float16).reshape(24, 5, 7) for _ in "ab")
    check(*flying(a, b, stage_registers(rng) | {s.EW_CFG: cfg}))


@for_each("kind", ["spread", "any bits"])
def test_tables_with_factors_by_channel(kind: str) -> None:
    """So many elements that results are kept by number; pairs of channels share a factor."""
    rng = np.random.default_rng(7)
    with np.errstate(over="ignore"):
        x = KINDS[kind](rng, 24 * 32 * 28).astype(np.float16).reshape(24, 32, 28)
    le, lo = (rng.integers(-(1 << 15), 1 << 15, 513).astype(np.int16) for _ in range(2))
    factors = np.repeat(rng.normal(size=12) * 2000, 2).astype(np.float16)
    memory, program = s.Memory(), s.Program()
    registers = (
        half_alone(memory, x)
        | lut_registers()
        | {
            s.BN_CFG: 0x42,
            s.BN_MUL_CFG: 1,
            s.NRDMA_CFG: 4 << 1,
            s.BN_BASE: memory.add("factors", factors),
            s.OUT_SHIFT: 15 << 12,
        }
    )
    program.add(registers, s.FLYING, extra=lut_words(le, lo))
    found = from_atoms(check(memory, program), np.float16, *x.shape)
    assert len(np.unique(found)) > 1000
    same = x[0] == x[1]
    np.testing.assert_array_equal(found[0][same], found[1][same])
