"""Tests which sizes the kernels mix and repeat alike, against the reference kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from delegate.chip.chips import chip_named
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions, sources
from delegate.ops.shared.interpolation import Resizing
from delegate.options import Options
from rk3588_conformance.builder import options
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import resize
from tests.chip.test_second_chip import simulate
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results
from tests.ops.test_pooling import compare


def nearest(shape: tuple[int, ...], rows: int, columns: int, *convention: bool) -> bytes:
    builder = ModelBuilder("nearest")
    x = builder.input("x", shape, DType.INT8, Quantization((0.05,), (7,)))
    table = ResizeNearestOptions(*convention)
    return builder.build(resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, rows, columns, table))


def bilinear(
    shape: tuple[int, ...], rows: int, columns: int, dtype: DType, *convention: bool
) -> bytes:
    builder = ModelBuilder("bilinear")
    x = builder.input("x", shape, dtype, Quantization((0.05,), (7,)))
    table = options.of(ResizeBilinearOptions(*convention))
    return builder.build(resize(builder, "RESIZE_BILINEAR", x, rows, columns, table))


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
    """Return images, one a channel, of which a row is as different as can be by both, and those
    with the ends turned round.
    """
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


def test_two_passes_are_not_for_equal_results() -> None:
    model = bilinear((1, 28, 28, 21), 224, 224, DType.INT8, False, True)
    (rejection,) = compile_model(model, Options(numerics="exact")).rejections
    assert rejection.rule == "equal_if_exact"


def test_a_segmentation_is_enlarged_in_fourteen_tasks() -> None:
    """By 8, as LR-ASPP does it: five to repeat the outermost pixels, one for columns, 8 for rows.
    It was 225 taps.
    """
    model = bilinear((1, 28, 28, 21), 224, 224, DType.INT8, False, True)
    (partition,) = compile_model(model, Options(numerics="auto")).partitions
    assert partition.tasks == 14


@for_each("size", [500, 513, 1023])
@for_each("dtype", [DType.INT8, DType.UINT8])
def test_large_images_are_only_nearly_twice_as_large(size: int, dtype: DType) -> None:
    """With corners aligned: the fixed point of int8 takes half for it, float32 of uint8 does not,
    whose nodes stay on the CPU.
    """
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
