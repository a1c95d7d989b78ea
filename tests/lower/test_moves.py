"""Concatenations and slices that are no parts in memory: bit for bit TensorFlow Lite's copies."""

import numpy as np
import pytest

from delegate.host.runtimes import find_runtime
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.concatenation import OPERATOR, ConcatenationOptions
from delegate.ops.operator import GraphFacts
from delegate.ops.shared.parts import is_free, part_requantized, parts_of
from delegate.ops.strided_slice import StridedSliceOptions
from tests.lower.test_aliases import SAME, Views, check


def quantized(net: Views, x: int, quantization: Quantization) -> int:
    """A function of ``x`` with another quantisation, and nobody's part yet."""
    spec = net.spec(x)
    return net.result("QUANTIZE", (x,), "part", spec.shape, quantization, dtype=spec.dtype)


@pytest.mark.parametrize("channels", [16, 21, 91])
@pytest.mark.parametrize("axis", [1, 3])
def test_uint8_parts_are_requantised(axis: int, channels: int) -> None:
    """As in the heads of SSD; TensorFlow Lite takes it of uint8 only."""
    rng = np.random.default_rng(channels)
    net = Views(3, 5, 19, dtype=DType.UINT8)
    x = net.map()
    parts = []
    for _ in range(5):
        scale = float(np.float32(10 ** rng.uniform(-2.3, -0.7)))
        quantization = Quantization((scale,), (int(rng.integers(256)),))
        parts.append(quantized(net, net.conv(x, channels), quantization))
    parts.append(net.conv(x, channels))
    joined = net.spec(parts[0])
    shape = list(joined.shape)
    shape[axis] *= len(parts)
    y = net.tensor("joined", shape, DType.UINT8, SAME)
    net.operator("CONCATENATION", tuple(parts), (y,), ConcatenationOptions(axis, Activation.NONE))
    check(net.build(net.conv(y, 8), y))


@pytest.mark.parametrize("seed", range(8))
def test_all_values_of_uint8_parts_are_requantised_as_the_kernel_does(seed: int) -> None:
    """Also where the product is the float32 before one half, to which one half added gives 1."""
    rng = np.random.default_rng(seed)
    builder = Views("parts")
    before_half = float(np.nextafter(np.float32(0.5), np.float32(0)))
    scales = [before_half, 0.5, 1.5, *(10 ** rng.uniform(-6, 6, 40)), 2.0**-20, 3e6]
    zeros = [0, 0, 0, *rng.integers(0, 256, 40), 255, 128]
    whole = Quantization((1.0,), (int(rng.integers(256)),))
    parts = [
        builder.input(f"x{n}", (1, 16, 16, 1), DType.UINT8, Quantization((float(s),), (int(z),)))
        for n, (s, z) in enumerate(zip(scales, zeros, strict=True))
    ]
    y = builder.tensor("joined", (1, 16, 16, len(parts)), DType.UINT8, whole)
    builder.operator("CONCATENATION", tuple(parts), (y,), ConcatenationOptions(3, Activation.NONE))
    graph = read_graph(builder.build(y))
    interpreter = find_runtime().interpreter(builder.build(), reference_kernels=True)
    interpreter.allocate_tensors()
    values = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for part in parts:
        interpreter.set_tensor(part, values)
    interpreter.invoke()
    expected = interpreter.get_tensor(y).reshape(256, -1)
    for part in parts_of(graph, OPERATOR, graph.nodes[0]):
        table = part_requantized(part.part, part.whole)
        assert table is not None
        ours = np.frombuffer(table, np.int8).astype(np.int64) + 128
        np.testing.assert_array_equal(ours, expected[:, part.begin[3]], str(scales[part.begin[3]]))


def strided(net: Views, x: int, begin: tuple[int, int], steps: tuple[int, int]) -> int:
    """Every so many rows and columns, from a corner on."""
    images, height, width, channels = net.spec(x).shape
    size = [-((b - s) // step) for b, s, step in zip(begin, (height, width), steps, strict=True)]
    name = "part"
    y = net.tensor(name, (images, *size, channels), net.dtype, SAME)
    numbers = ((0, *begin, 0), (0, height, width, 0), (1, *steps, 1))
    constants = [net.constant(f"{name}/{i}", np.array(n, np.int32)) for i, n in enumerate(numbers)]
    masks = StridedSliceOptions(0b1001, 0b1001, 0, 0, 0)
    net.operator("STRIDED_SLICE", (x, *constants), (y,), masks, version=2)
    return y


def test_one_row_lies_in_the_image_whatever_the_stride() -> None:
    net = Views(5, 4, 32)
    x = net.conv(net.map(), 32)
    y = strided(net, x, (2, 0), (9, 1))
    graph = read_graph(model := net.build(net.conv(y, 8), net.conv(x, 3)))
    (node,) = (node for node in graph.nodes if node.op == "STRIDED_SLICE")
    assert is_free(GraphFacts(graph), node)
    check(model)


def test_what_is_free_needs_no_task() -> None:
    """16, 32 and 5 channels lie in the joined tensor, 5 and 16 do not."""
    for parts, expected in (((16, 32, 5), True), ((5, 16), False)):
        builder = Views()
        shape = (1, 3, 2)
        tensors = [builder.input(f"x{n}", (*shape, n), DType.INT8, SAME) for n in parts]
        graph = read_graph(builder.build(builder.concatenation(tensors, 3)))
        assert is_free(GraphFacts(graph), graph.nodes[0]) is expected


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize(
    ("channels", "first", "size"), [(144, 54, 65), (144, 1, 15), (33, 3, 12), (49, 17, 16)]
)
def test_a_part_of_an_input_is_read_that_the_host_has_whole(
    channels: int, first: int, size: int, images: int
) -> None:
    """The tensor behind the input, another input here, stays as it is."""
    net = Views(3, 4, channels, images=images)
    x, other = net.map(), net.map(48)
    part = net.slice_of(x, (0, 0, 0, first), (images, 3, 4, size))
    net_of_both = net.build(net.conv(part, 21), net.add(other, other))
    result = check(net_of_both)
    assert len(result.partitions) == 1
    assert not result.rejections
