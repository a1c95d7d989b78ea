"""Reshapes that are free: pixels stay, rows and columns change. Bit for bit the runtime's."""

from __future__ import annotations

import pytest

from delegate.compile.compiler import compile_model
from delegate.options import Options
from rk3588_conformance.builder.moves import expand_dims, reshape, squeeze
from tests.lower.test_aliases import Net, check


@pytest.mark.parametrize("channels", [3, 16, 21, 64])
def test_detections_of_several_sizes_are_joined_by_pixels(channels: int) -> None:
    """As in the heads of SSD and YOLO: every part a different map, one list."""
    net = Net(6, 10, 19)
    x = net.input()
    parts = []
    for number, height in enumerate((6, 3, 1)):
        y = net.slice(x, (0, 0, 0, 0), (1, height, 10, 19)) if height < 6 else x
        y = net.conv(y, channels)
        parts.append(reshape(net.builder, y, (1, height * 10, channels), f"list{number}"))
    check(net.model(net.join(*parts, axis=1)))


def test_squeezed_and_expanded() -> None:
    net = Net(1, 9, 33)
    x = net.conv(net.input(), 17)
    y = squeeze(net.builder, x, (9, 17))
    z = expand_dims(net.builder, y, (1, 9, 17))
    again = reshape(net.builder, z, (1, 3, 3, 17), "again")
    check(net.model(net.conv(again, 5), reshape(net.builder, z, (9, 1, 17), "list")))


def test_batches_keep_their_images() -> None:
    net = Net(5, 6, 20, images=3)
    x = net.conv(net.input(), 16)
    check(net.model(net.conv(reshape(net.builder, x, (3, 2, 15, 16)), 7)))


@pytest.mark.parametrize("shape", [(1, 35, 2, 8), (1, 560), (35, 16), (7, 1, 5, 16)])
def test_far_pixels_stay_on_the_cpu(shape: tuple[int, ...]) -> None:
    net = Net(5, 7, 19)
    x = net.conv(net.input(), 16)
    y = reshape(net.builder, x, shape)
    result = compile_model(net.model(y, net.add(y, y)), Options(numerics="exact"))
    rules = [(r.node, r.rule) for r in result.rejections if r.node == 1]
    is_possible = shape != (1, 560)
    assert rules == ([] if is_possible else [(1, "order_possible")])
