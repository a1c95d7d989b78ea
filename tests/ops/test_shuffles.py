"""Chains of moves with reshapes that are free alone: one move, where that is what they are."""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from tests.inferences import outputs

SCALE = Quantization((0.05,), (3,))


def shuffled(shape: tuple[int, ...], groups: int, kept: int | None = None) -> bytes:
    """A shuffle of channels between two convolutions. ``kept``: the step that is an output, too."""
    builder = Net("shuffled", np.random.default_rng(1))
    _, height, width, channels = shape
    x = builder.input("x", shape, DType.INT8, SCALE)
    y = builder.conv(x, channels, Window(1, 1))
    first = builder.transpose(y, (0, 3, 1, 2))
    parts = builder.reshape(first, (1, groups, channels // groups, height, width))
    turned = builder.transpose(parts, (0, 2, 1, 3, 4))
    joined = builder.reshape(turned, (1, channels, height, width))
    last = builder.transpose(joined, (0, 2, 3, 1))
    builder.output(builder.conv(last, 8, Window(1, 1)))
    if kept is not None:
        builder.output((first, parts, turned, joined)[kept])
    return builder.build()


def assert_equal(model: bytes, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    made = outputs(model, x, device="simulator", deny_ops="NONE", log_level="error")
    for ours, theirs in zip(made, outputs(model, x), strict=True):
        assert np.abs(ours.astype(int) - theirs).max() <= 1
        assert (ours != theirs).mean() < 0.1


SHAPES = [((1, 20, 20, 116), 2), ((1, 5, 7, 66), 3), ((1, 1, 9, 24), 4), ((1, 6, 5, 34), 17)]


@pytest.mark.parametrize(("shape", "groups"), SHAPES, ids=str)
def test_a_shuffle_is_one_move(shape: tuple[int, ...], groups: int) -> None:
    model = shuffled(shape, groups)
    result = compile_model(model, Options(deny_ops=()))
    assert not result.rejections
    (partition,) = result.partitions
    moves = [layer for layer in partition.layers if 5 in layer.nodes]
    assert [len(layer.nodes) for layer in moves] == [5]
    assert_equal(model, shape)


@pytest.mark.parametrize("kept", range(4))
def test_what_somebody_else_reads_stays_what_it_is(kept: int) -> None:
    """Outputs of the model in the middle of a shuffle."""
    shape = (1, 5, 7, 24)
    model = shuffled(shape, 2, kept)
    assert_equal(model, shape)


def undone(shape: tuple[int, ...], *, is_output: bool) -> bytes:
    """Channels in front and back again between two convolutions; somebody else reads what is in
    between, or it ``is_output``.
    """
    builder = Net("undone", np.random.default_rng(3))
    x = builder.input("x", shape, DType.INT8, SCALE)
    y = builder.conv(x, shape[3], Window(1, 1))
    first = builder.transpose(y, (0, 3, 1, 2))
    flat = 1, shape[3], shape[1] * shape[2]
    builder.output(first if is_output else builder.reshape(first, flat))
    back = builder.transpose(first, (0, 2, 3, 1))
    return builder.build(builder.conv(back, 8, Window(1, 1)))


@pytest.mark.parametrize("is_output", [False, True], ids=["read", "output"])
@pytest.mark.parametrize("shape", [shape for shape, _ in SHAPES], ids=str)
def test_moves_that_undo_others_move_nothing(shape: tuple[int, ...], is_output: bool) -> None:
    model = undone(shape, is_output=is_output)
    result = compile_model(model, Options(deny_ops=()))
    assert not result.rejections
    (partition,) = result.partitions
    assert all(2 not in layer.nodes for layer in partition.layers if layer.op != "CONV_2D")
    assert_equal(model, shape)
