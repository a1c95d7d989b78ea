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
from tests.loops import for_each
from tests.ops.function_oracle import RANGES, kernel_results, simulated, values

CHANNELS = (1, 3, 16, 17, 33, 48, 64)


def compare(
    shape: tuple[int, ...], amounts: Amounts, dtype: DType, rng: np.random.Generator, **how: int
) -> None:
    low, high = RANGES[dtype]
    builder = ModelBuilder("padding")
    zero = int(rng.integers(low, high + 1))
    x = builder.input("x", shape, dtype, Quantization((0.05,), (zero,)))
    builder.output(pad(builder, x, amounts, **how))
    model, inputs = builder.build(), [values(rng, shape, dtype)]
    np.testing.assert_array_equal(simulated(model, *inputs), kernel_results(model, *inputs))


@pytest.mark.parametrize("dtype", RANGES)
@for_each("seed", range(12))
def test_borders_of_sequences(seed: int, dtype: DType) -> None:
    """Tensors of rank 1 to 3 have rows and columns too, in which all but the last dimension lie."""
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 3
    shape = (*(int(n) for n in rng.integers(2, 14, rank - 1)), int(rng.choice(CHANNELS)))
    amounts = rng.integers(0, (3, 9, 20)[seed % 3], (rank, 2)).tolist()
    how = {}
    if seed % 4 == 3:
        sides = [rng.integers(0, size, 2).tolist() for size in shape[:-1]]
        amounts, how = [*sides, [0, 0]], {"mode": int(rng.choice((REFLECT, SYMMETRIC)))}
    elif seed % 2:
        how["value"] = int(rng.choice(RANGES[dtype]))
    compare(shape, amounts, dtype, rng, **how)


def test_a_border_is_one_task() -> None:
    builder = ModelBuilder("padding")
    x = builder.input("x", (1, 20, 20, 64), DType.INT8, Quantization((0.05,), (7,)))
    builder.output(pad(builder, x, [[0, 0], [1, 1], [1, 1], [0, 0]]))
    (partition,) = compile_model(builder.build(), Options(numerics="exact")).partitions
    assert partition.tasks == 1
