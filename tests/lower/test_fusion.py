"""``numerics=fast``: functions and additions in the tasks of convolutions, run on the simulator.

The judges: TensorFlow Lite's reference kernels for the bound that the compiler proves, a
convolution in float64 for what "nearer to the real numbers" means, and a plain count for the
modelled share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from delegate.builder import layers
from delegate.builder.layers import Arithmetic
from delegate.builder.model_builder import ModelBuilder
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.sub import SubOptions
from tests.lower.fusion_graphs import (
    EXACT,
    FAST,
    FUNCTIONS,
    LOWEST,
    MOST_LSB,
    SHAPES,
    TYPES,
    Arrays,
    Floats,
    arithmetic,
    convolved,
    hard_swish,
    inputs_of,
    joined,
    leaky,
    middle,
    more,
    off,
    real,
    references,
    run,
    silu,
    start,
)
from tests.lower.reference import find_runtime


def convolution(
    builder: ModelBuilder, x: int, shape: Sequence[int], given: Arithmetic, is_depthwise: bool
) -> int:
    _, _, _, _, oc, kh, kw = shape
    rng = np.random.default_rng([*shape, is_depthwise])
    if is_depthwise:
        return layers.depthwise(builder, rng, x, layers.Window(kh, kw), arithmetic=given)
    return layers.conv(builder, rng, x, oc, layers.Window(kh, kw), arithmetic=given)


@pytest.mark.parametrize("is_depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_joins_the_convolution_before_it(
    name: str, shape: Sequence[int], dtype: DType, is_depthwise: bool
) -> None:
    builder, x = start(dtype, shape[:4])
    y = convolution(builder, x, shape, arithmetic(dtype), is_depthwise)
    make, truth = FUNCTIONS[name]
    builder.output(make(builder, y))
    model = builder.build()
    arrays = inputs_of(model)
    result, ours = run(model, FAST, arrays)
    (layer,) = joined(result)
    assert layer.nodes == tuple(range(len(result.graph.nodes)))
    assert layer.difference is not None
    assert layer.difference.most_lsb <= MOST_LSB
    _, exact = run(model, EXACT, arrays)
    assert off(ours[0], references(model, arrays)[0]).max() <= layer.difference.most_lsb
    graph = result.graph
    wanted = truth(convolved(graph, 0, real(arrays[0], graph.tensor(graph.inputs[0]).quantization)))
    assert_nearer(graph.tensor(graph.outputs[0]), wanted, ours[0], exact[0])


def assert_nearer(tensor, wanted: Floats, fast, exact) -> None:
    """The mean distance to the real number, of results that int8 can hold: no larger where many
    results differ, and else no larger by more than these few.
    """
    share = float((off(fast, exact) > 0).mean())
    share_if_rounded = share if share < 0.05 else 0.0
    limits = real(np.array([LOWEST[tensor.dtype], LOWEST[tensor.dtype] + 255]), tensor.quantization)
    wanted = np.clip(wanted, *limits)
    errors = [
        np.abs(real(found, tensor.quantization) - wanted).mean() / tensor.quantization.scale
        for found in (fast, exact)
    ]
    # By chance, of so many results and of those that differ: 0.29 is the deviation of a rounding.
    assert errors[0] <= errors[1] + 0.29 / np.sqrt(wanted.size) + MOST_LSB * share_if_rounded


def two_convolutions(
    dtype: DType, shape: Sequence[int], scales: tuple[float, float] = (0.06, 0.045)
) -> tuple[ModelBuilder, int, int]:
    builder, x = start(dtype, shape[:4])
    first = convolution(builder, x, shape, arithmetic(dtype, scales[0], 9), False)
    second = convolution(builder, x, shape, arithmetic(dtype, scales[1], -4), False)
    return builder, first, second


def summed(
    builder: ModelBuilder, a: int, b: int, activation: Activation = Activation.NONE, op: str = "ADD"
) -> int:
    spec = builder.spec(a)
    zero_point = middle(spec.dtype, 3 if activation is Activation.NONE else -128)
    y = builder.tensor("sum", spec.shape, spec.dtype, Quantization((0.09,), (zero_point,)))
    make = AddOptions if op == "ADD" else SubOptions
    builder.operator(op, (a, b), (y,), make(activation))
    return y


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU], ids=lambda a: a.name)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_an_addition_joins_a_convolution_before_it(
    shape: Sequence[int], dtype: DType, activation: Activation, is_first: bool
) -> None:
    builder, a, b = two_convolutions(dtype, shape)
    builder.output(summed(builder, *((a, b) if is_first else (b, a)), activation))
    model = builder.build()
    arrays = inputs_of(model)
    result, ours = run(model, FAST, arrays)
    (layer,) = joined(result)
    assert len(layer.nodes) == 2
    assert layer.difference is not None
    assert layer.difference.most_lsb <= MOST_LSB
    assert off(ours[0], references(model, arrays)[0]).max() <= layer.difference.most_lsb
    _, exact = run(model, EXACT, arrays)
    graph = result.graph
    x = real(arrays[0], graph.tensor(graph.inputs[0]).quantization)
    # The other operand is an int8 tensor in both.
    alone = 1 - (layer.nodes[0])
    known = clipped(graph, graph.node(alone).outputs[0], convolved(graph, alone, x))
    wanted = known + convolved(graph, 1 - alone, x)
    assert_nearer(
        graph.tensor(graph.outputs[0]),
        np.maximum(wanted, 0.0) if activation is Activation.RELU else wanted,
        ours[0],
        exact[0],
    )


def clipped(graph, index: int, values: Floats) -> Floats:
    """As the tensor holds them."""
    tensor = graph.tensor(index)
    low = LOWEST[tensor.dtype]
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    steps = np.clip(np.rint(values / scale) + zero_point, low, low + 255)
    return np.asarray((steps - zero_point) * scale)


def test_a_difference_joins_what_is_not_subtracted() -> None:
    for is_first in (False, True):
        builder, a, b = two_convolutions(DType.INT8, SHAPES[0])
        builder.output(summed(builder, *((a, b) if is_first else (b, a)), op="SUB"))
        within_bound(builder.build(), (0 if is_first else 1, 2))


def within_bound(model: bytes, nodes: tuple[int, ...]) -> Arrays:
    """One task computes ``nodes``, as near to the reference kernels as it says; their results and
    its.
    """
    arrays = inputs_of(model)
    result, ours = run(model, FAST, arrays)
    (layer,) = joined(result)
    assert layer.nodes == nodes
    assert layer.difference is not None
    assert layer.difference.most_lsb <= MOST_LSB
    theirs = references(model, arrays)[0]
    assert off(ours[0], theirs).max() <= layer.difference.most_lsb
    return [ours[0], theirs]


def equal_and_apart(model: bytes) -> None:
    """Nothing is joined, and the bytes are the reference kernels'."""
    arrays = inputs_of(model)
    result, ours = run(model, FAST, arrays)
    assert not joined(result)
    for mine, theirs in zip(ours, references(model, arrays), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_result_that_others_read_exists(dtype: DType) -> None:
    shape = (1, 7, 5, 24, 24, 3, 3)
    builder, x = start(dtype, shape[:4])
    y = convolution(builder, x, shape, arithmetic(dtype), False)
    builder.output(silu(builder, y))
    builder.output(y)
    equal_and_apart(builder.build())
    builder, x = start(dtype, shape[:4])
    y = convolution(builder, x, shape, arithmetic(dtype), False)
    builder.output(hard_swish(builder, y))
    builder.output(leaky(builder, y))
    equal_and_apart(builder.build())


def test_a_sum_of_a_tensor_with_itself_is_a_function() -> None:
    builder, x = start(DType.INT8, (1, 7, 5, 24))
    y = convolution(builder, x, SHAPES[0], arithmetic(DType.INT8), False)
    builder.output(summed(builder, y, y))
    within_bound(builder.build(), (0, 1))


def test_a_residual_block_adds_in_the_task_of_its_convolution() -> None:
    """The input of the block is read by its convolution and by its sum."""
    shape = (1, 9, 7, 24, 24, 3, 3)
    builder, x = start(DType.INT8, shape[:4])
    y = convolution(builder, x, shape, arithmetic(DType.INT8), False)
    builder.output(summed(builder, x, y))
    within_bound(builder.build(), (0, 1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("scale", [0.036, 0.03, 0.05], ids=lambda s: f"scale {s}")
@pytest.mark.parametrize("factor", [1.0, 1.37], ids=lambda f: f"by {f}")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_and_an_addition_join_together(
    name: str, factor: float, scale: float, dtype: DType
) -> None:
    """Scales that are simple ratios of one another, too: nothing may be left over that moves
    results to one side, but for exact ties.
    """
    shape = (1, 19, 13, 40, 40, 1, 3)
    builder, x = start(dtype, shape[:4])
    y = FUNCTIONS[name][0](builder, convolution(builder, x, shape, arithmetic(dtype), False))
    other = more(builder, dtype, shape[:4], scale, "other")
    spec = builder.spec(y).quantization
    assert spec is not None
    target = Quantization((max(spec.scale, scale) * factor,), (middle(dtype, -31),))
    z = builder.tensor("sum", shape[:4], dtype, target)
    builder.operator("ADD", (other, y), (z,), AddOptions())
    builder.output(z)
    model = builder.build()
    nodes = tuple(range(len(read_graph(model).nodes)))
    ours, theirs = within_bound(model, nodes)
    moved = float((ours.astype(np.int64) - theirs.astype(np.int64)).mean())
    steps = np.arange(-128, 128)
    sums = np.add.outer(steps * (spec.scale / target.scale), steps * (scale / target.scale))
    ties = float((np.abs(sums - np.floor(sums) - 0.5) < 1e-4).mean())
    assert abs(moved) <= ties / 2 + 0.01 + 2 / np.sqrt(ours.size)


@pytest.mark.parametrize("spread", [4.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("bias", [0, 1 << 20, -(1 << 28), (1 << 31) - 1])
def test_coarse_and_saturated_channels_stay_within_the_bound(spread: float, bias: int) -> None:
    shape = (1, 5, 7, 33, 40, 1, 1)
    for is_sum in (False, True):
        builder, x = start(DType.INT8, shape[:4])
        biases = np.random.default_rng(3).integers(-5000, 5000, 40).astype(np.int32)
        biases[::7] = bias
        given = arithmetic(DType.INT8, channel_spread=spread, bias=biases)
        y = convolution(builder, x, shape, given, False)
        if is_sum:
            other = more(builder, DType.INT8, (1, 5, 7, 40), 0.05, "other")
            builder.output(summed(builder, y, other))
        else:
            builder.output(silu(builder, y))
        model = builder.build()
        if compile_model(model, EXACT).rejections:
            assert compile_model(model, FAST).rejections
            continue
        arrays = inputs_of(model)
        result, ours = run(model, FAST, arrays)
        most = max((layer.difference.most_lsb for layer in joined(result)), default=1)
        assert most <= MOST_LSB
        assert off(ours[0], references(model, arrays)[0]).max() <= most


def even_convolution(builder: ModelBuilder, x: int, dtype: DType, steps: float) -> int:
    """Whose accumulators are about as frequent anywhere: one large weight, and small ones; its
    results take the range of int8 ``steps`` times.
    """
    channels = builder.spec(x).shape[3]
    weights = np.zeros((16, 1, 1, channels), np.int8)
    weights[:, 0, 0, 0] = 127
    weights[:, 0, 0, 1] = 31
    weights[:, 0, 0, 2:] = np.random.default_rng(1).integers(-3, 4, (16, channels - 2))
    source = builder.spec(x).quantization
    assert source is not None
    scale = 0.008
    given = Arithmetic(
        per_channel=True,
        weights=weights,
        weight_scales=(scale,) * 16,
        bias=np.full(16, 7 * 158, np.int32) * -1,
        output_scale=source.scale * scale * 127 / steps,
        output_zero_point=-1,
    )
    rng = np.random.default_rng(0)
    return layers.conv(builder, rng, x, 16, layers.Window(1, 1), arithmetic=given)


@pytest.mark.parametrize("name", [*FUNCTIONS, "addition"])
def test_as_many_results_differ_as_modelled(name: str) -> None:
    """Of accumulators that are even over the range, as the model takes them. What is not even is
    counted by result of the convolution: the same number of each is the model's assumption, so each
    has the weight of one. The tolerance: five standard deviations of the mean, by the spread among
    inputs of their own, and a tenth for the model's own sample.
    """
    builder, x = start(DType.INT8, (1, 64, 64, 8))
    y = even_convolution(builder, x, DType.INT8, 1.0)
    if name == "addition":
        other = more(builder, DType.INT8, (1, 64, 64, 16), 0.031, "other")
        spec = builder.spec(y).quantization
        assert spec is not None
        z = builder.tensor(
            "sum", (1, 64, 64, 16), DType.INT8, Quantization((spec.scale * 1.7,), (2,))
        )
        builder.operator("ADD", (y, other), (z,), AddOptions())
        builder.output(z)
    else:
        builder.output(FUNCTIONS[name][0](builder, y))
    model = builder.build()
    shares = []
    for seed in range(6):
        arrays = inputs_of(model, seed)
        result, ours = run(model, FAST, arrays)
        (layer,) = joined(result)
        differs = off(ours[0], references(model, arrays)[0]).ravel() > 0
        of_conv = inner(model, 0, arrays).ravel().astype(np.int64) + 128
        counts = np.bincount(of_conv, minlength=256)
        wrong = np.bincount(of_conv, weights=differs, minlength=256)
        assert np.count_nonzero(counts) > 200
        shares.append(float((wrong[counts > 0] / counts[counts > 0]).mean()))
    assert layer.difference is not None
    tolerance = 5 * float(np.std(shares)) / np.sqrt(len(shares)) + 0.1 * layer.difference.share
    assert abs(float(np.mean(shares)) - layer.difference.share) <= tolerance
    assert layer.difference.share > 0


def test_many_short_functions_share_a_load() -> None:
    """SiLU is flat far below 0: six functions of 256 values would take two loads."""
    builder, x = start(DType.INT8, SHAPES[0][:4])
    scales = [0.08, 0.082, 0.085, 0.088, 0.09, 0.094]
    for scale in scales:
        given = arithmetic(DType.INT8, scale, zero_point=60)
        builder.output(silu(builder, convolution(builder, x, SHAPES[0], given, False)))
    model = builder.build()
    arrays = inputs_of(model)
    result, ours = run(model, FAST, arrays)
    layers = joined(result)
    assert len(layers) == len(scales)
    loads = {task.table.functions for layer in layers for task in layer.tasks}
    assert len(loads) == 1
    for found, wanted in zip(ours, references(model, arrays), strict=True):
        assert off(found, wanted).max() <= MOST_LSB


def inner(model: bytes, node: int, arrays: Arrays) -> npt.NDArray[np.generic]:
    """The reference kernels' result of an inner node."""
    graph = read_graph(model)
    module = find_runtime().module
    interpreter = module.Interpreter(
        model_content=model,
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    for index, array in zip(graph.inputs, arrays, strict=True):
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(graph.node(node).outputs[0]))
