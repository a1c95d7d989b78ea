"""PAD folded into the convolutions that read it, or written."""

import numpy as np
import pytest

from delegate.model.graph import DType, Padding, Partition
from delegate.model.tflite_reader import read_graph
from delegate.partition.partitioner import select_nodes
from delegate.partition.workload import workload_of
from rk3588_conformance.builder import Arithmetic, Net, layers
from rk3588_conformance.builder.ranges import random_quantization
from tests.lower.reference import differences, lower_model, whole_graph


def padded_model(rng, pads, *, is_depthwise=False, is_output=False):
    """PAD by ((top, bottom), (left, right)), then a VALID convolution."""
    builder = Net("pad", rng)
    quantization = random_quantization(rng, DType.INT8, 0.02, 17)
    x = builder.input("x", (1, 9, 11, 6), DType.INT8, quantization)
    padded = builder.pad(x, [(0, 0), *pads, (0, 0)], name="padded")
    window = layers.Window(3, 5, 1, 2, padding=Padding.VALID)
    arithmetic = Arithmetic(per_channel=True)
    if is_depthwise:
        y = builder.depthwise(padded, window, arithmetic=arithmetic)
    else:
        y = builder.conv(padded, 13, window, arithmetic=arithmetic)
    return builder.build(y, *([padded] * is_output))


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize(
    ("pads", "is_folded"),
    [
        *((pads, True) for pads in (((1, 1), (2, 2)), ((0, 2), (3, 1)), ((2, 0), (0, 4)))),
        *((pads, False) for pads in (((3, 0), (0, 0)), ((0, 0), (0, 5)), ((17, 2), (1, 20)))),
    ],
)
def test_padding_is_folded_unless_it_is_wider_than_the_kernel(pads, is_folded, is_depthwise):
    rng = np.random.default_rng(sum(pads[0]) + 10 * pads[1][0])
    model = padded_model(rng, pads, is_depthwise=is_depthwise)
    assert select_nodes(read_graph(model))[1] == ()
    (difference,) = differences(model, rng)
    assert not difference.any()
    _, _, lowered = lower_model(model)
    nodes = [(0, 1)] if is_folded else [(0,), (1,)]
    assert [layer.nodes for layer in lowered.layers] == nodes


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
