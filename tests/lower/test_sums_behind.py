"""Sums in the tasks of convolutions (``numerics=auto``), run on the simulator.

The bound is the contract's: where the convolution alone gives k, a sum lies between that of k - 1,
less one, and that of k + 1, plus one. k and all sums are TensorFlow Lite's, of models of their own.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from delegate.chip.chips import chip_named
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from rk3588_conformance.builder import Net, layers
from rk3588_conformance.builder.layers import Arithmetic
from tests.loops import for_each
from tests.lower import fusion_graphs as f

Shape = Sequence[int]


def add(
    builder: Net,
    operands: tuple[int, int],
    scale: float,
    zero_point: int = -3,
    activation: Activation = Activation.NONE,
) -> int:
    kind = builder.spec(operands[0]).dtype
    return builder.add(*operands, output_scale=scale, output_zero_point=f.middle(kind, zero_point),
        activation=activation,
    )  # fmt: skip


def model_of(
    shape: Shape,
    given: Arithmetic,
    dtype: DType,
    scales: tuple[float, float] | None,
    *,
    is_second: bool = False,
    zero_point: int = -3,
    activation: Activation = Activation.NONE,
) -> bytes:
    """A convolution and its sum with an input; without ``scales``, of input and sum, alone."""
    n, h, w, _, oc, kh, kw = shape
    builder, x = f.start(dtype, shape[:4])
    builder.rng = np.random.default_rng(shape)
    other = None if scales is None else f.more(builder, dtype, (n, h, w, oc), scales[0], "other")
    y = builder.conv(x, oc, layers.Window(kh, kw), arithmetic=given)
    if scales is not None and other is not None:
        operands = (other, y) if is_second else (y, other)
        y = add(builder, operands, scales[1], zero_point, activation)
    return builder.build(y)


def sums_of(given: Arithmetic, dtype: DType, scales: tuple[float, float], **sum_: object):
    """[k, other]: the reference kernels' sums of all pairs of values."""
    assert given.output_scale is not None
    builder = Net("sums")
    own = Quantization((given.output_scale,), (given.output_zero_point,))
    k = builder.input("k", (1, 256, 256, 1), dtype, own)
    other = f.more(builder, dtype, (1, 256, 256, 1), scales[0], "other")
    builder.output(add(builder, (k, other), scales[1], **sum_))  # type: ignore[arg-type]
    values = np.arange(f.LOWEST[dtype], f.LOWEST[dtype] + 256)
    kind = np.uint8 if dtype is DType.UINT8 else np.int8
    pairs = [np.broadcast_to(v, (256, 256)) for v in (values[:, None], values)]
    (found,) = f.references(
        builder.build(), [p.reshape(1, 256, 256, 1).astype(kind) for p in pairs]
    )
    return found.reshape(256, 256).astype(np.int64)


def assert_within(ours: np.ndarray, k: np.ndarray, other: np.ndarray, sums, dtype: DType) -> None:
    """``sums``: [k, other]."""
    low = f.LOWEST[dtype]
    at, with_ = (values.astype(np.int64) - low for values in (k, other))
    least = sums[np.maximum(at - 1, 0), with_] - 1
    most = sums[np.minimum(at + 1, 255), with_] + 1
    assert (ours >= least).all()
    assert (ours <= most).all()


def check(
    shape: Shape, given: Arithmetic, dtype: DType, scales: tuple[float, float], **ways: bool
) -> float:
    """Judge the elements; return the share that differs from the two kernels."""
    model = model_of(shape, given, dtype, scales, **ways)  # type: ignore[arg-type]
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.AUTO, arrays)
    (layer,) = f.joined(result)
    assert layer.nodes == (0, 1)
    (k,) = f.references(model_of(shape, given, dtype, None), arrays[:1])
    assert_within(ours[0], k, arrays[1], sums_of(given, dtype, scales), dtype)
    assert layer.difference is not None
    difference = f.off(ours[0], f.references(model, arrays)[0])
    assert difference.max() <= layer.difference.most_lsb
    return float(np.mean(difference > 0))


