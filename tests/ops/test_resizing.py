"""Tests which sizes the kernels mix and repeat alike, against the reference kernels."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.chip.chips import chip_named
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions, sources
from delegate.ops.shared.interpolation import Resizing
from delegate.ops.shared.row_products import Mixture
from delegate.options import Options
from rk3588_conformance.builder import Net, options
from tests.chip.test_second_chip import simulate
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results
from tests.ops.test_pooling import compare


def nearest(shape: tuple[int, ...], rows: int, columns: int, *convention: bool) -> bytes:
    builder = Net("nearest")
    x = builder.input("x", shape, DType.INT8, Quantization((0.05,), (7,)))
    table = ResizeNearestOptions(*convention)
    return builder.build(builder.resize("RESIZE_NEAREST_NEIGHBOR", x, rows, columns, table))


def bilinear(
    shape: tuple[int, ...], rows: int, columns: int, dtype: DType, *convention: bool
) -> bytes:
    builder = Net("bilinear")
    x = builder.input("x", shape, dtype, Quantization((0.05,), (7,)))
    table = options.of(ResizeBilinearOptions(*convention))
    return builder.build(builder.resize("RESIZE_BILINEAR", x, rows, columns, table))


CONVENTIONS = [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
def test_shares_are_what_the_kernels_mix(convention: tuple[bool, bool], dtype: DType) -> None:
    """All sizes up to 12 in one direction."""
    known = 0
    for size in range(1, 13):
        for output in range(1, 2 * size + 2):
            found = Resizing(size, output, *convention, dtype is DType.INT8).shares()
            if found is None:
                continue
            known += 1
            model = bilinear((1, size, 1, size), output, 1, dtype, *convention)
            pulses = 100 * np.eye(size, dtype=dtype.name.lower()).reshape(1, size, 1, size)
            expected = kernel_results(model, pulses).reshape(output, size)
            assert np.abs(100 * found - expected).max() <= 0.5 + 1e-4
    assert known > 100


def farthest(side: Resizing, other: Resizing) -> npt.NDArray[np.int8]:
    """Return images, one a channel, with a row as different as can be, and their inverses."""
    shares, others = side.shares(), other.shares()
    assert shares is not None
    assert others is not None
    ends = np.where(others > shares, 127, -128)
    return np.concatenate([ends, -1 - ends]).T.astype(np.int8)


@for_each("chip", ["rk3588", "rk3576"])
@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
def test_no_image_is_a_step_off(convention: tuple[bool, bool], dtype: DType, chip: str) -> None:
    """All that is taken, of one to five rows and up to seven times as many: the images that would
    be farthest off are not more than a step off.
    """
    taken, off = set(), 0
    whole = {(n, f * n - convention[0] * (f - 1)) for n in range(1, 6) for f in (1, 2, 3, 4, 7)}
    for size, output in sorted(whole | {(3, output) for output in (5, 7, 11, 13, 17)}):
        side = Resizing(size, output, *convention, dtype is DType.INT8)
        images = farthest(side, replace(side, is_fixed=False))
        raw = images if dtype is DType.INT8 else (images.astype(int) + 128).astype(np.uint8)
        raw = raw.reshape(1, size, 1, -1)
        model = bilinear(raw.shape, output, 1, dtype, *convention)
        result = compile_model(model, replace(Options(numerics="exact"), chip=chip))
        if not result.partitions:
            continue
        (found,) = simulate(result.partitions[0].program, [raw], chip_named(chip))
        expected = kernel_results(model, raw).astype(int)
        worst = int(np.abs(found.reshape(expected.shape) - expected).max())
        assert worst <= 1
        taken.add((size, output))
        off += worst
    if dtype is DType.UINT8:
        assert whole <= taken
        return
    # Positions by 3 drift by a third of 1/1024 a row, from the centre by twice that before the
    # first: 255 times that, and the division, is a step from row 11.3 on, or row 9.3.
    most = {(False, False): (4, 12), (True, False): (4, 10), (False, True): (3, 9)}[convention]
    assert most in taken
    assert (most[0] + 1, most[1] + 3) not in taken
    assert off


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
@for_each("sizes", [(5, 9), (7, 40), (24, 37), (31, 12), (33, 65), (2, 15)])
def test_products_are_within_a_step(
    convention: tuple[bool, bool], dtype: DType, sizes: tuple[int, int]
) -> None:
    """The rows that would be farthest off, as columns, and ends next to each other both ways."""
    size, output = sizes
    side = Resizing(size, output, *convention, dtype is DType.INT8)
    along = farthest(side, replace(side, is_fixed=False)).reshape(1, size, -1)
    rng = np.random.default_rng(size)
    ends = rng.choice(np.array([-128, -127, 126, 127], np.int8), (3, size, along.shape[2]))
    raw = np.concatenate([along, ends]).astype(int)
    image = raw.astype(np.int8) if dtype is DType.INT8 else (raw + 128).astype(np.uint8)
    image = image[np.newaxis]
    model = bilinear(image.shape, 9, output, dtype, *convention)
    (partition,) = compile_model(model, Options(numerics="auto")).partitions
    (found,) = simulate(partition.program, [image], chip_named("rk3588"))
    expected = kernel_results(model, image).astype(int)
    assert np.abs(found.reshape(expected.shape) - expected).max() == 1


@given(
    size=st.integers(1, 40),
    output=st.integers(1, 90),
    convention=st.sampled_from(CONVENTIONS),
    is_fixed=st.booleans(),
)
def test_weights_are_shares(
    size: int, output: int, convention: tuple[bool, bool], is_fixed: bool
) -> None:
    """Weights of int8 are the very positions; eighths of a row count an eighth of its weights."""
    shares = Resizing(size, output, *convention, is_fixed).shares()
    if shares is None:
        return
    mixture = Mixture(shares)
    weights = mixture.weights.astype(float)
    if mixture.is_fine:
        weights = weights[:, 0::2] + weights[:, 1::2] / 8
    off = np.abs(weights / mixture.whole - shares)
    assert off.max() <= (0 if is_fixed else 2**-10)
    assert (weights.sum(axis=1) == mixture.whole).all()


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 30), st.integers(1, 20), st.integers(1, 40)),
    to=st.tuples(st.integers(1, 50), st.integers(2, 40)),
    convention=st.sampled_from([*CONVENTIONS, (True, True)]),
)
@settings(max_examples=25, deadline=None)
def test_nearest_to_any_size_is_equal(
    shape: tuple[int, ...], to: tuple[int, int], convention: tuple[bool, bool]
) -> None:
    compare(nearest(shape, *to, *convention), np.random.default_rng(to[0]))


@pytest.mark.parametrize("op", ["nearest", "bilinear"])
def test_an_image_of_a_million_rows_costs_no_memory(op: str) -> None:
    """Shares of its rows would take 33 GB."""
    shape = (1, 1_000_003, 1, 1)
    if op == "nearest":
        model = nearest(shape, 4093, 2)
    else:
        model = bilinear(shape, 4093, 2, DType.INT8, False, False)
    assert not compile_model(model, Options(numerics="auto", deny_ops=())).partitions


def test_products_are_not_for_equal_results() -> None:
    model = bilinear((1, 28, 28, 21), 224, 224, DType.INT8, False, True)
    (rejection,) = compile_model(model, Options(numerics="exact")).rejections
    assert rejection.rule == "equal_if_exact"


def test_a_segmentation_is_enlarged_in_few_tasks() -> None:
    """By 8, as LR-ASPP does it: rows of two surfaces in two blocks, then columns in three. It was
    225 taps.
    """
    model = bilinear((1, 28, 28, 21), 224, 224, DType.INT8, False, True)
    (partition,) = compile_model(model, Options(numerics="auto")).partitions
    assert partition.tasks == 10


@for_each("size", [500, 513, 1023])
@for_each("dtype", [DType.INT8, DType.UINT8])
def test_large_images_are_only_nearly_twice_as_large(size: int, dtype: DType) -> None:
    """With corners aligned: int8's fixed point takes half for it, uint8's float32 does not."""
    exact = bilinear((1, 1, size, 1), 1, 2 * size - 1, dtype, True, False)
    nearly = bilinear((1, 1, size, 1), 1, 2 * size, dtype, True, False)
    rng = np.random.default_rng(size)
    compare(exact, rng)
    if dtype is DType.INT8 and size > 512:
        compare(nearly, rng)
    else:
        assert not compile_model(nearly, Options(numerics="exact")).partitions


@for_each("convention", [(False, False), (True, False), (False, True), (True, True)])
def test_the_rule_knows_what_the_kernels_repeat(convention: tuple[bool, bool]) -> None:
    """All sizes up to 12 in one direction: the very rows."""
    table = ResizeNearestOptions(*convention)
    for size in range(1, 13):
        ramp = np.arange(size, dtype=np.int8).reshape(1, size, 1, 1)
        for output in range(1, 2 * size + 2):
            model = nearest((1, size, 1, 1), output, 1, *convention)
            expected = kernel_results(model, ramp).ravel()
            np.testing.assert_array_equal(sources(table, size, output), expected)


def test_one_task_resizes_all_channels() -> None:
    (partition,) = compile_model(
        nearest((1, 20, 20, 256), 40, 40), Options(numerics="exact")
    ).partitions
    assert partition.tasks == 1
