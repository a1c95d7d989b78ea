"""STRIDED_SLICE that drops dimensions, as `x[:, 0]` takes a token and `x[:, -1]` the last step."""

import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.inferences import assert_same, drawn_int8, outputs

GIVEN = Quantization((0.05,), (3,))
CURVE = Quantization((1 / 128,), (0,))
ON_THE_NPU = {"device": "simulator", "numerics": "exact", "deny_ops": "NONE"}


def model(shape: tuple[int, ...], at: dict[int, int], end: int, begin_mask: int) -> bytes:
    """Functions around ``x`` at the places ``at``, by dimension, where the file says ``end``."""
    builder = Net("dropped")
    x = builder.input("x", shape, DType.INT8, GIVEN)
    y = builder.function("RELU", (x,), GIVEN)
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
    return builder.build(builder.function("TANH", (z,), CURVE))


CASES = [
    ((1, 17, 32), {1: 0}), ((1, 17, 32), {1: -1}), ((1, 16, 20), {1: 7}), ((2, 5, 48), {1: 2}),
    ((1, 6, 5, 24), {1: -2}), ((1, 6, 5, 24), {2: 3}), ((1, 6, 5, 24), {1: 1, 2: 4}),
    ((3, 6, 5, 16), {0: 1}), ((1, 4, 3, 5, 16), {2: 1}), ((1, 6, 5, 24), {3: 17}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "at"), CASES, ids=str)
@pytest.mark.parametrize("end", [0, 9])
@pytest.mark.parametrize("begin_mask", [0, 2])
def test_a_dropped_dimension_is_one_element(
    shape: tuple[int, ...], at: dict[int, int], end: int, begin_mask: int
) -> None:
    """Wherever the file says that it ends: at 0 for the last element. Masked, it is the first."""
    content = model(shape, at, end, begin_mask)
    assert not compile_model(content, Options.from_mapping(ON_THE_NPU, {})).rejections
    values = drawn_int8(shape, 2)
    assert_same(outputs(content, values, **ON_THE_NPU, log_level="error"), outputs(content, values))
