"""PAD, PADV2 and MIRROR_PAD with tasks of their own, against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.options import Options
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import Amounts, pad
from tests.ops.function_oracle import RANGES
from tests.ops.test_two_values import kernel_result, simulated, values

CHANNELS = (1, 3, 16, 17, 33, 48, 64)


def compare(
    shape: tuple[int, ...],
    amounts: Amounts,
    dtype: DType,
    rng: np.random.Generator,
    **how: int,
) -> None:
    low, high = RANGES[dtype]
    builder = ModelBuilder("padding")
    zero = int(rng.integers(low, high + 1))
    x = builder.input("x", shape, dtype, Quantization((0.05,), (zero,)))
    builder.output(pad(builder, x, amounts, **how))
    model, inputs = builder.build(), [values(rng, shape, dtype)]
    np.testing.assert_array_equal(simulated(model, inputs), kernel_result(model, inputs))


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("seed", range(20))
def test_borders_of_one_value(seed: int, dtype: DType) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(1, 14, 2)))
    amounts = [[0, 0], *rng.integers(0, (3, 9, 40)[seed % 3], (2, 2)).tolist(), [0, 0]]
    if seed % 4 == 0:
        amounts[3] = rng.integers(0, 20, 2).tolist()
    how = {}
    if seed % 2:
        how["value"] = int(rng.choice((*RANGES[dtype], int(rng.integers(*RANGES[dtype])))))
    compare((*shape, int(rng.choice(CHANNELS))), amounts, dtype, rng, **how)


@pytest.mark.parametrize("mode", [REFLECT, SYMMETRIC])
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("seed", range(10))
def test_mirrored_borders(seed: int, dtype: DType, mode: int) -> None:
    rng = np.random.default_rng(seed)
    images, height, width = int(rng.integers(1, 3)), *(int(n) for n in rng.integers(2, 14, 2))
    edge = int(mode == REFLECT)
    sides = [rng.integers(0, size - edge + 1, 2).tolist() for size in (height, width)]
    shape = (images, height, width, int(rng.choice(CHANNELS)))
    compare(shape, [[0, 0], *sides, [0, 0]], dtype, rng, mode=mode)


def test_a_border_is_one_task() -> None:
    builder = ModelBuilder("padding")
    x = builder.input("x", (1, 20, 20, 64), DType.INT8, Quantization((0.05,), (7,)))
    builder.output(pad(builder, x, [[0, 0], [1, 1], [1, 1], [0, 0]]))
    (partition,) = compile_model(builder.build(), Options(numerics="exact")).partitions
    assert partition.tasks == 1
