"""Functions of one value against the reference kernels: all 256 values of many quantisations, by
the program on the simulator; DIV of uint8 by a constant; PRELU with several slopes.
"""

import itertools

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import CompileResult, compile_model
from delegate.lower.numerics.looked_up import requantize_slopes
from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget
from delegate.model.graph import Activation, DType, Quantization
from delegate.ops import OPERATORS
from delegate.ops.div import DivOptions
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.options import BuiltinOptions, of
from tests.loops import for_each
from tests.lower.numerics import oracle
from tests.models.blocks import function_model
from tests.ops.function_oracle import RANGES, all_values, kernel_results, quantization, simulated

UNARY = sorted(
    op
    for op, found in OPERATORS.items()
    if found.function and len(found.inputs) == 1 and not found.real and op != "LOG"
)
"""Operators of tflite-runtime 2.14. LOG of int8 is newer: ``tests/hosts/test_kernels.py``."""


WITHOUT_REFERENCE = ("ELU",)
"""Operators of which the runtime has one kernel, which its list of reference kernels lacks."""


def options_of(op: str, rng: np.random.Generator) -> BuiltinOptions | None:
    if op == "LEAKY_RELU":
        return of(LeakyReluOptions(float(np.float32(rng.choice((0.0, 0.01, 0.1, 0.3, 1.0, 1.7))))))
    if op == "GELU":
        return of(GeluOptions(bool(rng.integers(2))))
    return None


def quantizations(
    op: str, rng: np.random.Generator, types: tuple[DType, DType]
) -> tuple[Quantization, Quantization]:
    """Scales of input and output that fit one another, here and there equal or far apart."""
    source = quantization(rng, types[0], 10 ** rng.uniform(-3, 0.3))
    if op == "LOGISTIC":
        return source, Quantization((1 / 256,), (RANGES[types[1]][0],))
    if op == "RSQRT":
        source = Quantization(source.scales, (RANGES[types[0]][0],))
        scale = float(np.float32(10 ** rng.uniform(-4, 1) / source.scale**0.5))
        return source, quantization(rng, types[1], scale)
    ratio = 10 ** rng.uniform(-1.5, 1.5) if rng.integers(8) else 1.0
    return source, quantization(rng, types[1], source.scale * ratio)


SCALES = 10.0 ** np.array([-30, -7, -2, 0, 4, 7.2, 12])
"""Scales of inputs and outputs, each with each: shifts by all that int32 bears, and more."""


@pytest.mark.parametrize("op", [op for op in UNARY if op != "LOGISTIC"])
def test_extreme_scales_are_the_kernels_or_refused(op: str) -> None:
    """LOGISTIC has one scale of the output."""
    rng = np.random.default_rng(sum(op.encode()))
    taken = 0
    for sources, targets in itertools.product(SCALES, repeat=2):
        source, target = (
            quantization(rng, DType.INT8, scale * rng.uniform(1, 2)) for scale in (sources, targets)
        )
        if op == "RSQRT":
            source = Quantization(source.scales, (RANGES[DType.INT8][0],))
        model = function_model(op, (DType.INT8, source), (DType.INT8, target), options_of(op, rng))
        result = compile_model(model, Options())
        if not result.partitions:
            assert result.rejections[0].rule == "results_defined"
            continue
        executable = Executable(result.partitions[0].program, "simulator")
        (ours,) = executable.run([all_values(DType.INT8).reshape(1, 1, 1, 256)])
        has_reference = op not in WITHOUT_REFERENCE
        expected = kernel_results(model, all_values(DType.INT8), has_reference=has_reference)
        np.testing.assert_array_equal(ours, expected, f"{source} to {target}")
        taken += 1
    assert taken >= len(SCALES) ** 2 / 3


