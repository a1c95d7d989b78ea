"""PAD folded into the convolutions that read it, or written."""

import numpy as np
import pytest

from delegate.model.graph import DType, Padding, Partition
from delegate.model.tflite_reader import read_graph
from delegate.partition.partitioner import select_nodes
from delegate.partition.workload import workload_of
from rk3588_conformance.builder import Arithmetic, ModelBuilder, layers
from rk3588_conformance.builder.ranges import random_quantization
from tests.lower.reference import differences, lower_model, whole_graph


def padded_model(rng, pads, *, kernel=(3, 5), stride=(1, 2), is_depthwise=False, is_output=False):
    """PAD by ((top, bottom), (left, right)), then a VALID convolution."""
    builder = ModelBuilder("pad")
    quantization = random_quantization(rng, DType.INT8, 0.02, 17)
    x = builder.input("x", (1, 9, 11, 6), DType.INT8, quantization)
    (top, bottom), (left, right) = pads
    amounts = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
    shape = (1, 9 + top + bottom, 11 + left + right, 6)
    padded = builder.tensor("padded", shape, DType.INT8, quantization)
    builder.operator("PAD", (x, builder.constant("amounts", amounts)), (padded,), None)
    arithmetic = Arithmetic(per_channel=True)
    (kh, kw), (sh, sw) = kernel, stride
    if is_depthwise:
        y = layers.depthwise(
            builder,
            rng,
            padded,
            layers.Window(kh, kw, sh, sw, padding=Padding.VALID),
            arithmetic=arithmetic,
        )
    else:
        y = layers.conv(
            builder,
            rng,
            padded,
            13,
            layers.Window(kh, kw, sh, sw, padding=Padding.VALID),
            arithmetic=arithmetic,
        )
    builder.output(y)
    if is_output:
        builder.output(padded)
    return builder.build()


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize("pads", [((1, 1), (2, 2)), ((0, 2), (3, 1)), ((2, 0), (0, 4))])
def test_folded_padding_equals_the_reference(pads, is_depthwise):
    rng = np.random.default_rng(sum(pads[0]) + 10 * pads[1][0])
    model = padded_model(rng, pads, is_depthwise=is_depthwise)
    assert select_nodes(read_graph(model))[1] == ()
    (difference,) = differences(model, rng)
    assert not difference.any()
    _, _, lowered = lower_model(model)
    assert [layer.nodes for layer in lowered.layers] == [(0, 1)]


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize("pads", [((3, 0), (0, 0)), ((0, 0), (0, 5)), ((17, 2), (1, 20))])
def test_padding_wider_than_the_kernel_has_tasks(pads, is_depthwise):
    rng = np.random.default_rng(0)
    model = padded_model(rng, pads, is_depthwise=is_depthwise)
    assert select_nodes(read_graph(model))[1] == ()
    (difference,) = differences(model, rng)
    assert not difference.any()
    _, _, lowered = lower_model(model)
    assert [layer.nodes for layer in lowered.layers] == [(0,), (1,)]


def test_a_padded_image_that_somebody_sees_is_written():
    rng = np.random.default_rng(0)
    model = padded_model(rng, ((1, 1), (1, 1)), is_output=True)
    assert not any(difference.any() for difference in differences(model, rng))
    # A context does not tell its outputs: the partition does.
    model = padded_model(rng, ((1, 1), (1, 1)))
    graph = read_graph(model)
    partition = whole_graph(graph)
    seen = (graph.nodes[0].outputs[0], *graph.outputs)
    workload = workload_of(graph, Partition(partition.nodes, partition.inputs, seen))
    assert [operation.nodes for operation in workload.operations] == [(0,), (1,)]
