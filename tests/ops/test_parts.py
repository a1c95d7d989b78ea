"""Parts of a tensor that tasks join and cut, against TensorFlow Lite's reference kernels."""

import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import moves
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from tests.inferences import assert_same, drawn_int8, outputs

GIVEN = Quantization((0.05,), (3,))
CURVE = Quantization((1 / 128,), (0,))
ON_THE_NPU = {"device": "simulator", "numerics": "exact", "deny_ops": "NONE"}


def check(content: bytes, shape: tuple[int, ...], chip: str) -> None:
    """All nodes run on the NPU, and results are the kernels'."""
    options = {**ON_THE_NPU, "chip": chip}
    assert not compile_model(content, Options.from_mapping(options, {})).rejections
    values = drawn_int8(shape, 2)
    assert_same(outputs(content, values, **options, log_level="error"), outputs(content, values))


@pytest.mark.parametrize("height", [1, 2])
@pytest.mark.parametrize("count", [2, 3])
def test_pack_puts_parts_every_few_pixels(height: int, count: int) -> None:
    """An image of one row is none of consecutive pixels in the result."""
    shape = (1, height, 5, 16)
    builder = ModelBuilder("packed")
    x = builder.input("x", shape, DType.INT8, GIVEN)
    parts = [function(builder, "RELU", (x,), GIVEN), x, x][:count]
    packed = moves.pack(builder, parts, 3)
    check(builder.build(function(builder, "TANH", (packed,), CURVE)), shape, "rk3588")


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
@pytest.mark.parametrize("channels", [31, 64])
def test_surfaces_of_a_cut_are_as_far_apart_as_depthwise_tasks_write(
    chip: str, channels: int
) -> None:
    """On RK3576 they are multiples of 4 pixels apart."""
    shape = (1, 5, 6, channels)
    builder = ModelBuilder("cut")
    x = builder.input("x", shape, DType.INT8, GIVEN)
    y = function(builder, "RELU", (x,), GIVEN)
    part = moves.slice_of(builder, y, (0, 0, 2, 0), (1, 5, 3, channels))
    check(builder.build(part), shape, chip)
