"""Operators of two maps on the simulator against the reference kernels: all 65,536 pairs."""

import numpy as np
import pytest
from tflite_runtime.interpreter import Interpreter, OpResolverType

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from delegate.ops.sub import SubOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.options import BuiltinOptions
from rk3588_conformance.generated.campaign import CRASHED, in_child
from rk3588_conformance.random_layers import Numbers
from tests.loops import for_each
from tests.ops.function_oracle import RANGES, Array, kernel_results, quantization, simulated, values

PAIRS = (1, 16, 16, 256)


def options_of(op: str, activation: Activation = Activation.NONE) -> BuiltinOptions | None:
    return {"MUL": MulOptions, "SUB": SubOptions}.get(op, lambda _: None)(activation)


def all_pairs(dtype: DType) -> tuple[Array, Array]:
    low, high = RANGES[dtype]
    first, second = np.meshgrid(*(np.arange(low, high + 1),) * 2, indexing="ij")
    kind = np.int8 if low else np.uint8
    return first.astype(kind).reshape(PAIRS), second.astype(kind).reshape(PAIRS)


def pair_model(
    op: str,
    types: tuple[Quantization, Quantization, Quantization],
    dtype: DType,
    shape: tuple[int, ...],
    activation: Activation,
) -> bytes:
    builder = Net(op.lower())
    a, b = (builder.input(name, shape, dtype, q) for name, q in zip("ab", types[:2], strict=True))
    return builder.build(builder.function(op, (a, b), types[2], options_of(op, activation)))


def test_a_sum_with_a_value_per_pixel_is_not_fused() -> None:
    """A convolution's task reads what it adds as whole groups of channels."""
    rng = np.random.default_rng(3)
    builder = Net("pixels", rng)
    x = builder.input("x", (1, 6, 5, 32), DType.INT8, Quantization((0.05,), (3,)))
    y = builder.conv(x, 32, Window(kh=1, kw=1), Numbers())
    mask = builder.input("mask", (1, 6, 5, 1), DType.INT8, Quantization((0.02,), (-5,)))
    spec = builder.spec(y)
    result = builder.tensor("sum", spec.shape, DType.INT8, spec.quantization)
    builder.operator("ADD", (y, mask), (result,), AddOptions())
    model = builder.build(result)
    exact, fast = (compile_model(model, Options(numerics=n)) for n in ("exact", "auto"))
    assert not exact.rejections
    assert [len(p.layers) for p in fast.partitions] == [len(p.layers) for p in exact.partitions]
    inputs = [values(rng, shape, DType.INT8) for shape in ((1, 6, 5, 32), (1, 6, 5, 1))]
    off = simulated(model, *inputs).astype(int) - kernel_results(model, *inputs)
    assert np.abs(off).max() <= 1


@pytest.mark.parametrize("zero_point", [-128, -3])
def test_a_clamped_sum_with_a_value_per_channel(zero_point: int) -> None:
    """Nobody has run EW's clamp of such a sum: the result's type makes it, or a task behind."""
    rng = np.random.default_rng(4)
    builder = Net("channels")
    x = builder.input("x", (1, 6, 5, 40), DType.INT8, Quantization((0.05,), (3,)))
    shift = builder.constant("shift", values(rng, (40,), DType.INT8), Quantization((0.02,), (7,)))
    result = builder.tensor("sum", (1, 6, 5, 40), DType.INT8, Quantization((0.03,), (zero_point,)))
    builder.operator("ADD", (x, shift), (result,), AddOptions(Activation.RELU))
    model = builder.build(result)
    found = compile_model(model, Options(numerics="auto"))
    (layer,) = found.partitions[0].layers
    assert len(layer.tasks) == 1 + (zero_point != -128)
    inputs = [values(rng, (1, 6, 5, 40), DType.INT8)]
    (ours,) = Executable(found.partitions[0].program, "simulator").run(inputs)
    assert np.abs(ours.astype(int) - kernel_results(model, *inputs)).max() <= 1


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
def test_nothing_is_repeated_of_equal_shapes(chip: str) -> None:
    """However many channels a copy would have to keep."""
    types = (Quantization((0.05,), (3,)),) * 3
    model = pair_model("MUL", types, DType.INT8, (1, 2, 8400), Activation.NONE)
    result = compile_model(model, Options(chip=chip))
    assert not result.rejections
    (partition,) = result.partitions
    assert {task.op for task in partition.layers} == {"MUL"}


ENDS_THE_RUNTIME = {
    "ADD": "sum_scales_in_range",
    "SUB": "sum_scales_in_range",
    "SQUARED_DIFFERENCE": "accumulator_fits_int32",
}

SQUARES = [
    ("SQUARED_DIFFERENCE", scales, aborts)
    for scales, aborts in (
        ((1.0, 0.5, 2.0**-11), False),
        ((0.5, 1.0, 2.0**-12), True),
        ((1.0, 2.0, 2.0**113), False),
        ((1.0, 2.0, 2.0**114), True),
    )
]

