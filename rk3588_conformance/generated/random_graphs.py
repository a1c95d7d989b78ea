"""Random graphs: convolutions, additions, aliases, padding, nodes of the CPU, and in half of them
what ``random_operators`` has, in any combination.

Tensors are reused, several inputs and outputs, batches above 1, constants in every position of
operands. One seed, one model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.shared.pooling import PoolOptions
from rk3588_conformance.builder import layers, moves
from rk3588_conformance.builder.layers import Window, conv, depthwise, fully_connected
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated import random_operators
from rk3588_conformance.random_layers import Numbers, draw_quantization

CHANNELS = (1, 3, 8, 15, 16, 16, 17, 31, 32, 32, 33, 48, 48, 64, 65, 96)
SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 17)
ACTIVATIONS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6,
               Activation.RELU_N1_TO_1)  # fmt: skip
STRETCHES = (-3, -1, 0, 0, 1, 2, 6)
MOST_NODES = 9
MOST_ELEMENTS = 40_000  # of a tensor: the simulator takes milliseconds


@dataclass(frozen=True)
class RandomGraph:
    """``batches``: of each inference, in order; the inputs are resized between them. ``stretches``:
    rows and columns that the images then have more than the model says.

    ``description`` is what a report shows.
    """

    content: bytes
    batches: tuple[int, ...]
    stretches: tuple[tuple[int, int], ...]
    description: str


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = ModelBuilder("random graph")
        self.dtype = DType.INT8 if self.chance(0.6) else DType.UINT8
        self.per_channel = self.dtype is DType.INT8 and self.chance(0.6)
        self.is_resized = self.chance(0.3)
        self.is_stretched = bool(np.random.default_rng([seed, 1]).random() < 0.3)
        self.batch = int(self.rng.choice((1, 1, 1, 2, 3)))
        # Views need one quantisation for all that they join.
        self.shared = draw_quantization(self.rng, self.dtype) if self.chance(0.7) else None
        # Half of the graphs have no operators but those of the first networks.
        self.share_of_first = 1.0 if self.chance(0.5) else 0.5
        self.tensors: list[int] = []
        self.read: set[int] = set()
        self.words: list[str] = []

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, values: object) -> int:
        return int(self.rng.choice(np.asarray(values)))

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.builder.spec(tensor).shape)

    def scale(self, tensor: int) -> float:
        quantization = self.builder.spec(tensor).quantization
        assert quantization is not None
        return quantization.scale

    def quantization(self) -> Quantization:
        if self.shared is not None and self.chance(0.9):
            return self.shared
        return draw_quantization(self.rng, self.dtype)

    def numbers(self) -> Numbers:
        activation = ACTIVATIONS[self.pick(len(ACTIVATIONS))]
        output = self.shared if self.shared is not None and self.chance(0.9) else None
        return Numbers(per_channel=self.per_channel, activation=activation, output=output)

    def input(self, shape: tuple[int, ...]) -> int:
        signature = (-1, *shape[1:]) if self.is_resized else ()
        return self.builder.input(
            f"input{len(self.tensors)}", shape, self.dtype, self.quantization(),
            shape_signature=signature,
        )  # fmt: skip

    def constant(self, shape: tuple[int, ...]) -> int:
        low, high = LIMITS[self.dtype]
        kind = np.int8 if self.dtype is DType.INT8 else np.uint8
        values = self.rng.integers(low, high + 1, shape).astype(kind)
        return self.builder.constant(
            f"constant{len(self.words)}", np.asarray(values), self.quantization()
        )

    def source(self) -> int:
        """A tensor to read: mostly one of the newest."""
        back = min(int(self.rng.geometric(0.45)), len(self.tensors))
        return self.tensors[-back]

    def window(self, x: int, *, padding: Padding | None = None) -> Window | None:
        _, h, w, _ = self.shape(x)
        kh, kw = (self.pick((1, 1, 2, 3, 3, 5)) for _ in "hw")
        dh, dw = (self.pick((1, 1, 1, 2, 3)) for _ in "hw")
        sh, sw = (self.pick((1, 1, 1, 1, 2, 2, 3)) for _ in "hw")
        scheme = padding or (Padding.SAME if self.chance(0.6) else Padding.VALID)
        if scheme is Padding.VALID and ((kh - 1) * dh >= h or (kw - 1) * dw >= w):
            return None
        if max(dh, dw) > 1 and self.chance(0.7):
            sh = sw = 1
        return Window(kh=kh, kw=kw, sh=sh, sw=sw, dh=dh, dw=dw, padding=scheme)

    def generate(self) -> None:
        shape = (self.batch, self.pick(SIDES), self.pick(SIDES), self.pick(CHANNELS))
        self.tensors.append(self.input(shape))
        for _ in range(self.pick(range(1, MOST_NODES + 1))):
            steps = STEPS if self.chance(self.share_of_first) else random_operators.STEPS
            name = steps[self.pick(len(steps))]
            made = MAKERS[name](self, self.source())
            if made:
                self.words.append(name)
                self.tensors += made

    def outputs(self) -> None:
        made = [t for t in self.tensors if self.builder.spec(t).name[:5] != "input"]
        for tensor in made:
            if tensor not in self.read or self.chance(0.15):
                self.builder.output(tensor)


def _conv(g: Generator, x: int) -> list[int]:
    window = g.window(x)
    if window is None or len(g.shape(x)) != 4:
        return []
    g.read.add(x)
    name = f"conv{len(g.words)}"
    return [conv(g.builder, g.rng, x, g.pick(CHANNELS), window, g.numbers(), name=name)]


def _depthwise(g: Generator, x: int) -> list[int]:
    window = g.window(x)
    if window is None:
        return []
    g.read.add(x)
    name = f"depthwise{len(g.words)}"
    multiplier = g.pick((1, 1, 1, 1, 2)) if g.shape(x)[3] < 40 else 1
    return [depthwise(g.builder, g.rng, x, window, g.numbers(), multiplier=multiplier, name=name)]


def _fully_connected(g: Generator, x: int) -> list[int]:
    """Add FULLY_CONNECTED on [N, 1, 1, C] or with the rank kept."""
    shape = g.shape(x)
    keep = shape[1:3] != (1, 1) or g.chance(0.5)
    if not keep and g.is_resized:
        return []
    g.read.add(x)
    name = f"dense{len(g.words)}"
    # Runtimes before 2.17 take scales per channel for none at all.
    numbers = replace(g.numbers(), per_channel=False, bias=False if g.chance(0.2) else None)
    y = fully_connected(
        g.builder, g.rng, x, g.pick(CHANNELS), numbers, keep_num_dims=keep, name=name
    )
    if not keep:
        g.builder.output(y)
        return []
    return [y]


def _add(g: Generator, x: int) -> list[int]:
    shape = g.shape(x)
    kind = g.pick(range(5))
    if kind == 0:
        other = x
    elif kind == 1:  # a constant of any shape that is broadcast
        kept = tuple(d if g.chance(0.6) else 1 for d in shape)
        if g.is_resized:
            kept = (1, *kept[1:])
        rank = 0
        while rank < 3 and kept[rank] == 1 and g.chance(0.3):
            rank += 1
        other = g.constant(kept[rank:])
    elif kind == 2 and g.chance(0.4):  # one value per channel, computed
        other = g.input((shape[0] if g.chance(0.5) or g.is_resized else 1, 1, 1, shape[3]))
        g.tensors.insert(0, other)
    else:
        fitting = [t for t in g.tensors if g.shape(t) == shape]
        other = fitting[g.pick(len(fitting))]
    pair = (x, other) if g.chance(0.5) else (other, x)
    g.read.update(pair)
    scale, zero_point = None, None
    if g.shared is not None:
        scale, zero_point = g.shared.scale, g.shared.zero_point
    activation = ACTIVATIONS[g.pick(len(ACTIVATIONS))]
    return [layers.add(g.builder, *pair, activation=activation, output_scale=scale,
                       output_zero_point=zero_point, name=f"add{len(g.words)}")]  # fmt: skip


def _concat(g: Generator, x: int) -> list[int]:
    axis = g.pick((3, 3, 3, 1, 2, 0))
    if axis == 0 and g.is_resized:
        return []
    shape, spec = g.shape(x), g.builder.spec(x)
    parts = [x]
    rest = [t for t in g.tensors if g.builder.spec(t).quantization == spec.quantization]
    for tensor in rest:
        other = g.shape(tensor)
        fits = (*other[:axis], *other[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :])
        if fits and len(parts) < 4 and g.chance(0.6):
            parts.append(tensor)
    if not g.is_resized and g.chance(0.1):
        low, high = LIMITS[g.dtype]
        kind = np.int8 if g.dtype is DType.INT8 else np.uint8
        values = g.rng.integers(low, high + 1, shape).astype(kind)
        parts.append(g.builder.constant(f"part{len(g.words)}", values, spec.quantization))
    if g.chance(0.5):
        parts.reverse()
    if len(parts) < 2 or sum(np.prod(g.shape(t)) for t in parts) > MOST_ELEMENTS:
        return []
    g.read.update(parts)
    return [moves.concatenation(g.builder, parts, axis, f"concat{len(g.words)}")]


def _split(g: Generator, x: int) -> list[int]:
    shape = g.shape(x)
    axes = [(axis, n) for axis in range(4) for n in (2, 3) if shape[axis] % n == 0]
    if g.is_resized:
        axes = [(axis, n) for axis, n in axes if axis > 0]
    if not axes:
        return []
    axis, count = axes[g.pick(len(axes))]
    g.read.add(x)
    return list(moves.split(g.builder, x, count, axis, f"split{len(g.words)}_"))


def _slice(g: Generator, x: int) -> list[int]:
    shape = g.shape(x)
    begin, size = [0] * 4, list(shape)
    for axis in {g.pick((3, 3, 1, 2, 0)) for _ in range(g.pick((1, 1, 2)))}:
        if axis == 0 and (g.is_resized or g.is_stretched):
            continue
        step = 16 if axis == 3 and g.chance(0.8) else 1
        begin[axis] = g.pick(range(0, shape[axis], step))
        size[axis] = g.pick(range(1, shape[axis] - begin[axis] + 1))
    g.read.add(x)
    strided = g.chance(0.5)
    if not (g.is_resized or g.is_stretched):
        return [moves.slice_of(g.builder, x, begin, size, f"slice{len(g.words)}", strided=strided)]
    spec = g.builder.spec(x)
    # Without a signature the runtime takes the shape of the output for fixed, and then reads beyond
    # an input that has become smaller.
    y = g.builder.tensor(
        f"slice{len(g.words)}", size, spec.dtype, spec.quantization,
        shape_signature=(-1, *size[1:]),
    )  # fmt: skip
    start = g.builder.constant(f"begin{len(g.words)}", np.array(begin, np.int32))
    sizes = g.builder.constant(f"size{len(g.words)}", np.array([-1, *size[1:]], np.int32))
    g.builder.operator("SLICE", (x, start, sizes), (y,), None, version=2)
    return [y]


def _pad(g: Generator, x: int) -> list[int]:
    """PAD, then mostly a convolution without padding."""
    n, h, w, c = g.shape(x)
    (top, bottom), (left, right) = g.rng.integers(0, 3, (2, 2)).tolist()
    spec = g.builder.spec(x)
    y = g.builder.tensor(
        f"pad{len(g.words)}", (n, h + top + bottom, w + left + right, c), spec.dtype,
        spec.quantization,
    )  # fmt: skip
    amounts = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
    kind = np.int32 if g.chance(0.8) else np.int64
    constant = g.builder.constant(f"amounts{len(g.words)}", amounts.astype(kind))
    g.builder.operator("PAD", (x, constant), (y,), None, version=2)
    g.read.add(x)
    made = [y]
    for _ in range(g.pick((0, 1, 1, 1, 2))):
        window = g.window(y, padding=Padding.VALID)
        if window is None:
            continue
        g.read.add(y)
        name = f"padded{len(g.words)}_{len(made)}"
        if g.chance(0.5):
            made.append(conv(g.builder, g.rng, y, g.pick(CHANNELS), window, g.numbers(), name=name))
        else:
            made.append(depthwise(g.builder, g.rng, y, window, g.numbers(), name=name))
    return made if y not in g.read or g.chance(0.2) else made[1:]


def _pool(g: Generator, x: int) -> list[int]:
    """A pool; or a node of the CPU, REVERSE_V2 of channels, whose kernels all agree."""
    spec = g.builder.spec(x)
    _, h, w, _ = spec.shape
    rows, columns = min(h, g.pick((1, 2))), min(w, g.pick((1, 2)))
    y = g.builder.tensor(f"pool{len(g.words)}", spec.shape, spec.dtype, spec.quantization)
    if g.chance(0.5):
        pooling = PoolOptions(padding=Padding.SAME, filter_h=rows, filter_w=columns)
        g.builder.operator("MAX_POOL_2D", (x,), (y,), pooling, version=2)
    else:
        axis = g.builder.constant("axis", np.array([3], np.int32))
        g.builder.operator("REVERSE_V2", (x, axis), (y,), None)
    g.read.add(x)
    return [y]


def _more_input(g: Generator, x: int) -> list[int]:
    return [g.input(g.shape(x))]


MAKERS: dict[str, Callable[[Generator, int], list[int]]] = {
    "conv": _conv,
    "depthwise": _depthwise,
    "dense": _fully_connected,
    "add": _add,
    "concat": _concat,
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "pool": _pool,
    "input": _more_input,
    **random_operators.MAKERS,
}
STEPS = (*3 * ("conv",), *2 * ("depthwise",), "dense", *4 * ("add",), *3 * ("concat",),
         *2 * ("split",), *2 * ("slice",), *2 * ("pad",), "pool", "input")  # fmt: skip


def random_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``: at least one node, at most some fifteen."""
    for attempt in range(100):
        g = Generator(seed + (attempt << 40))
        g.generate()
        g.outputs()
        if g.words and any(word != "input" for word in g.words):
            break
    batches = [g.batch, g.batch]
    if g.is_resized:
        batches += [g.pick((1, 2, 3, 4)) for _ in range(3)]
    stretches = [(0, 0) for _ in batches]
    if g.is_stretched:
        stretches += [(g.pick(STRETCHES), g.pick(STRETCHES)) for _ in range(3)]
        batches += 3 * batches[-1:]
    words = f"{g.dtype.name} batches {batches} stretches {stretches}: {' '.join(g.words)}"
    return RandomGraph(g.builder.build(), tuple(batches), tuple(stretches), words)
