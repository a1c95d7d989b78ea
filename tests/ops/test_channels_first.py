"""Compare what is computed channels first, as exports of PyTorch reduce pixels and channels.

The oracle is TensorFlow Lite's reference kernels, for whoever reads whatever of it.
"""

from dataclasses import replace

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.shared.channels_first import with_channels_last
from delegate.ops.sub import SubOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.options import softmax
from tests.inferences import outputs

AUTO = Options(deny_ops=())
SCALE = Quantization((0.05,), (3,))
MEANS = Quantization((0.01,), (-7,))
SHARES = Quantization((1 / 256,), (-128,))
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


class Normalised:
    """A convolution, its means, channels first, and what is less them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.builder = builder = Net("channels first")
        rng = np.random.default_rng(4)
        x = builder.input("x", shape, DType.INT8, SCALE)
        self.maps = builder.conv(x, shape[3], Window(1, 1))
        self.given = builder.spec(self.maps).quantization
        self.first = builder.transpose(self.maps, FIRST)
        self.means = builder.reduced("MEAN", self.first, MEANS, keep_dims=True, axes=(2, 3))
        self.less = builder.tensor("less", builder.spec(self.first).shape, DType.INT8, SCALE)
        builder.operator("SUB", (self.first, self.means), (self.less,), SubOptions(Activation.NONE))
        channels = rng.integers(-128, 128, (1, shape[3], 1, 1)).astype(np.int8)
        shift = builder.constant("shift", channels, SCALE)
        self.moved = builder.function("ADD", (self.less, shift), SCALE, AddOptions())
        self.last = builder.transpose(self.moved, LAST)

    def model(self, *results: int) -> bytes:
        for result in results:
            self.builder.output(result)
        return self.builder.build()


def assert_near(model: bytes, deny_ops: str = "NONE", numerics: str = "exact") -> None:
    graph = read_graph(model)
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-128, 128, graph.tensor(t).shape).astype(np.int8) for t in graph.inputs]
    given = {"device": "simulator", "deny_ops": deny_ops, "numerics": numerics}
    made = outputs(model, *arrays, **given, log_level="error")
    for ours, theirs in zip(made, outputs(model, *arrays), strict=True):
        assert ours.shape == theirs.shape
        difference = np.abs(ours.astype(int) - theirs)
        assert difference.max() <= 3  # three operators behind one another, each within one step
        assert (difference > 1).mean() < 0.02


@pytest.mark.parametrize("result", ["first", "means", "less", "moved", "maps"])
def test_whoever_reads_them_sees_what_the_model_says(result: str) -> None:
    """Also the host, while the model runs, which has channels first."""
    given = Normalised((1, 5, 7, 33))
    assert_near(given.model(given.last, getattr(given, result)))


@pytest.mark.parametrize("denied", ["TRANSPOSE", "MEAN", "SUB", "ADD", "1", "5"])
def test_the_cpu_sees_what_the_model_says(denied: str) -> None:
    given = Normalised((1, 5, 7, 33))
    assert_near(given.model(given.last), denied)


@pytest.mark.parametrize("op", ["MEAN", "REDUCE_MAX"])
@pytest.mark.parametrize("shape", [(1, 5, 7, 33), (1, 12, 10, 16)], ids=str)
def test_pixels_that_vanish_leave_channels(op: str, shape: tuple[int, ...]) -> None:
    given = Normalised(shape)
    scale = MEANS if op == "MEAN" else SCALE
    pooled = given.builder.reduced(op, given.less, scale, keep_dims=False, axes=(2, 3))
    model = given.model(given.builder.reshape(pooled, (1, 1, 1, shape[3])), given.last)
    assert not compile_model(model, AUTO).rejections
    assert_near(model)


@pytest.mark.parametrize("shape", [(1, 6, 5, 16), (1, 4, 4, 4)], ids=str)
def test_shares_of_columns_stay_shares_of_columns(shape: tuple[int, ...]) -> None:
    """SOFTMAX gives what it reads the same shape, and yet an element follows from others."""
    builder = Net("shares", np.random.default_rng(4))
    x = builder.input("x", shape, DType.INT8, SCALE)
    maps = builder.conv(x, shape[3], Window(1, 1))
    first = builder.transpose(maps, FIRST)
    shares = builder.function("SOFTMAX", (first,), SHARES, softmax(1.0))
    builder.output(builder.transpose(shares, LAST))
    assert_near(builder.build(), numerics="auto")


def test_other_orders_stay() -> None:
    """An output channels first, and a node that cannot be said otherwise."""
    given = Normalised((1, 5, 7, 33))
    flat = given.builder.reshape(given.less, (1, 33, 35))
    graph = read_graph(given.model(flat, given.last))
    assert with_channels_last(graph) is graph


def attended(
    size: tuple[int, int],
    heads: int,
    depth: int,
    *,
    op: str = "ADD",
    is_first: bool = True,
    is_seen: str = "",
) -> bytes:
    """Return attention as YOLO ends it: its rows, channels first, and a convolution's map."""
    b = Net("attended", np.random.default_rng([*size, heads]))
    (height, width), pixels, channels = size, size[0] * size[1], heads * depth
    values = b.input("values", (heads, depth, pixels), DType.INT8, SCALE)
    shares = b.input("shares", (heads, pixels, pixels), DType.INT8, SHARES)
    product = b.tensor("product", (heads, depth, pixels), DType.INT8, Quantization((0.3,), (5,)))
    b.operator("BATCH_MATMUL", (values, shares), (product,), BatchMatMulOptions())
    rows = b.reshape(product, (1, channels, height, width), "rows")
    maps = b.conv(b.input("x", (1, height, width, 12), DType.INT8, SCALE), channels, Window(1, 1))
    first = b.transpose(maps, FIRST)
    if is_seen:
        b.output({"rows": rows, "first": first, "product": product}[is_seen])
    total = b.tensor("total", b.spec(first).shape, DType.INT8, SCALE)
    options = AddOptions() if op == "ADD" else SubOptions(Activation.NONE)
    b.operator(op, (rows, first) if is_first else (first, rows), (total,), options)
    return b.build(b.conv(b.transpose(total, LAST), 20, Window(1, 1)))


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("op", ["ADD", "SUB"])
def test_sums_of_products_are_computed_channels_last(op: str, heads: int) -> None:
    for number, (size, depth) in enumerate((((4, 6), 32), ((5, 3), 7), ((10, 1), 16))):
        model = attended(size, heads, depth, op=op, is_first=number != 1)
        given = read_graph(model)
        graph = with_channels_last(given)
        changed = {a.index for a, b in zip(graph.nodes, given.nodes, strict=True) if a is not b}
        assert len(changed) == 4
        assert not compile_model(model, AUTO).rejections
        assert_near(model, numerics="auto")


@pytest.mark.parametrize("seen", ["rows", "first", "product"])
def test_sums_of_which_somebody_has_a_part_stay(seen: str) -> None:
    model = attended((4, 6), 2, 32, is_seen=seen)
    graph = read_graph(model)
    assert with_channels_last(graph) is graph
    assert_near(model, numerics="auto")


@pytest.mark.parametrize("denied", ["BATCH_MATMUL", "ADD", "TRANSPOSE", "RESHAPE", "CONV_2D"])
def test_parts_of_sums_on_the_cpu(denied: str) -> None:
    assert_near(attended((5, 7), 2, 16), denied, numerics="auto")


def test_sums_stay_where_a_transposition_names_another_scale() -> None:
    """No converter writes that; the sum's kernel takes what the file says."""
    graph = read_graph(attended((4, 6), 2, 32))
    entering = next(node for node in graph.nodes if node.op == "TRANSPOSE")
    tensors = list(graph.tensors)
    (index,) = entering.outputs
    tensors[index] = replace(tensors[index], quantization=Quantization((0.5,), (1,)))
    odd = replace(graph, tensors=tuple(tensors))
    assert with_channels_last(odd) is odd
