"""Tests which sizes the kernels mix and repeat alike, against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.resize_bilinear import STENCILS, ResizeBilinearOptions, shares, stencil
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions, sources
from delegate.ops.shared.blends import BLENDS
from delegate.options import Options
from rk3588_conformance.builder import options
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import resize
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results
from tests.ops.test_pooling import compare


def nearest(shape: tuple[int, ...], rows: int, columns: int, *convention: bool) -> bytes:
    builder = ModelBuilder("nearest")
    x = builder.input("x", shape, DType.INT8, Quantization((0.05,), (7,)))
    table = ResizeNearestOptions(*convention)
    builder.output(resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, rows, columns, table))
    return builder.build()


def bilinear(
    shape: tuple[int, ...], rows: int, columns: int, dtype: DType, *convention: bool
) -> bytes:
    builder = ModelBuilder("bilinear")
    x = builder.input("x", shape, dtype, Quantization((0.05,), (7,)))
    table = options.of(ResizeBilinearOptions(*convention))
    builder.output(resize(builder, "RESIZE_BILINEAR", x, rows, columns, table))
    return builder.build()


CONVENTIONS = [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_the_rule_knows_what_the_kernels_mix(convention: tuple[bool, bool]) -> None:
    """All sizes up to 12 in one direction: the very shares, and one pixel by any factor."""
    table = ResizeBilinearOptions(*convention)
    taken = 0
    for size in range(1, 13):
        for output in range(1, 2 * size + 2):
            found = shares(table, size, output)
            model = bilinear((1, size, 1, 1), output, 1, DType.INT8, *convention)
            given = stencil(table, size, output, STENCILS)
            assert bool(compile_model(model, Options(numerics="exact")).partitions) == (
                given is not None
            )
            # Another chip's way ends at twice the size.
            if output <= 2 * size:
                assert (stencil(table, size, output, BLENDS) is None) == (given is None)
            if found is None:
                continue
            taken += given is not None
            for row in range(size):
                pulse = np.zeros((1, size, 1, 1), np.int8)
                pulse[0, row] = 100
                expected = kernel_results(model, pulse).ravel()
                np.testing.assert_array_equal((100 * found[:, row] + 512) >> 10, expected)
    assert taken >= 12


@for_each("size", [500, 513, 520, 2047])
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
    """All sizes up to 12 in one direction: the very rows, of one image and of two, which are taken
    where every row becomes as many.
    """
    table = ResizeNearestOptions(*convention)
    for size in range(1, 13):
        ramp = np.arange(size, dtype=np.int8).reshape(1, size, 1, 1)
        for output in range(1, 2 * size + 2):
            model = nearest((1, size, 1, 1), output, 1, *convention)
            expected = kernel_results(model, ramp).ravel()
            np.testing.assert_array_equal(sources(table, size, output), expected)
            assert compile_model(model, Options(numerics="exact")).partitions
            is_repeated = output % size == 0 and np.array_equal(
                expected, np.arange(output) // (output // size)
            )
            two = nearest((2, size, 1, 1), output, 1, *convention)
            assert bool(compile_model(two, Options(numerics="exact")).partitions) == is_repeated


@for_each("seed", range(30))
def test_nearest_neighbours_of_any_size(seed: int) -> None:
    """Up, down and by more than pixels are put apart, in all conventions; channels around 16."""
    rng = np.random.default_rng([41, seed])
    shape = (1, *(int(n) for n in rng.integers(1, 9, 2)), int(rng.choice((1, 15, 16, 17, 40, 130))))
    rows, columns = (int(n) for n in rng.integers(1, 14, 2))
    convention = [(False, False), (True, False), (False, True), (True, True)][seed % 4]
    compare(nearest(shape, rows, columns, *convention), rng)


def test_one_task_resizes_all_channels() -> None:
    (partition,) = compile_model(
        nearest((1, 20, 20, 256), 40, 40), Options(numerics="exact")
    ).partitions
    assert partition.tasks == 1
