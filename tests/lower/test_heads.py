"""Heads of detectors: channels of anchors become pixels, then parts of them go their own ways.
Every element is the runtime's; where the host brings the elements in order, no task moves them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from delegate.compile.compiler import CompileResult, compile_model
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.mul import MulOptions
from delegate.options import Options
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.random_layers import Numbers
from tests.inferences import assert_same, outputs
from tests.lower.reference import random_inputs
from tests.lower.test_aliases import SAME, VIEW_OPS, Views, run

PLAIN = Numbers(output=SAME)
POINT = Window(kh=1, kw=1, sh=1, sw=1)
STRIDED = Window(kh=3, kw=2, sh=2, sw=1, padding=Padding.SAME)


@dataclass(frozen=True)
class Head:
    """A convolution of ``size``, whose result is ``anchors`` times ``parts`` values."""

    size: tuple[int, int]
    anchors: int
    parts: tuple[int, ...]
    window: Window = POINT
    numbers: Numbers = PLAIN
    dtype: DType = DType.INT8
    fed: int = 19
    groups: int = 1

    @property
    def values(self) -> int:
        return sum(self.parts)


HEADS = {
    "yolo": Head((20, 13), 3, (2, 2, 11)),
    "per channel": Head((7, 20), 3, (2, 2, 81), numbers=Numbers(per_channel=True, output=SAME)),
    "one row": Head((1, 37), 3, (1, 4, 17)),
    "one column": Head((53, 1), 2, (1, 16)),
    "whole surfaces": Head((12, 9), 4, (16, 32)),
    "a kernel's stride": Head((11, 9), 2, (5, 1, 31), window=STRIDED),
    "clamped": Head((9, 12), 2, (15, 1), numbers=Numbers(activation=Activation.RELU6)),
    "many anchors": Head((6, 7), 9, (4, 3)),
    "uint8": Head((8, 5), 3, (2, 2, 7), dtype=DType.UINT8),
    "a first layer": Head((16, 12), 3, (2, 2, 7), window=STRIDED, fed=3),
}


class Built(Views):
    """A model with ``head``; ``whole`` is what is cut apart."""

    def __init__(self, head: Head) -> None:
        super().__init__(*head.size, head.fed, dtype=head.dtype)
        self.head = head
        channels = head.anchors * head.values
        source = self.map()
        y = self.conv(source, channels, head.window, head.numbers, groups=head.groups)
        _, rows, columns, _ = self.spec(y).shape
        self.pixels = rows * columns
        self.whole = self.reshaped(y, (1, self.pixels, head.anchors, head.values))

    def reshaped(self, x: int, shape: tuple[int, ...]) -> int:
        return self.reshape(x, shape)

    def cut(self) -> list[int]:
        firsts = np.cumsum((0, *self.head.parts))
        sizes = zip(firsts.tolist(), self.head.parts, strict=False)
        return [self.channels(self.whole, first, size) for first, size in sizes]

    @property
    def limits(self) -> np.iinfo[Any]:
        return np.iinfo(self.dtype.name.lower())

    def drawn(self, shape: tuple[int, ...], quantization: Quantization) -> int:
        """A constant of any values of the type."""
        limits = self.limits
        values = self.rng.integers(limits.min, limits.max + 1, shape, limits.dtype)
        return self.constant("drawn", values, quantization)

    def times(self, x: int, *shape: int) -> int:
        """The product with a constant of ``shape``, requantised."""
        by = self.drawn(shape, Quantization((0.02,), (self.limits.max // 3,)))
        return self.function("MUL", (x, by), SAME, MulOptions())

    def plus(self, x: int, *shape: int) -> int:
        """The sum with a constant of ``shape``."""
        return self.add(x, self.drawn(shape, Quantization((0.07,), (3,))))


def scaled(net: Built) -> list[int]:
    """As YOLOv5 has it: a grid, a size per anchor, a factor per value, a function."""
    first, second, *others = net.cut()
    anchors, (one, two, *_) = net.head.anchors, net.head.parts
    xy = net.plus(net.times(first), 1, net.pixels, 1, one)
    xy = net.times(xy, 1, one)
    wh = net.times(net.times(second, 1, 1, anchors, two), 1, 1, anchors, 1)
    wh = net.function("MUL", (wh, wh), SAME, MulOptions())
    return [xy, wh, *(net.times(x, 1) for x in others)]


def listed(net: Built) -> bytes:
    """All values of all pixels and anchors, as a detector gives them."""
    whole = net.join(*scaled(net))
    return net.build(net.reshaped(whole, (1, net.pixels * net.head.anchors, net.head.values)))


def apart(net: Built) -> bytes:
    """Each part is an output, one of them before its function, too."""
    parts = scaled(net)
    return net.build(*parts)


def read_twice(net: Built) -> bytes:
    """A part goes to an output as it is and is computed with."""
    first, *others = net.cut()
    return net.build(first, net.times(first, 1), *others)


def in_reals(net: Built) -> bytes:
    """As ``listed``, as float32."""
    whole = net.join(*scaled(net))
    listed = net.reshaped(whole, (1, net.pixels * net.head.anchors, net.head.values))
    shape = net.spec(listed).shape
    reals = net.tensor("reals", shape, DType.FLOAT32)
    net.operator("DEQUANTIZE", (listed,), (reals,))
    return net.build(reals)


def sloped(net: Built) -> bytes:
    """A PRELU with a slope per value, which is no factor of a map."""
    first, *others = net.cut()
    slopes = net.rng.integers(-99, 99, (1, 1, net.head.parts[0]), np.int8)
    by = net.constant("slopes", slopes, Quantization((0.01,), (0,)))
    return net.build(net.function("PRELU", (first, by), SAME), *others)


SHAPES: dict[str, Callable[[Built], bytes]] = {
    "listed": listed,
    "apart": apart,
    "read twice": read_twice,
    "in reals": in_reals,
}


Arrays = list[npt.NDArray[Any]]


def results(model: bytes, *, chip: str = "rk3588") -> tuple[Arrays, Arrays]:
    """Return ours, and the runtime's; for a chip that rounds, its own with the runtime's moves."""
    graph = read_graph(model)
    arrays = random_inputs(graph, graph.inputs, np.random.default_rng(5))
    is_exact = chip == "rk3588"
    theirs = outputs(model, *arrays) if is_exact else run(model, arrays, ",".join(VIEW_OPS))
    return run(model, arrays), theirs


def moving_layers(result: CompileResult) -> list[str]:
    (only,) = result.partitions
    moving = {"RESHAPE", "SLICE", "STRIDED_SLICE"}
    return [layer.op for layer in only.layers if layer.op in moving]


EXACT = Options(numerics="exact")


CASES = [
    *((name, "listed", "rk3588") for name in HEADS),
    *(
        (name, shape, "rk3588")
        for name in list(HEADS)[::3]
        for shape in SHAPES
        if shape != "listed"
    ),
    *((name, "listed", "rk3576") for name in ("yolo", "uint8", "whole surfaces", "one column")),
]


@pytest.mark.parametrize(("name", "shape", "chip"), CASES)
def test_heads_are_exact_and_nothing_moves(
    name: str, shape: str, chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SHAPES[shape](Built(HEADS[name]))
    result = compile_model(model, replace(EXACT, chip=chip))
    assert moving_layers(result) == []
    monkeypatch.setenv("RK3588_DELEGATE_NUMERICS", "exact")
    monkeypatch.setenv("RK3588_DELEGATE_CHIP", chip)
    assert_same(*results(model, chip=chip))


def test_a_whole_that_is_read_is_made() -> None:
    net = Built(HEADS["yolo"])
    model = net.build(*scaled(net), net.add(net.whole, net.whole))
    assert "RESHAPE" in moving_layers(compile_model(model, EXACT))


def test_a_part_that_the_device_reads_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RK3588_DELEGATE_NUMERICS", "exact")
    net = Built(HEADS["yolo"])
    first, *others = net.cut()
    model = net.build(net.conv(first, 5), *others)
    assert moving_layers(compile_model(model, EXACT))
    assert_same(*results(model))


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_kernels_of_groups_of_channels_stay_in_their_order(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another order they would see the channels of another group."""
    monkeypatch.setenv("RK3588_DELEGATE_NUMERICS", "exact")
    net = Built(replace(HEADS["yolo"], anchors=2, parts=(4, 28), fed=64, groups=groups))
    assert_same(*results(listed(net)))


def test_a_slope_per_value_is_right_wherever_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RK3588_DELEGATE_NUMERICS", "exact")
    assert_same(*results(sloped(Built(HEADS["yolo"]))))


def test_kernels_that_cost_more_than_moving_are_not_added() -> None:
    """One value of each of many anchors takes a surface each; the taps make that dear."""
    wide = Window(kh=5, kw=5, sh=1, sw=1, padding=Padding.SAME)
    net = Built(replace(HEADS["many anchors"], parts=(1,) * 3, anchors=16, window=wide, fed=512))
    assert moving_layers(compile_model(net.build(*net.cut()), EXACT))
