"""Sections of images as channels: the reference kernels' results, bit for bit."""

import numpy as np
import pytest

from delegate.compile.compiler import CompileResult
from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.add import AddOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic, Window
from rk3588_conformance.random_layers import Numbers
from tests.loops import for_each
from tests.lower import fusion_graphs as f
from tests.lower.fusion_graphs import beside

POINT = Window(1, 1)
TEXT = "sections of the image as channels"


def points(rng: np.random.Generator, shape: tuple[int, ...], kernels: int, **numbers: object):
    """A 1 x 1 convolution of stride 1."""
    dtype = numbers.pop("dtype", DType.INT8)
    b = Net("points", rng)
    x = b.input("x", shape, dtype, f.SAME)
    return b.build(b.conv(x, kernels, POINT, Numbers(output=f.SAME, **numbers)))


def in_sections(result: CompileResult) -> list[bool]:
    """Return whether every layer runs in sections."""
    return [TEXT in layer.choice for part in result.partitions for layer in part.layers]


SHAPES: tuple[tuple[tuple[int, int, int, int], int, bool], ...] = (
    ((3, 12, 31, 24), 40, True),  # images
    ((1, 1, 640, 32), 16, True),  # one row
    ((1, 640, 1, 32), 16, True),  # one column
    ((1, 2, 4099, 8), 16, True),  # rows longer than a task's
    ((1, 112, 112, 32), 16, True),  # more than CBUF holds
    ((1, 15, 17, 16), 16, False),  # an odd number of pixels
    ((1, 16, 16, 16), 32, False),  # whole groups
    ((1, 16, 16, 16), 64, False),
    ((1, 16, 16, 256), 16, False),  # more steps than it saves
    ((1, 1, 1, 64), 16, False),  # nothing to cut
)


@pytest.mark.parametrize(("shape", "kernels", "gains"), SHAPES, ids=str)
def test_where_they_fill_what_is_idle(
    shape: tuple[int, int, int, int], kernels: int, gains: bool
) -> None:
    model = points(np.random.default_rng(shape), shape, kernels)
    exact, result = f.is_exact(model)
    assert exact
    assert in_sections(result) == [gains]


@pytest.mark.parametrize(
    "window", [Window(3, 3), Window(1, 1, 2, 2), Window(1, 3), Window(2, 1)], ids=str
)
def test_not_of_kernels_that_see_neighbours(window: Window) -> None:
    rng = np.random.default_rng(3)
    b = Net("neighbours", rng)
    b.output(b.conv(b.input("x", (1, 24, 24, 24), DType.INT8, f.SAME), 16, window, Numbers()))
    exact, result = f.is_exact(b.build())
    assert exact
    assert not any(in_sections(result))


@for_each("seed", range(24))
def test_random_layers(seed: int) -> None:
    """Any sizes, scales, zero points and activations; every fourth one of several images."""
    rng = np.random.default_rng([17, seed])
    images = int(rng.integers(2, 4)) if seed % 4 == 0 else 1
    shape = (images, *(int(n) for n in rng.integers(2, 40, 2)), int(rng.integers(1, 100)))
    dtype = DType.UINT8 if seed % 2 else DType.INT8
    model = points(
        rng, shape, int(rng.integers(1, 100)), dtype=dtype,
        per_channel=dtype is DType.INT8 and bool(rng.integers(2)),
        activation=Activation(int(rng.choice([0, 1, 3]))),
    )  # fmt: skip
    assert f.is_exact(model, seed)[0]


def test_another_chip() -> None:
    """The chip rounds once: one LSB from the reference kernels at most, and seldom."""
    for shape, kernels, gains in (
        ((1, 20, 26, 33), 48, True),
        ((1, 21, 27, 33), 48, False),
        ((2, 20, 14, 48), 16, True),
    ):
        model = points(np.random.default_rng(shape), shape, kernels)
        arrays = f.inputs_of(model)
        result, ours = f.run(
            model, Options.from_mapping({"numerics": "exact", "chip": "rk3576"}, {}), arrays
        )
        difference = f.off(ours[0], f.references(model, arrays)[0])
        assert difference.max() <= 1
        assert difference.mean() < 0.01
        assert in_sections(result) == [gains]


def test_another_chip_splits_scales_of_whole_images() -> None:
    """Scales too far apart for one shift, on a map that would be sections otherwise."""
    for is_far in (False, True):
        rng = np.random.default_rng(48)
        b = Net("scales", rng)
        x = b.input("x", (1, 20, 26, 48), DType.INT8, Quantization((0.05,), (3,)))
        scales = np.exp(rng.uniform(-7, 0, 48)) if is_far else np.full(48, 0.5)
        scales[::11] = 2.0
        bias = np.round(rng.uniform(-60, 60, 48) / (scales * 0.01)).astype(np.int32)
        arithmetic = Arithmetic(
            per_channel=True,
            weight_scales=tuple(scales * 0.02),
            bias=bias,
            output_scale=0.1,
            output_zero_point=-7,
        )
        arrays = f.inputs_of(b.build(b.conv(x, 48, POINT, arithmetic=arithmetic)))
        result, ours = f.run(
            b.build(), Options.from_mapping({"numerics": "exact", "chip": "rk3576"}, {}), arrays
        )
        (layer,) = result.partitions[0].layers
        assert ("parts by channels' scales" in layer.choice) is is_far
        assert (TEXT in layer.choice) is not is_far
        assert f.off(ours[0], f.references(b.build(), arrays)[0]).max() <= 1