SCALES = ((0.06, 0.09), (0.11, 0.07), (0.01, 0.4), (0.5, 0.5), (0.0003, 0.01))


@for_each("dtype", f.TYPES)
@for_each("shape", f.SHAPES)
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_a_sum_joins_the_convolution_before_it(
    scales: tuple[float, float], shape: Shape, dtype: DType
) -> None:
    is_second = (shape[1] + SCALES.index(scales)) % 2 == 0
    check(shape, f.arithmetic(dtype), dtype, scales, is_second=is_second)


@pytest.mark.parametrize("dtype", f.TYPES, ids=str)
@pytest.mark.parametrize("output_scale", [0.5, 0.06, 0.004, 0.0005])
def test_a_convolution_that_saturates_ends_where_int8_does(
    dtype: DType, output_scale: float
) -> None:
    """With a scale of 0.0005 nearly all results are -128 or 127; the sum must not go on beyond."""
    for zero_point in (-128, 5, 127):
        given = f.arithmetic(dtype, output_scale, zero_point)
        for scales in ((0.06, 0.2), (output_scale, 4 * output_scale)):
            check((1, 9, 7, 24, 40, 3, 3), given, dtype, scales)


@pytest.mark.parametrize("spread", [4.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("bias", [0, 1 << 20, -(1 << 28), (1 << 31) - 1])
def test_coarse_and_saturated_channels_stay_within_the_bound(spread: float, bias: int) -> None:
    """All that joins is within the bound; the rest stays apart."""
    shape, scales = (1, 5, 7, 33, 40, 1, 1), (0.06, 0.1)
    biases = np.random.default_rng(3).integers(-5000, 5000, 40).astype(np.int32)
    biases[::7] = bias
    given = f.arithmetic(DType.INT8, channel_spread=spread, bias=biases)
    model = model_of(shape, given, DType.INT8, scales)
    found = compile_model(model, f.AUTO)
    if found.rejections or not f.joined(found):
        return
    check(shape, given, DType.INT8, scales)


def test_channels_that_differ_little_join() -> None:
    """So the test above judges something."""
    biases = np.random.default_rng(3).integers(-5000, 5000, 40).astype(np.int32)
    given = f.arithmetic(DType.INT8, channel_spread=4.0, bias=biases)
    check((1, 5, 7, 33, 40, 1, 1), given, DType.INT8, (0.06, 0.1))


def test_most_sums_are_those_of_the_kernels() -> None:
    """The middle of what is told, of a sum whose unit is the convolution's."""
    shape, given = (1, 33, 31, 48, 64, 1, 1), f.arithmetic(DType.INT8)
    model = model_of(shape, given, DType.INT8, (0.06, 0.06))
    (layer,) = f.joined(compile_model(model, f.AUTO))
    assert layer.difference is not None
    share = check(shape, given, DType.INT8, (0.06, 0.06))
    assert share < 0.3
    assert abs(share - layer.difference.share) < 0.1


def test_a_clamp_that_is_not_the_types_is_no_part_of_it() -> None:
    shape, given = (1, 7, 5, 24, 24, 1, 1), f.arithmetic(DType.INT8)
    for zero_point, is_joined in ((-128, True), (-3, False)):
        model = model_of(
            shape, given, DType.INT8, (0.06, 0.1), zero_point=zero_point,
            activation=Activation.RELU,
        )  # fmt: skip
        assert bool(f.joined(compile_model(model, f.AUTO))) == is_joined


def apart(model: bytes) -> None:
    assert f.joined(compile_model(model, f.AUTO)) == []


def test_what_is_no_part_of_a_task() -> None:
    shape, given = (1, 7, 5, 24, 24, 3, 3), f.arithmetic(DType.INT8)
    # With numerics=exact both operators are equal to the kernels.
    model = model_of(shape, given, DType.INT8, (0.06, 0.1))
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.EXACT, arrays)
    assert not f.joined(result)
    np.testing.assert_array_equal(ours[0], f.references(model, arrays)[0])
    # A result that others read exists.
    builder, x = f.start(DType.INT8, shape[:4])
    other = f.more(builder, DType.INT8, shape[:4], 0.06, "other")
    y = builder.conv(x, 24, layers.Window(3, 3), arithmetic=given)
    apart(builder.build(y, add(builder, (y, other), 0.1)))
    # Nobody has run one behind a depthwise convolution: readers of surfaces go wrong there.
    builder, x = f.start(DType.INT8, shape[:4])
    other = f.more(builder, DType.INT8, shape[:4], 0.06, "other")
    y = builder.depthwise(x, layers.Window(3, 3), arithmetic=given)
    apart(builder.build(add(builder, (y, other), 0.1)))
    # A value with itself is a function.
    builder, x = f.start(DType.INT8, shape[:4])
    y = builder.conv(x, 24, layers.Window(3, 3), arithmetic=given)
    for layer in f.joined(compile_model(builder.build(add(builder, (y, y), 0.1)), f.AUTO)):
        assert all(task.ew is None for task in layer.tasks)
    # The other chip adds in tasks of its own.
    assert f.joined(compile_model(model, f.AUTO, chip=chip_named("rk3576"))) == []


@pytest.mark.parametrize("channels", [8, 16, 24, 48, 64, 80, 97])
def test_chains_of_residual_blocks(channels: int) -> None:
    """Each sum is the next one's operand; images of two, tiles of several rows."""
    given = f.arithmetic(DType.INT8, 0.06)
    builder, x = f.start(DType.INT8, (2, 37, 23, channels))
    for _ in range(3):
        y = builder.conv(x, channels, layers.Window(1, 1), arithmetic=given)
        x = add(builder, (x, y), 0.09)
    model = builder.build(x)
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.AUTO, arrays)
    assert len(f.joined(result)) == 3
    # Of three sums in a row each is off by little: all together by no more than their bounds.
    assert f.off(ours[0], f.references(model, arrays)[0]).max() <= 6
    exposed = ours[0]
    again, same = f.run(model, f.AUTO, arrays)
    np.testing.assert_array_equal(exposed, same[0])
    assert len(again.partitions) == 1


