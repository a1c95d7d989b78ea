"""MEAN, SUM and AVERAGE_POOL_2D of images larger than a window: equal to the reference kernels, or
within a step, and at what cost.
"""

from dataclasses import replace

import numpy as np
import pytest

from delegate._native import Executable
from delegate.chip.chips import chip_named
from delegate.compile.compiler import CompileResult, compile_model
from delegate.lower.numerics.image_sums import quotient
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.task import Pair
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.shared.dense_sums import longest_strip, strips_of
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.loops import for_each
from tests.ops.function_oracle import RANGES, kernel_results

ON_THE_NPU = {"numerics": "exact", "deny_ops": "NONE"}
CHIP = chip_named("rk3588")


def compiled(model: bytes, **options: str) -> CompileResult:
    return compile_model(model, Options(**{**ON_THE_NPU, **options}))


def images(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType):
    """Random values, both ends, and channels of their own level."""
    low, high = RANGES[dtype]
    ends = np.where(rng.random(shape) < 0.5, low, high)
    level = rng.integers(low, high + 1, (shape[0], 1, 1, shape[3]))
    near = np.clip(level + rng.integers(-3, 4, shape), low, high)
    for values in (rng.integers(low, high + 1, shape), ends, near, np.full(shape, low)):
        yield values.astype(dtype.name.lower())
    yield np.full(shape, high, dtype.name.lower())


def most_differing(model: bytes, result: CompileResult, rng: np.random.Generator) -> int:
    """Return the largest distance to the reference kernels' results, in steps."""
    assert not result.rejections
    executable = Executable(result.partitions[0].program, "simulator")
    source = result.graph.tensor(result.graph.inputs[0])
    worst = 0
    for image in images(rng, source.shape, source.dtype):
        ours, *_ = executable.run([image])
        wanted = kernel_results(model, image).astype(int)
        worst = max(worst, int(np.abs(ours.astype(int) - wanted).max()))
    return worst


def mean(
    shape: tuple[int, ...], dtype: DType = DType.INT8, ratio: float = 3.0, *, op: str = "MEAN",
    points: tuple[int, int] = (5, 9), keep_dims: bool = True,
) -> bytes:  # fmt: skip
    """``ratio``: steps of the result in one of the input."""
    builder = Net("mean")
    x = builder.input("x", shape, dtype, Quantization((0.05,), (points[0],)))
    result = Quantization((float(np.float32(0.05 / ratio)),), (points[1],))
    return builder.build(builder.reduced(op, x, result, keep_dims=keep_dims))


@for_each("axis", (1, 2, 3))
@for_each("is_behind", (False, True))
def test_means_of_parts_and_parts_of_means(axis: int, is_behind: bool) -> None:
    """Maps lie in a larger one, or their means do: tasks take one surface after the other."""
    builder = Net("parts")
    x = builder.input("x", (1, 40, 36, 48), DType.INT8, Quantization((0.05,), (5,)))
    parts = [builder.pool("MAX_POOL_2D", x, 3, size) for size in (1, 2)]
    results = Quantization((0.01,), (7,))
    means = [builder.reduced("MEAN", part, results, keep_dims=True) for part in parts]
    if is_behind:
        builder.output(builder.concatenation(means, axis))
    else:
        builder.output(means[1])
        builder.output(builder.concatenation(parts, axis))
    model = builder.build()
    result = compiled(model)
    assert not result.rejections
    if is_behind or axis != 2:  # whose parts are copied, as their rows lie apart
        together = 3 if axis == 3 else 9
        assert [len(layer.tasks) for layer in result.partitions[0].layers[-2:]] == [together] * 2
    assert most_differing(model, result, np.random.default_rng(axis)) == 0


@for_each("strip", range(2, longest_strip(CHIP) + 1))
@for_each("ties_away", (False, True))
def test_a_sum_is_its_quotient_and_an_excess_of_8_bits(strip: int, ties_away: bool) -> None:
    """All sums that a strip may have, whatever side ties go to."""
    sums = np.arange(-128 * strip, 127 * strip + 1)
    out = quotient(strip)
    assert 0 < out.scale < 1 << 15
    stages = Pipeline(out=replace(out, ties_away=ties_away))
    quotients = stages.run(sums[np.newaxis].astype(np.float64))[0].astype(int)
    assert np.abs(quotients - sums / strip).max() <= 0.5 + 2**-7
    assert np.abs(strip * quotients - sums).max() <= strip / 2 + 1


def test_strips_make_up_the_image_within_the_limits() -> None:
    sides = range(32, 300)
    sizes = {a * b for a in sides for b in (a, a + 1, 2 * a)}
    found = {pixels: strips_of(CHIP, pixels) for pixels in sizes}
    some = {pixels: strips for pixels, strips in found.items() if strips is not None}
    for pixels, strips in some.items():
        assert strips.pixels * strips.count == pixels
        assert strips.pixels <= 127
        assert strips.count * 512 <= 11 * 32768
        assert strips.first[0] <= 7
        assert max(*strips.first, *strips.last) <= 31
    assert {n * n for n in (32, 40, 56, 64, 80, 96, 112, 128, 160, 192, 224, 240)} <= set(some)
    assert {37 * 37, 41 * 82, 256 * 256}.isdisjoint(some)