SUMS = [
    (op, scales, aborts)
    for op in ("ADD", "SUB")
    for scales, aborts in (
        ((1.0, 0.5, 2.0**-18), False),
        ((0.5, 1.0, 2.0**-19), True),
        ((1.0, 1.0, 2.0**-30), True),
        ((1.0, 2.0, 2.0**107), False),
        ((1.0, 2.0, 2.0**108), True),
        ((2.0**127, 1.0, 2.0**107), True),
    )
]


@pytest.mark.parametrize(("op", "scales", "aborts"), SUMS + SQUARES)
def test_sums_that_end_the_runtime_are_left_to_it(
    op: str, scales: tuple[float, float, float], aborts: bool
) -> None:
    builder = Net("sum")
    first, second, output = (Quantization((scale,), (0,)) for scale in scales)
    x, y = (builder.input(name, (1, 2, 2, 4), DType.INT8, q) for name, q in
            (("x", first), ("y", second)))  # fmt: skip
    options = AddOptions(Activation.NONE) if op == "ADD" else options_of(op)
    model = builder.build(builder.function(op, (x, y), output, options))

    def prepare() -> None:
        Interpreter(
            model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        ).allocate_tensors()

    assert (in_child(prepare, 60).kind == CRASHED) == aborts
    found = {r.rule: r.detail for r in compile_model(model, Options(numerics="exact")).rejections}
    assert (ENDS_THE_RUNTIME[op] in found) == aborts
    if aborts and op == "SQUARED_DIFFERENCE":
        assert "the kernel asks for a factor below 1" in found["accumulator_fits_int32"]


INT8 = DType.INT8


def squares(types: tuple[Quantization, ...], shapes: tuple[tuple[int, ...], ...]) -> bytes:
    """Return the model of two inputs of ``shapes``; ``types``: theirs and the result's."""
    builder = Net("squares")
    a, b = (
        builder.input(name, shape, INT8, one)
        for name, shape, one in zip("ab", shapes, types, strict=False)
    )
    return builder.build(builder.function("SQUARED_DIFFERENCE", (a, b), types[2]))


def drawn(rng: np.random.Generator, *, has_one_scale: bool) -> tuple[Quantization, ...]:
    """The result holds the square of a distance from 30 to 300 of the larger scale."""
    scale = 10 ** rng.uniform(-3, 0)
    other = scale if has_one_scale else scale * 10 ** rng.uniform(-0.7, 0.7)
    first, second = (quantization(rng, INT8, one) for one in (scale, other))
    reach = rng.uniform(30, 255 if has_one_scale else 300) * max(scale, other)
    return first, second, Quantization((float(np.float32(reach**2 / 255)),), (-128,))


@for_each("seed", range(16))
def test_all_pairs_with_two_scales_are_within_a_step_and_counted(seed: int) -> None:
    model = squares(drawn(np.random.default_rng(seed), has_one_scale=False), (PAIRS, PAIRS))
    result = compile_model(model, Options(numerics="exact"))
    if result.rejections:
        assert result.rejections[0].rule == "within_one_lsb"
        return
    pairs = list(all_pairs(INT8))
    off = np.abs(simulated(model, *pairs).astype(int) - kernel_results(model, *pairs))
    assert off.max() <= 1
    difference = result.partitions[0].layers[0].difference
    told = 0 if difference is None else difference.share * off.size
    assert int(np.count_nonzero(off)) == told


@for_each("seed", range(24))
def test_distances_from_a_mean_run(seed: int) -> None:
    """As layer normalisation has them: the mean has a hundredth of the scale, and the largest
    square is the result's largest value.
    """
    rng = np.random.default_rng([seed, 2])
    scale = 10 ** rng.uniform(-3, 0)
    first = quantization(rng, INT8, scale)
    second = quantization(rng, INT8, scale * 10 ** rng.uniform(-2.5, -1))
    reach = (128 + abs(first.zero_points[0])) * scale * rng.uniform(0.8, 1)
    result = Quantization((float(np.float32(reach**2 / 255)),), (-128,))
    model = squares((first, second, result), (PAIRS, PAIRS))
    assert not compile_model(model, Options(numerics="auto", deny_ops=())).rejections


@for_each("seed", range(20))
def test_a_function_of_one_value_is_a_table(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    first, second, result = drawn(rng, has_one_scale=seed % 2 == 0)
    builder = Net("table")
    a = builder.input("a", (1, 1, 1, 256), INT8, first)
    b = builder.constant("b", values(rng, (1,), INT8), second)
    model = builder.build(builder.function("SQUARED_DIFFERENCE", (a, b), result))
    every = [np.arange(-128, 128).astype(np.int8).reshape(1, 1, 1, 256)]
    np.testing.assert_array_equal(simulated(model, *every), kernel_results(model, *every))
