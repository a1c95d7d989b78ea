"""Random graphs that crowd memory, by their number.

Kernels so large that a group of them is parted, dilated kernels whose input leaves them no room,
concatenations and slices of channels and rows, tensors read several times, several outputs, several
images, channels around 16, 32 and 64. All tensors have one quantisation, so that any may be joined.
"""

import os

import numpy as np

from delegate.model.graph import DType, Padding, Quantization
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.random_layers import Numbers

QUANTIZATION = Quantization((0.05,), (3,))
CHANNELS = (3, 16, 16, 17, 19, 32, 33, 48, 48, 64, 70, 80, 96)


def graph_count(small: int) -> int:
    """Return how many graphs a test takes: ``small``, or what ``make memory-graphs`` asks for."""
    return int(os.environ.get("RK3588_MEMORY_GRAPHS", small))


class _Graph:
    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng(number)
        self.builder = Net(f"memory {number}")
        self.dtype = DType.INT8 if self.rng.random() < 0.5 else DType.UINT8
        self.tensors: list[int] = []
        self.read: set[int] = set()

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def name(self) -> str:
        return f"t{len(self.tensors)}"

    def shape(self, tensor: int) -> tuple[int, ...]:
        return self.builder.spec(tensor).shape

    def input(self, *shape: int) -> None:
        self.tensors.append(self.builder.input(self.name(), shape, self.dtype, QUANTIZATION))

    def numbers(self) -> Numbers:
        per_channel = self.dtype is DType.INT8 and self.rng.random() < 0.5
        return Numbers(output=QUANTIZATION, per_channel=per_channel)

    def conv(self, x: int, channels: int, window: Window) -> None:
        name = self.name()
        y = self.builder.conv(x, channels, window, self.numbers(), name=name)
        self.add_result(y, x)

    def add_result(self, y: int, *operands: int) -> None:
        self.read.update(operands)
        self.tensors.append(y)

    def step(self) -> None:
        kinds = ("conv", "conv", "conv", "depthwise", "add", "join", "join", "rows", "slice")
        getattr(self, f"_{self.pick(kinds)}")()

    def _conv(self) -> None:
        x = self.pick(self.tensors)
        _, h, w, c = self.shape(x)
        window = Window(kh=self.pick((1, 1, 2, 3)), kw=self.pick((1, 1, 3)))
        channels = self.pick(CHANNELS)
        if c >= 256:  # more than half of CBUF for a group of kernels, or of the input
            if min(h, w) >= 23:
                window = Window(kh=3, kw=3, dh=11, dw=11, padding=Padding.VALID)
            elif self.rng.random() < 0.7:
                window = Window(kh=min(h, 7), kw=min(w, 7), padding=Padding.VALID)
            channels = self.pick((16, 32, 33, 48, 50, 80, 96))
        self.conv(x, channels, window)

    def _depthwise(self) -> None:
        x = self.pick([t for t in self.tensors if self.shape(t)[3] < 256] or [None])
        if x is None:
            self._conv()
            return
        window = Window(kh=3, kw=self.pick((1, 3)))
        name = self.name()
        y = self.builder.depthwise(x, window, self.numbers(), name=name)
        self.add_result(y, x)

    def _add(self) -> None:
        x = self.pick(self.tensors)
        other = self.pick([t for t in self.tensors if self.shape(t) == self.shape(x)])
        scale, zero_point = QUANTIZATION.scale, QUANTIZATION.zero_point
        name = self.name()
        y = self.builder.add(x, other, output_scale=scale, output_zero_point=zero_point, name=name)
        self.add_result(y, x, other)

    def _join(self) -> None:
        x = self.pick(self.tensors)
        fitting = [t for t in self.tensors if self.shape(t)[:3] == self.shape(x)[:3]]
        whole = [t for t in fitting if self.shape(t)[3] % 16 == 0]
        if not whole:
            self._conv()
            return
        parts = [self.pick(whole) for _ in range(int(self.rng.integers(1, 3)))]
        parts = list(dict.fromkeys((*parts, self.pick(fitting))))
        self.add_result(self.builder.concatenation(parts, 3, self.name()), *parts)

    def _rows(self) -> None:
        x = self.pick(self.tensors)
        n, _, w, c = self.shape(x)
        others = [t for t in self.tensors if t != x]
        fitting = [t for t in others if (self.shape(t)[0], *self.shape(t)[2:]) == (n, w, c)]
        if not fitting:
            self._conv()
            return
        parts = (x, self.pick(fitting))
        self.add_result(self.builder.concatenation(parts, 1, self.name()), *parts)

    def _slice(self) -> None:
        x = self.pick(self.tensors)
        n, h, w, c = self.shape(x)
        if c < 17 or x == self.tensors[0]:
            self._conv()
            return
        begin = 16 * int(self.rng.integers((c - 1) // 16))
        size = c - begin if self.rng.random() < 0.5 else 16
        box = (n, h, w, min(size, c - begin))
        self.add_result(self.builder.slice_of(x, (0, 0, 0, begin), box, self.name()), x)


def memory_graph(number: int) -> bytes:
    """The model of this number."""
    graph = _Graph(number)
    family = graph.pick(("small", "small", "small", "large", "dilated"))
    if family == "dilated":
        graph.input(1, graph.pick((23, 24, 25)), graph.pick((23, 26)), 512)
    elif family == "large":
        graph.input(graph.pick((1, 1, 2)), graph.pick((6, 7, 8)), 7, graph.pick((256, 272, 320)))
    else:
        h, w = int(graph.rng.integers(1, 10)), int(graph.rng.integers(1, 10))
        graph.input(graph.pick((1, 1, 2)), h, w, graph.pick(CHANNELS))
    if family != "small":
        graph._conv()
        graph._conv()
    for _ in range(int(graph.rng.integers(1, 8))):
        graph.step()
    extra = graph.pick(graph.tensors[1:])
    for tensor in graph.tensors[1:]:
        if tensor not in graph.read or tensor == extra:
            graph.builder.output(tensor)
    return graph.builder.build()