@pytest.mark.parametrize(
    ("shape", "tasks", "most_cycles"),
    [
        ((1, 56, 56, 96), 3, 31_100),
        ((1, 112, 112, 32), 5, 42_500),
        ((1, 128, 128, 32), 6, 60_200),
        ((1, 40, 12, 64), 1, 7_680),
    ],
    ids=str,
)
def test_what_a_large_mean_costs(shape: tuple[int, ...], tasks: int, most_cycles: int) -> None:
    """Twice the image from memory, and tasks by tiles of it; a small image once, in other rows."""
    (partition,) = compiled(mean(shape)).partitions
    assert (partition.tasks, partition.estimate.cycles <= most_cycles) == (tasks, True)


@pytest.mark.parametrize(
    ("chip", "shape", "problem"),
    [
        ("rk3588", (1, 37, 41, 5), "they are 37 x 41"),
        ("rk3588", (1, 256, 256, 5), "they are 256 x 256"),
        ("rk3576", (1, 56, 56, 5), "they are 56 x 56, and no tasks for strips are known"),
    ],
    ids=str,
)
def test_other_means_stay_on_the_cpu(chip: str, shape: tuple[int, ...], problem: str) -> None:
    (rejection,) = compiled(mean(shape), chip=chip).rejections
    assert rejection.rule == "reduced_sides_in_range"
    assert rejection.detail.endswith(problem)


@for_each("shape", ((1, 33, 33, 40), (2, 65, 65, 17), (1, 40, 12, 64), (1, 1, 62, 3)))
@for_each("dtype", (DType.INT8, DType.UINT8))
@for_each("activation", (Activation.NONE, Activation.RELU6))
def test_averages_of_a_window_as_large_as_the_image(
    shape: tuple[int, ...], dtype: DType, activation: Activation
) -> None:
    """DeepLab's branch of the whole image, equal where it has 33 x 33 pixels."""
    builder = Net("average")
    x = builder.input("x", shape, dtype, Quantization((0.05,), (7,)))
    options = {"padding": Padding.VALID, "activation": activation}
    builder.output(builder.pool("AVERAGE_POOL_2D", x, *shape[1:3], **options))
    model = builder.build()
    differing = most_differing(model, compiled(model), np.random.default_rng(shape[3]))
    assert differing <= (shape[1] != 33)


@pytest.mark.parametrize(
    ("chip", "sides", "problem"),
    [
        ("rk3588", (37, 41), "they are 37 x 41"),
        ("rk3588", (40, 39), "it is 40 x 39"),
        ("rk3576", (56, 56), "they are 56 x 56, and no tasks for strips are known"),
    ],
    ids=str,
)
def test_other_large_averages_stay_on_the_cpu(chip: str, sides: Pair, problem: str) -> None:
    builder = Net("average")
    shape = (1, sides[0], sides[0] if sides[1] == 39 else sides[1], 5)
    x = builder.input("x", shape, DType.INT8, Quantization((0.05,), (7,)))
    builder.output(builder.pool("AVERAGE_POOL_2D", x, *sides, padding=Padding.VALID))
    (rejection,) = compiled(builder.build(), chip=chip).rejections
    assert rejection.rule == "summed_window_in_range"
    assert rejection.detail.endswith(problem)


@for_each("shape", ((1, 1, 40, 64), (1, 7, 5, 33), (1, 48, 64, 17)))
@for_each("point", (-128, 0, 127))
def test_means_of_nearly_nothing_are_at_an_end_or_at_the_zero_point(shape, point: int) -> None:
    """Quantisers give scales of 1e-8 to means that are 0 but for rounding."""
    rng = np.random.default_rng(shape[3])
    builder = Net("nothing")
    x = builder.input("x", shape, DType.INT8, Quantization((0.0276,), (4,)))
    axes = (3,) if shape[1] == 1 else (1, 2)
    result = Quantization((3e-8 if shape[1] == 48 else 8.1e-9,), (point,))
    model = builder.build(builder.reduced("MEAN", x, result, keep_dims=True, axes=axes))
    made = compiled(model, numerics="auto")
    assert not made.rejections
    executable = Executable(made.partitions[0].program, "simulator")
    met = set()
    for reach in (0, 1, 1, 2, 127):
        signs = rng.permuted(np.resize((1, -1), shape), axis=3)
        near = (4 + reach * signs).astype(np.int8)
        near[..., 0] += rng.integers(-1, 2, shape[:3]).astype(np.int8)
        (ours,) = executable.run([near])
        np.testing.assert_array_equal(ours, kernel_results(model, near))
        met.update(np.unique(ours))
    assert met <= {-128, point, 127}
    assert point in met
