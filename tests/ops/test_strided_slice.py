"""STRIDED_SLICE that drops dimensions, as `x[:, 0]` takes a token and `x[:, -1]` the last step."""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.inferences import outputs

GIVEN = Quantization((0.05,), (3,))
CURVE = Quantization((1 / 128,), (0,))
ON_THE_NPU = {"device": "simulator", "numerics": "exact", "deny_ops": "NONE"}


def model(shape: tuple[int, ...], at: dict[int, int], end: int, begin_mask: int = 0) -> bytes:
    """Functions around ``x`` at the places ``at``, by dimension, where the file says ``end``."""
    builder = ModelBuilder("dropped")
    x = builder.input("x", shape, DType.INT8, GIVEN)
    y = function(builder, "RELU", (x,), GIVEN)
    rest = tuple(size for axis, size in enumerate(shape) if axis not in at)
    numbers = {
        "begin": [at.get(axis, 0) for axis in range(len(shape))],
        "end": [end if axis in at else size for axis, size in enumerate(shape)],
        "steps": [1] * len(shape),
    }
    shrink = sum(1 << axis for axis in at)
    whole = sum(1 << axis for axis in range(len(shape)) if axis not in at)
    table = StridedSliceOptions(begin_mask | whole, whole, 0, 0, shrink)
    z = builder.result("STRIDED_SLICE", (y,), "z", rest, options=table, numbers=numbers, version=2)
    return builder.build(function(builder, "TANH", (z,), CURVE))


CASES = [
    ((1, 17, 32), {1: 0}), ((1, 17, 32), {1: -1}), ((1, 16, 20), {1: 7}), ((2, 5, 48), {1: 2}),
    ((1, 6, 5, 24), {1: -2}), ((1, 6, 5, 24), {2: 3}), ((1, 6, 5, 24), {1: 1, 2: 4}),
    ((3, 6, 5, 16), {0: 1}), ((1, 4, 3, 5, 16), {2: 1}), ((1, 6, 5, 24), {3: 17}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "at"), CASES, ids=str)
@pytest.mark.parametrize("end", [0, 9])
def test_a_dropped_dimension_is_one_element(shape, at: dict[int, int], end: int) -> None:
    """Wherever the file says that it ends: at 0 for the last element."""
    content = model(shape, at, end)
    assert not compile_model(content, Options.from_mapping(ON_THE_NPU, {})).rejections
    values = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    (ours,) = outputs(content, values, **ON_THE_NPU, log_level="error")
    (theirs,) = outputs(content, values)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.shape == theirs.shape


def test_masked_it_begins_at_the_first_element() -> None:
    content = model((1, 6, 5, 24), {1: 3}, 0, begin_mask=2)
    values = np.random.default_rng(2).integers(-128, 128, (1, 6, 5, 24)).astype(np.int8)
    (ours,) = outputs(content, values, **ON_THE_NPU, log_level="error")
    np.testing.assert_array_equal(ours, outputs(content, values)[0])