def test_a_tie_is_decided_by_the_last_bit_of_the_c_librarys_tanh() -> None:
    """tanh(66 * 0.0146...) is 95.5 / 128 but for less than a bit of float32."""
    source = Quantization((0.014607356861233711,), (154,))
    target = Quantization((1 / 128,), (128,))
    model = function_model("TANH", (DType.UINT8, source), (DType.UINT8, target), None)
    expected = kernel_results(model, all_values(DType.UINT8))
    ours = simulated(model, all_values(DType.UINT8).reshape(1, 1, 1, 256))
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("first", ["RELU", "ABS"])
def test_roots_behind_what_gives_nothing_below_the_zero_point(first: str) -> None:
    """The kernel of RSQRT ends its inference at values below the zero point."""
    source, between, target = (
        Quantization((scale,), (zero_point,))
        for scale, zero_point in ((0.5, 3), (0.25, -70), (0.0625, -128))
    )
    alone = function_model("RSQRT", (DType.INT8, between), (DType.INT8, target))
    with pytest.raises(RuntimeError, match="positive values"):
        kernel_results(alone, all_values(DType.INT8))
    (rejection,) = compile_model(alone, Options(numerics="exact")).rejections
    assert rejection.rule == "results_defined"
    assert "below the zero point" in rejection.detail
    builder = Net("roots")
    x = builder.input("input", (1, 1, 1, 256), DType.INT8, source)
    x = builder.function(first, (x,), between)
    model = builder.build(builder.function("RSQRT", (x,), target))
    ours = simulated(model, all_values(DType.INT8).reshape(1, 1, 1, 256))
    np.testing.assert_array_equal(ours, kernel_results(model, all_values(DType.INT8)))


def quotient_model(
    divisor: int, types: tuple[Quantization, ...], activation: Activation = Activation.NONE
) -> bytes:
    builder = Net("quotient")
    x = builder.input("input", (1, 1, 1, 256), DType.UINT8, types[0])
    by = builder.constant("divisor", np.array([divisor], np.uint8), types[1])
    return builder.build(builder.function("DIV", (x, by), types[2], DivOptions(activation)))


def compiled(model: bytes) -> CompileResult:
    return compile_model(model, Options(numerics="exact"))


UNIT = Quantization((0.5,), (3,))


@pytest.mark.parametrize(
    ("divisor", "scale", "told"),
    [
        (3, 0.1, "the divisor is 0"),
        (7, 1.0, "quotients are shifted by 24 to 32 bits"),  # 32 those of 0
    ],
)
def test_what_the_kernel_leaves_open_is_refused(divisor: int, scale: float, told: str) -> None:
    model = quotient_model(divisor, (UNIT, UNIT, Quantization((scale,), (3,))))
    (rejection,) = compiled(model).rejections
    assert rejection.rule == "results_defined"
    assert told in rejection.detail


SHAPE = (1, 16, 16)
"""Pixels for every value."""


def prelu_model(
    dtype: DType, slopes: np.ndarray, quantizations: tuple[Quantization, ...], channels: int
) -> bytes:
    """``quantizations``: of input, slopes, result."""
    builder = Net("prelu")
    x = builder.input("x", (*SHAPE, channels), dtype, quantizations[0])
    slope = builder.constant("slopes", slopes, quantizations[1])
    y = builder.result("PRELU", (x, slope), "y", (*SHAPE, channels), quantizations[2], dtype=dtype)
    return builder.build(y)


def drawn(
    rng: np.random.Generator, dtype: DType, has_powers: bool = False
) -> tuple[bytes, np.ndarray]:
    """A model, and all values in every channel. ``has_powers``: scales' ratios are powers of 2."""
    channels = int(rng.choice((1, 3, 15, 16, 17, 32, 33, 63, 64, 65, 100, 130)))
    first = 10 ** rng.uniform(-3, 0)
    scales = first, 10 ** rng.uniform(-3.5, -1), first * 10 ** rng.uniform(-0.7, 0.7)
    if has_powers:
        scales = first, 2.0**-7, first * 2.0 ** rng.integers(-2, 3)
    quantizations = tuple(quantization(rng, dtype, scale) for scale in scales)
    shape = ((channels,), (1, 1, channels), (1, 16, 16, channels), (16, 1, 1))[rng.integers(4)]
    low, high = RANGES[dtype]
    values = all_values(dtype)
    slopes = rng.integers(low, high + 1, shape).astype(values.dtype)
    model = prelu_model(dtype, slopes, quantizations, channels)
    every = np.broadcast_to(values.reshape(*SHAPE, 1), (*SHAPE, channels))
    return model, np.ascontiguousarray(every)


