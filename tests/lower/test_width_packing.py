"""Maps of few channels as pairs of pixels: the reference kernels' results, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.chips import DEFAULT
from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.mul import MulOptions
from delegate.options import Options
from delegate.partition.width_packing import pack_width
from delegate.partition.workload import workload_of
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.random_layers import Numbers
from tests.lower.reference import differences, whole_graph

SAME = Quantization((0.05,), (3,))
SIGMOID = {
    DType.INT8: Quantization((1 / 256,), (-128,)),
    DType.UINT8: Quantization((1 / 256,), (0,)),
}


def window(kernel: tuple[int, int], strides: tuple[int, int], padding: Padding) -> Window:
    return Window(*kernel, *strides, padding=padding)


def two_convolutions(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    kernels: tuple[int, int],
    first: Window,
    second: Window,
    *,
    dtype: DType = DType.INT8,
    pads: tuple[tuple[int, int], tuple[int, int]] | None = None,
    has_silu: bool = False,
    is_seen: bool = False,
    per_channel: bool = True,
) -> bytes:
    """One behind the other, perhaps with SiLU and PAD in between."""
    b = Net("pairs", rng)
    x = b.input("x", shape, dtype, SAME)
    is_per_channel = per_channel and dtype is DType.INT8
    numbers = Numbers(output=SAME, per_channel=is_per_channel)
    y = b.conv(x, kernels[0], first, numbers, name="first")
    if is_seen:
        b.output(y)
    if has_silu:
        gate = b.function("LOGISTIC", (y,), SIGMOID[dtype])
        product = b.tensor("product", b.spec(y).shape, dtype, SAME)
        b.operator("MUL", (y, gate), (product,), MulOptions())
        y = product
    if pads is not None:
        y = b.pad(y, ((0, 0), *pads, (0, 0)), name="padded")
    return b.build(b.conv(y, kernels[1], second, numbers, name="second"))


def is_paired(model: bytes) -> bool:
    graph = read_graph(model)
    return pack_width(graph, whole_graph(graph), DEFAULT) is not graph


SQUARE = window((3, 3), (2, 2), Padding.SAME)
VALID = window((3, 3), (2, 2), Padding.VALID)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("channels", [1, 3, 8, 11, 16])
def test_a_first_layer_with_silu(channels: int, dtype: DType) -> None:
    """As YOLO begins, its padding by PAD."""
    rng = np.random.default_rng(channels)
    model = two_convolutions(
        rng, (1, 18, 28, 3), (channels, 21), SQUARE, VALID,
        dtype=dtype, pads=((1, 1), (1, 1)), has_silu=True,
    )  # fmt: skip
    assert is_paired(model)
    for _ in range(2):
        assert not any(difference.any() for difference in differences(model, rng))


def test_chips_of_square_kernels_keep_single_pixels() -> None:
    rng = np.random.default_rng(1)
    pads = ((1, 1), (1, 1))
    graph = read_graph(two_convolutions(rng, (1, 18, 28, 3), (16, 21), SQUARE, VALID, pads=pads))
    assert pack_width(graph, whole_graph(graph), DEFAULT) is not graph
    assert pack_width(graph, whole_graph(graph), RK3576) is graph
    result = compile_model(graph, replace(Options(numerics="exact"), chip="rk3576"))
    assert "form_is_known" not in {rejection.rule for rejection in result.rejections}


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda r: two_convolutions(r, (1, 8, 18, 3), (16, 9), SQUARE, SQUARE),
                     id="odd columns"),
        pytest.param(lambda r: two_convolutions(r, (1, 8, 16, 3), (17, 9), SQUARE, SQUARE),
                     id="more than half a group"),
        pytest.param(lambda r: two_convolutions(r, (1, 8, 16, 3), (16, 9), SQUARE, SQUARE,
                                                is_seen=True), id="seen by others"),
        pytest.param(lambda r: two_convolutions(r, (1, 8, 16, 3), (16, 9), SQUARE,
                                                window((3, 3), (1, 1), Padding.SAME)),
                     id="a stride of a pixel"),
    ],
)  # fmt: skip
def test_others_are_left_alone(model) -> None:
    rng = np.random.default_rng(1)
    built = model(rng)
    assert not is_paired(built)
    assert not any(difference.any() for difference in differences(built, rng))


def test_layers_have_the_models_nodes() -> None:
    rng = np.random.default_rng(2)
    model = two_convolutions(rng, (1, 8, 16, 3), (16, 9), SQUARE, SQUARE, has_silu=True)
    graph = read_graph(model)
    workload = workload_of(graph, whole_graph(graph))
    assert [operation.nodes for operation in workload.operations] == [(0,), (1, 2), (3,)]
    assert workload.graph.tensor(graph.nodes[0].outputs[0]).shape == (1, 4, 4, 32)
