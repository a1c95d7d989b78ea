"""PAD folded into the convolutions that read it."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.conformance.builder import Arithmetic, ModelBuilder, layers, options
from delegate.conformance.builder.ranges import random_quantization
from delegate.errors import LoweringError
from delegate.model.graph import DType, Padding
from delegate.model.partition import Partition
from delegate.model.tflite_reader import read_graph
from delegate.partition.partitioner import select_nodes
from delegate.partition.workload import workload_of
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
    builder.operator("PAD", (x, builder.constant("amounts", amounts)), (padded,), options.empty())
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


def test_padding_wider_than_the_kernel_stays_on_the_cpu():
    model = padded_model(np.random.default_rng(0), ((3, 0), (0, 0)))
    _, (rejection,) = select_nodes(read_graph(model))
    assert rejection.rule == "pad_read_by_convolutions"


def test_a_padded_image_that_is_an_output_stays_on_the_cpu():
    model = padded_model(np.random.default_rng(0), ((1, 1), (1, 1)), is_output=True)
    graph = read_graph(model)
    assert [r.rule for r in select_nodes(graph)[1]] == ["pad_read_by_convolutions"]
    partition = whole_graph(graph)
    # A context does not tell its outputs: lowering refuses what the rule could not see.
    with pytest.raises(LoweringError, match="padded"):
        workload_of(graph, Partition(partition.nodes, partition.inputs, graph.outputs))