@for_each("seed", range(20))
def test_ties_of_the_first_rounding_make_one_step_seldom(seed: int) -> None:
    """The kernels round ties of a product up, the DPU to even: seen at second ties, too."""
    model, values = drawn(np.random.default_rng(seed), DType.INT8, has_powers=True)
    off = np.abs(simulated(model, values).astype(int) - kernel_results(model, values))
    assert off.max() <= 1
    assert off.mean() < 0.005


def tasks_of(dtype: DType, slopes: list[int], zero_point: int) -> int:
    """Return the tasks of a PRELU of 16 channels with ``slopes`` in turn."""
    scales = Quantization((0.1,), (zero_point,)), Quantization((0.01,), (0,))
    kind = all_values(dtype).dtype
    array = np.resize(np.array(slopes, kind), (1, 1, 16))
    model = prelu_model(dtype, array, (*scales, Quantization((0.1,), (3,))), 16)
    (partition,) = compile_model(model, Options(numerics="exact")).partitions
    return len(partition.layers[0].tasks)


def test_what_one_table_can_do_is_one() -> None:
    """The same slope everywhere, and no value below the zero point."""
    assert tasks_of(DType.INT8, [50], 0) == 1
    assert tasks_of(DType.INT8, [50, 20], -128) == 1
    assert tasks_of(DType.UINT8, [50, 20], 0) == 1
    assert tasks_of(DType.INT8, [50, 20], 0) == 2


def prelu_result(value: int, slope: int, factors, zero_points) -> int:
    """In Python's whole numbers."""
    x, s = value - zero_points[0], slope - zero_points[1]
    product, factor = (x, factors[0]) if x >= 0 else (x * s, factors[1])
    return oracle.tflite(product, *oracle.quantized(factor), zero_points[2], (-128, 127))


@pytest.mark.parametrize("has_ties_away", [True, False])
def test_pipelines_are_equal_or_told(has_ties_away: bool) -> None:
    """An argument of its own says what the prover says: no more than one LSB, here none."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(40):
        zero_points = tuple(int(z) for z in rng.integers(-127, 128, 3))
        factors = tuple(float(f) for f in 10 ** rng.uniform((-1, -3.5), (1, -1)))
        slopes = np.unique(rng.integers(-128, 128, 20))
        wanted = [
            [prelu_result(x, s, factors, zero_points) for s in slopes.tolist()]
            for x in INT8_VALUES.tolist()
        ]
        target = PairTarget(np.array(wanted), slopes)
        ties = {"has_ties_away": has_ties_away}
        below, above = requantize_slopes(0, target, factors, zero_points, **ties)
        x = INT8_VALUES[:, np.newaxis].astype(np.float64)
        results = above.run(x, below.run(x, slopes.astype(float)))
        off = np.abs(results - target.wanted)
        assert off.max() <= 1
        wrong += int(np.count_nonzero(off))
    assert wrong == 0 or not has_ties_away


@for_each("seed", range(20))
def test_logarithms_are_the_nearest(seed: int) -> None:
    """Values that have none give the least result."""
    rng = np.random.default_rng(seed)
    source = quantization(rng, DType.INT8, 10 ** rng.uniform(-3, 1))
    target = quantization(rng, DType.INT8, 10 ** rng.uniform(-2, 0))
    given = all_values(DType.INT8)
    model = function_model("LOG", (DType.INT8, source), (DType.INT8, target), None, given.shape)
    made = simulated(model, given)
    distances = given.astype(float) - source.zero_point
    with np.errstate(all="ignore"):
        wanted = np.log(distances * source.scale) / target.scale + target.zero_point
    wanted = np.clip(np.where(distances > 0, wanted, -128), -128, 127)
    assert np.abs(made - wanted).max() <= 0.5 + 1e-4