@pytest.mark.parametrize("name", f.AXES)
@pytest.mark.parametrize("kernels", [16, 48])
def test_beside_others_in_memory(name: str, kernels: int) -> None:
    """Only where the neighbours' pixels do not lie between those of an image."""
    exact, result = f.is_exact(beside(name, (kernels, kernels), POINT, 32))
    assert exact
    assert in_sections(result)[:2] == [name != "rows"] * 2


@pytest.mark.parametrize(("kernels", "completes"), [(16, False), (48, True)])
def test_readers_of_whole_groups_find_them_written(kernels: int, completes: bool) -> None:
    """Tasks without a convolution read the surface that completes a group of several, too."""
    rng = np.random.default_rng(9)
    for reads_groups in (False, True):
        b = Net("groups", rng)
        numbers = Numbers(output=f.SAME)
        x = b.input("x", (1, 16, 22, 24), DType.INT8, f.SAME)
        y = b.conv(x, kernels, POINT, numbers, name="first")
        if reads_groups:
            y = b.function("LOGISTIC", (y,), Quantization((1 / 256,), (-128,)))
        exact, result = f.is_exact(b.build(b.conv(y, 32, Window(3, 3), numbers, name="second")))
        assert exact
        assert in_sections(result)[0] is not (reads_groups and completes)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("channels", [1, 17, 40])
def test_padding_of_a_computed_source_counts_nothing(channels: int, dtype: DType) -> None:
    """They hold what the last task made of no kernel, and weights have a zero point."""
    rng = np.random.default_rng([19, channels])
    b = Net("padding", rng)
    numbers = Numbers(output=f.SAME)
    x = b.input("x", (1, 16, 22, 24), dtype, f.SAME)
    y = b.conv(x, channels, Window(3, 3), numbers, name="first")
    for kernels in (16, 48):
        b.output(b.conv(y, kernels, POINT, numbers, name=f"to{kernels}"))
    exact, result = f.is_exact(b.build())
    assert exact
    assert in_sections(result)[1:] == [True, True]


def test_readers_of_whole_groups_of_a_joined_tensor_find_them_written() -> None:
    """The last part completes its group, wherever that begins in the memory that all share."""
    rng = np.random.default_rng(21)
    b = Net("joined groups", rng)
    numbers = Numbers(output=f.SAME)
    x = b.input("x", (1, 16, 22, 24), DType.INT8, f.SAME)
    y, z = (b.conv(x, n, POINT, numbers, name=f"to{n}") for n in (64, 48))
    both = b.concatenation((y, z), 3)
    table = b.function("LOGISTIC", (both,), Quantization((1 / 256,), (-128,)))
    exact, result = f.is_exact(b.build(b.conv(table, 32, Window(3, 3), numbers, name="reader")))
    assert exact
    assert result.delegated_nodes == result.total_nodes
    assert not any(in_sections(result))  # copies of lanes would take tasks


def test_of_a_slice() -> None:
    """The slice is one of channels, or of rows, whose surfaces are further apart."""
    for begin, size, gains in (
        ((0, 0, 0, 16), (1, 16, 22, 16), True),
        ((0, 4, 0, 0), (1, 10, 22, 48), False),
        ((0, 0, 0, 0), (1, 10, 22, 48), False),
    ):
        exact, result = f.is_exact(f.sliced(begin, size, POINT))
        assert exact
        assert in_sections(result)[-1] is gains


@pytest.mark.parametrize("axis", [None, 1, 3])
@pytest.mark.parametrize("kernels", [16, 48])
def test_with_an_addition_or_a_function_in_the_same_task(kernels: int, axis: int | None) -> None:
    """Also where the sum lies beside others, between rows of which there is something else."""
    rng = np.random.default_rng(13)
    for has_table in (False, True):
        b = Net("joined", rng)
        x = b.input("x", (1, 18, 26, 24), DType.INT8, f.SAME)
        numbers = Numbers(output=f.SAME)
        other = b.conv(x, kernels, Window(3, 3), numbers, name="other")
        y = b.conv(x, kernels, POINT, numbers, name="points")
        if has_table:
            y = b.function("LOGISTIC", (y,), Quantization((1 / 256,), (-128,)))
        total = b.tensor("total", b.spec(y).shape, DType.INT8, Quantization((0.09,), (1,)))
        b.operator("ADD", (y, other), (total,), AddOptions())
        if axis is not None:
            beside = Numbers(output=Quantization((0.09,), (1,)))
            third = b.conv(x, kernels, Window(3, 3), beside, name="third")
            total = b.concatenation((total, third), axis)
            total = b.conv(total, 32, POINT, numbers, name="reader")
        model = b.build(total)
        arrays = f.inputs_of(model)
        result, ours = f.run(model, f.AUTO, arrays)
        layers_joined = f.joined(result)
        if axis is None or not layers_joined:
            # A sum of a joined result and another: each may be off besides.
            worst = 1 + max((layer.difference.most_lsb for layer in layers_joined), default=1)
            assert f.off(ours[0], f.references(model, arrays)[0]).max() <= worst
