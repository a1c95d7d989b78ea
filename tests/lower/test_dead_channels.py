"""Channels in which TensorFlow Lite's int32 wraps: constants where none gives another result."""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder.layers import Arithmetic, fully_connected
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.inferences import interpreter_of, invoke

ENDS = np.iinfo(np.int32)
INPUTS = 16


def model(scale: float, bias: int, weights: np.ndarray) -> bytes:
    """Two channels, of which the second has ``scale`` times the scale of the first."""
    builder = ModelBuilder("dead")
    x = builder.input("x", (1, INPUTS), DType.INT8, Quantization((1.0,), (0,)))
    numbers = Arithmetic(
        per_channel=True,
        weights=weights,
        weight_scales=(1e-3, 1e-3 * scale),
        bias=np.array([5, bias], np.int32),
        output_scale=1.0,
        output_zero_point=0,
    )
    return builder.build(fully_connected(builder, np.random.default_rng(0), x, 2, numbers))


@pytest.mark.parametrize("bias", [ENDS.min, ENDS.max])
@pytest.mark.parametrize("scale", [1e-12, 1e-7, 1e-6, 3e-6, 1e-5])
def test_they_are_delegated_only_where_the_runtime_gives_one_result(scale: float, bias: int):
    weights = np.full((2, INPUTS), 127, np.int8)
    content = model(scale, bias, weights)
    result = compile_model(content, Options.from_mapping({"device": "simulator"}, {}))
    interpreter = interpreter_of(content)
    seen = set()
    for value in (-128, 0, 127):  # the sum wraps for one sign
        (output,) = invoke(interpreter, np.full((1, INPUTS), value, np.int8))
        seen.add(int(output[0, 1]))
    assert result.delegated_nodes == (len(seen) == 1), seen
    if result.rejections:
        assert [r.rule for r in result.rejections] == ["accumulator_fits_int32"]