def test_both_operands_are_convolutions() -> None:
    """One joins: the one whose result is made last, here the second."""
    given = f.arithmetic(DType.INT8)
    builder, x = f.start(DType.INT8, (1, 9, 11, 40))
    first, second = (builder.conv(x, 40, layers.Window(1, 1), arithmetic=given) for _ in range(2))
    model = builder.build(add(builder, (first, second), 0.1))
    result, ours = f.run(model, f.AUTO, f.inputs_of(model))
    (layer,) = f.joined(result)
    assert layer.nodes == (1, 2)
    most = layer.difference.most_lsb + 1
    assert f.off(ours[0], f.references(model, f.inputs_of(model))[0]).max() <= most


@pytest.mark.parametrize("channels", [16, 32, 48])
@pytest.mark.parametrize("is_turned", [False, True])
def test_sums_and_summands_beside_other_parts_of_a_concatenation(
    channels: int, is_turned: bool
) -> None:
    given = f.arithmetic(DType.INT8)
    builder, x = f.start(DType.INT8, (1, 7, 5, channels))
    one, two = (
        builder.conv(x, channels, layers.Window(side, side), arithmetic=given) for side in (1, 3)
    )
    total = add(builder, (one, two), 0.06, 5)
    parts = (one, total) if is_turned else (total, one)
    model = builder.build(builder.concatenation(parts, axis=3))
    arrays = f.inputs_of(model)
    result, ours = f.run(model, f.AUTO, arrays)
    assert len(f.joined(result)) == 1
    assert f.off(ours[0], f.references(model, arrays)[0]).max() <= 3
