"""Lowered tasks, executed on NumPy, against TensorFlow Lite's reference kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from delegate.errors import LoweringError
from delegate.lower.numerics.addition import requantize_sum
from delegate.model.graph import Activation, DType, Graph, Padding
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.partition.partitioner import select_nodes
from rk3588_conformance.builder import (
    Arithmetic,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
)
from tests.lower.reference import differences, lower_model, random_inputs, tflite_outputs
from tests.machine.task_machine import Machine
from tests.shared_folder import model_files, needs_models

CONVOLUTIONS = [
    # h, w, ic, oc, kh, kw, sh, sw, dh, dw
    (7, 11, 3, 5, 3, 3, 1, 1, 1, 1),
    (13, 9, 16, 33, 3, 5, 2, 1, 1, 1),
    (17, 23, 31, 64, 1, 1, 1, 2, 1, 1),
    (19, 5, 48, 17, 5, 3, 1, 1, 2, 1),
    (1, 29, 33, 31, 1, 7, 1, 3, 1, 1),
    (29, 1, 65, 32, 3, 1, 2, 1, 3, 1),
    (8, 8, 1, 1, 3, 3, 1, 1, 1, 2),
    (61, 113, 40, 24, 3, 3, 2, 2, 1, 1),
]


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("padding", [Padding.SAME, Padding.VALID])
@pytest.mark.parametrize("geometry", CONVOLUTIONS, ids=lambda g: "x".join(map(str, g)))
def test_convolution_equals_the_reference(geometry, padding, dtype):
    h, w, _, _, kh, kw, _, _, dh, dw = geometry
    if padding is Padding.VALID and ((kh - 1) * dh >= h or (kw - 1) * dw >= w):
        pytest.skip("the kernel reaches over the whole image: VALID has no output")
    rng = np.random.default_rng([*geometry, padding.value])
    per_channel = dtype is DType.INT8
    model = conv_model(
        rng, *geometry, padding, dtype, arithmetic=Arithmetic(per_channel=per_channel)
    )
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize("channels", [1, 7, 16, 33, 47, 64, 97, 112])
def test_depthwise_equals_the_reference(channels, dtype):
    rng = np.random.default_rng(channels)
    arithmetic = Arithmetic(per_channel=dtype is DType.INT8, activation=Activation.RELU6)
    model = depthwise_model(
        rng, 11, 14, channels, 3, 5, 2, 1, padding=Padding.SAME, dtype=dtype, arithmetic=arithmetic
    )
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize(
    "activation",
    [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1],
)
@pytest.mark.parametrize("zero_point", [-128, -3, 77])
@pytest.mark.parametrize("per_channel", [False, True])
def test_activations_clamp_whatever_the_zero_point(activation, zero_point, per_channel):
    rng = np.random.default_rng(zero_point + 1000)
    arithmetic = Arithmetic(
        activation=activation,
        per_channel=per_channel,
        output_zero_point=zero_point,
        output_scale=0.037,
        weight_scales=None if per_channel else (0.0011,),
    )
    model = conv_model(rng, 9, 6, 20, 18, 3, 3, arithmetic=arithmetic, input_scale=0.02)
    (difference,) = differences(model, rng)
    if activation is Activation.RELU_N1_TO_1 and per_channel:
        # A lower clamp off the zero point turns ties of negative values around: one in 2^R.
        assert difference.max() <= 1
        assert np.count_nonzero(difference) <= 1
    else:
        assert not difference.any()


@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("columns", [1, 64, 101])
def test_fully_connected_equals_the_reference(rows, columns):
    rng = np.random.default_rng(rows * 1000 + columns)
    model = fully_connected_model(rng, (rows, columns), 37, DType.UINT8)
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize(
    "activation", [Activation.NONE, Activation.RELU, Activation.RELU6], ids=lambda a: a.name
)
@pytest.mark.parametrize("shape", [(1, 7, 5, 3), (2, 3, 11, 40), (5, 17), (1, 1, 1, 1)])
def test_addition_equals_the_reference(shape, activation):
    rng = np.random.default_rng(len(shape) * 7 + shape[-1])
    model = add_model(rng, shape, activation=activation)
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 3, 21), (3, 1, 5, 1), (2, 1, 1, 40)])
@pytest.mark.parametrize("kept", tuple(itertools.product((False, True), repeat=4)))
def test_an_operand_is_broadcast(kept, shape, is_constant):
    """Every choice of dimensions that are kept; the others are 1."""
    other = tuple(d if keep else 1 for d, keep in zip(shape, kept, strict=True))
    rng = np.random.default_rng([*shape, *kept])
    model = add_model(rng, shape, other_shape=other, is_constant=is_constant)
    graph = read_graph(model)
    supported, rejections = select_nodes(graph)
    if not supported:
        assert not is_constant
        assert [r.rule for r in rejections] == ["one_operand_has_output_shape"]
        assert other[1:3] not in {(1, 1), shape[1:3]} or other[3] != shape[3]
        return
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize("other", [(), (1,), (21,), (3, 21), (5, 1, 21)])
def test_a_constant_of_lower_rank_is_broadcast(other):
    rng = np.random.default_rng(len(other))
    model = add_model(rng, (2, 5, 3, 21), other_shape=other, is_constant=True)
    (difference,) = differences(model, rng)
    assert not difference.any()


def test_a_constant_map_is_added():
    rng = np.random.default_rng(8)
    model = add_model(rng, (1, 7, 4, 35), is_constant=True, dtype=DType.UINT8)
    (difference,) = differences(model, rng)
    assert not difference.any()


def test_addition_with_both_clamps_off_the_zero_point():
    rng = np.random.default_rng(9)
    model = add_model(rng, (1, 9, 8, 17), activation=Activation.RELU_N1_TO_1, output_zero_point=-31)
    (difference,) = differences(model, rng)
    assert not difference.any()


def test_pixels_beyond_the_cubes_sides_are_split():
    rng = np.random.default_rng(10)
    (difference,) = differences(add_model(rng, (1, 1, 20011, 3)), rng)
    assert not difference.any()


@pytest.mark.parametrize("groups", [2, 3, 6])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_grouped_convolution_equals_the_reference(groups, dtype):
    rng = np.random.default_rng(groups)
    model = conv_model(rng, 7, 10, 12, 18, 3, 3, groups=groups, dtype=dtype)
    (difference,) = differences(model, rng)
    assert not difference.any()


@pytest.mark.parametrize("multiplier", [2, 3, 8])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_depth_multiplier_equals_the_reference(multiplier, dtype):
    rng = np.random.default_rng(multiplier)
    model = depthwise_model(rng, 9, 6, 7, 3, 3, multiplier=multiplier, dtype=dtype)
    (difference,) = differences(model, rng)
    assert not difference.any()


def test_same_tensor_added_to_itself():
    rng = np.random.default_rng(3)
    (difference,) = differences(add_model(rng, (1, 5, 3, 21), is_same_tensor=True), rng)
    assert not difference.any()


@pytest.mark.parametrize("batch", [2, 3])
def test_batches_share_the_weights(batch):
    rng = np.random.default_rng(batch)
    model = conv_model(rng, 6, 9, 12, 20, 3, 3, batch=batch)
    (difference,) = differences(model, rng)
    assert not difference.any()
    _, _, lowered = lower_model(model)
    reuse = [task.cbuf.weight_reuse for task in lowered.layers[0].tasks]
    assert reuse == [False] + [True] * (batch - 1)


@pytest.mark.parametrize("bias", [-(10**9), 10**9, 2**30])
def test_huge_biases_saturate_as_in_the_reference(bias):
    model = huge_bias_model(bias)
    (difference,) = differences(model, np.random.default_rng(5))
    assert not difference.any()


@pytest.mark.parametrize("bias", [-(2**31), 2**31 - 1])
def test_accumulators_that_wrap_in_the_reference_are_refused(bias):
    with pytest.raises(LoweringError, match="int32") as caught:
        lower_model(huge_bias_model(bias))
    assert caught.value.rule == "accumulator_fits_int32"


def huge_bias_model(bias: int) -> bytes:
    rng = np.random.default_rng(5)
    values = rng.integers(-1000, 1000, 24).astype(np.int32)
    values[[3, 17]] = bias
    arithmetic = Arithmetic(bias=values, per_channel=True, output_scale=0.05)
    return conv_model(rng, 5, 6, 8, 24, 3, 3, arithmetic=arithmetic, input_scale=0.02)


def test_channel_scales_that_differ_by_millions():
    rng = np.random.default_rng(11)
    scales = tuple(float(s) for s in np.geomspace(1e-9, 0.02, 24))
    arithmetic = Arithmetic(per_channel=True, weight_scales=scales, output_scale=0.5)
    model = conv_model(rng, 6, 7, 16, 24, 3, 3, arithmetic=arithmetic, input_scale=0.02)
    (difference,) = differences(model, rng)
    assert not difference.any()


def pairs_counted(graph: Graph) -> int:
    """How many of the 65,536 pairs of operands of an addition are one step off, by its proof."""
    (node,) = graph.nodes
    tensors = [graph.tensor(t) for t in (*node.inputs, *node.outputs)]
    moved = 128 if tensors[0].dtype is DType.UINT8 else 0
    scales = [t.quantization.scale for t in tensors]
    zero_points = [t.quantization.zero_point - moved for t in tensors]
    options = node.options_as(AddOptions)
    assert options is not None
    return int(
        requantize_sum(0, tuple(scales), tuple(zero_points), options.activation).proof.wrong.sum()
    )


@needs_models
@pytest.mark.parametrize(
    "path",
    [p for p in model_files("single_op") if p.name.startswith(("conv", "dw", "fc", "add"))][::5],
    ids=lambda p: p.stem,
)
def test_public_one_operator_models(path):
    rng = np.random.default_rng(1)
    model = path.read_bytes()
    graph, partition, lowered = lower_model(model)
    arrays = random_inputs(graph, partition.inputs, rng)
    (ours,), (theirs,) = (
        Machine(lowered).run(arrays),
        tflite_outputs(model, graph, partition, arrays),
    )
    is_other = ours != theirs
    if not path.name.startswith("add"):
        assert not is_other.any()
        return
    # Scales that are simple fractions of each other make ties, which no setting rounds as
    # TensorFlow Lite does: one step for pairs of operands that were counted when it was compiled.
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    pairs = np.stack([np.broadcast_to(array, ours.shape)[is_other] for array in arrays])
    assert len(np.unique(pairs, axis=1).T) <= pairs_counted(graph)
