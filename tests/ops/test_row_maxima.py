"""Compare the largest value of each pixel's channels with TensorFlow Lite: it is equal."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import Net, layers
from tests.inferences import outputs
from tests.loops import for_each

ONE = Quantization((0.05,), (3,))
LEAST = {DType.INT8: -128, DType.UINT8: 0, DType.FLOAT32: -65504}
CHANNELS = (1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 130, 257)
TYPES = {
    "int8": ("rk3588", DType.INT8),
    "uint8": ("rk3588", DType.UINT8),
    "fp16": ("rk3588", DType.FLOAT32),
    "int8 of rk3576": ("rk3576", DType.INT8),
}


def model(shape: tuple[int, ...], dtype: DType, *, keep_dims: bool = True) -> bytes:
    builder = Net("maxima")
    x = builder.input("x", shape, dtype, None if dtype is DType.FLOAT32 else ONE)
    axes = (len(shape) - 1,)
    return builder.build(builder.reduced("REDUCE_MAX", x, keep_dims=keep_dims, axes=axes))


def assert_equal(content: bytes, x: npt.NDArray[Any], chip: str = "rk3588") -> None:
    result = compile_model(content, Options(chip=chip, float="fp16", deny_ops=()))
    assert not result.rejections
    (ours,) = outputs(
        content, x, device="simulator", chip=chip, float="fp16", deny_ops="NONE", log_level="error"
    )
    (theirs,) = outputs(content, x)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", TYPES)
@for_each("channels", CHANNELS)
def test_every_channel_is_found(kind: str, channels: int) -> None:
    """Each pixel has its largest value in another channel, a step above all others."""
    chip, dtype = TYPES[kind]
    x = np.full((1, 1, channels, channels), LEAST[dtype], dtype.element.dtype)
    at = np.arange(channels)
    x[0, 0, at, at] += 32 if dtype is DType.FLOAT32 else 1
    assert_equal(model(x.shape, dtype), x, chip)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int8 of rk3576"])
def test_all_pairs_of_two_values_are_equal(kind: str) -> None:
    chip, dtype = TYPES[kind]
    values = np.arange(256) + LEAST[dtype]
    pairs = np.stack(np.meshgrid(values, values), axis=-1)[np.newaxis]
    x = pairs.astype(dtype.element.dtype)
    assert_equal(model(x.shape, dtype), x, chip)


def test_fp16_loses_nothing_beside_large_values() -> None:
    """Differences of such values are no fp32."""
    rng = np.random.default_rng(1)
    ends = np.array([-65504, -1000, -1, -6e-5, 6e-5, 0.1, 1, 1000, 65504])
    x = rng.choice(ends, (1, 9, 20, 33)).astype(np.float16).astype(np.float32)
    x[0, ::2] = np.minimum(x[0, ::2], np.float32(-1))
    assert_equal(model(x.shape, DType.FLOAT32), x)


@pytest.mark.parametrize("kind", TYPES)
@for_each("shape", [(3, 4, 5, 20), (37, 96), (2, 192, 768), (1, 8400, 80), (1, 1, 1, 40), (24,)])
def test_maps_of_any_rank_are_equal(kind: str, shape: tuple[int, ...]) -> None:
    chip, dtype = TYPES[kind]
    rng = np.random.default_rng(2)
    x = (rng.integers(0, 256, shape) + max(LEAST[dtype], -128)).astype(dtype.element.dtype)
    assert_equal(model(shape, dtype), x, chip)
    if len(shape) > 1:
        assert_equal(model(shape, dtype, keep_dims=False), x, chip)


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
def test_spatial_attention_is_one_partition(chip: str) -> None:
    """As CBAM has it: means and maxima of channels side by side, and a convolution of both."""
    builder = Net("attention", np.random.default_rng(3))
    x = builder.input("x", (1, 14, 10, 32), DType.INT8, ONE)
    y = builder.conv(x, 48, layers.Window(3, 3))
    mean, most = (
        builder.reduced(op, y, keep_dims=True, axes=(3,)) for op in ("MEAN", "REDUCE_MAX")
    )
    both = builder.concatenation((mean, most), 3)
    content = builder.build(builder.conv(both, 1, layers.Window(7, 7)))
    result = compile_model(content, Options(chip=chip, deny_ops=()))
    assert not result.rejections
    assert len(result.partitions) == 1
    arrays = [np.random.default_rng(4).integers(-128, 128, (1, 14, 10, 32)).astype(np.int8)]
    given = {"device": "simulator", "chip": chip, "deny_ops": "NONE", "log_level": "error"}
    (ours,), (theirs,) = outputs(content, *arrays, **given), outputs(content, *arrays)
    assert np.abs(ours.astype(int) - theirs).max() <= 2
    assert (ours == theirs).mean() > 0.9
