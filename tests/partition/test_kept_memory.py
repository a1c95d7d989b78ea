"""Nodes on the NPU run in another order than the model's; nothing is overwritten by that."""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.softmax import SoftmaxOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.inferences import drawn_int8, outputs

FAST = {"device": "simulator", "numerics": "exact"}
ON_CPU = "TRANSPOSE,RESHAPE,SOFTMAX"


def model(*, is_shared: bool = True, is_read_twice: bool = True) -> bytes:
    """A softmax behind two reshapes; a sum reads what is between them, before it in the file."""
    builder, scaling = Net("kept"), Quantization((0.05,), (0,))
    x = builder.input("x", (1, 8, 16, 32), DType.INT8, scaling)
    turned = builder.transpose(x, (0, 2, 1, 3))
    between = builder.reshape(turned, (1, 128, 1, 32)) if is_shared else turned
    if is_read_twice:
        shape = builder.spec(between).shape
        summed = builder.tensor("sum", shape, DType.INT8, Quantization((0.1,), (0,)))
        builder.operator("ADD", (between, between), (summed,), AddOptions())
        builder.output(summed)
    flat = builder.reshape(between, (1, 1, 128, 32))
    share = Quantization((1 / 256,), (-128,))
    shares = builder.tensor("shares", (1, 1, 128, 32), DType.INT8, share)
    builder.operator("SOFTMAX", (flat,), (shares,), SoftmaxOptions(beta=1.0))
    builder.output(builder.reshape(shares, (1, 128, 32)))
    return builder.build()


@pytest.mark.parametrize("denied", [ON_CPU, "NONE", "SOFTMAX", "RESHAPE", "RESHAPE,SOFTMAX"])
def test_what_others_read_is_not_overwritten(denied: str) -> None:
    x = drawn_int8((1, 8, 16, 32), 0)
    ours = outputs(model(), x, deny_ops=denied, **FAST)
    for one, other in zip(ours, outputs(model(), x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_all_stay_on_the_cpu_where_something_would_be() -> None:
    result = compile_model(model(), Options.from_mapping(FAST | {"deny_ops": ON_CPU}, {}))
    assert result.partitions == ()
    assert {r.op for r in result.rejections if r.rule == "memory_is_kept"} == {"ADD"}


@pytest.mark.parametrize("changed", [{"is_shared": False}, {"is_read_twice": False}])
def test_other_models_are_left_alone(changed: dict[str, bool]) -> None:
    options = Options.from_mapping(FAST | {"deny_ops": ON_CPU}, {})
    result = compile_model(model(**changed), options)
    assert "memory_is_kept" not in {r.rule for r in result.rejections}
