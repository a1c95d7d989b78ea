"""Random graphs of what ``numerics=auto`` joins, amid what ``random_graphs`` has: convolutions with
a function, a product with their own LOGISTIC (SiLU) or a residual addition behind them, or both.
"""

from __future__ import annotations

from delegate.model.graph import Padding, Quantization
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.layers import Window, conv, depthwise
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated import random_graphs
from rk3588_conformance.generated.random_graphs import MAKERS, SIDES, STEPS, Generator, RandomGraph

_APART = 1 << 50  # seeds of ``random_graphs`` lie below
_MOST_BLOCKS = 6
_INFERENCES = 3


def fused_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``."""
    g = Generator(_APART + seed)
    g.is_resized = g.is_stretched = False
    shape = (g.batch, g.pick(SIDES), g.pick(SIDES), g.pick(random_graphs.CHANNELS))
    g.tensors.append(g.input(shape))
    for _ in range(g.pick(range(1, _MOST_BLOCKS + 1))):
        if g.chance(0.3):
            name = STEPS[g.pick(len(STEPS))]
            made = MAKERS[name](g, g.source())
            g.words += [name] if made else []
            g.tensors += made
        else:
            _block(g)
    g.outputs()
    words = f"{g.dtype.name} batch {g.batch}: {' '.join(g.words)}"
    batches = (g.batch,) * _INFERENCES
    return RandomGraph(g.builder.build(), batches, ((0, 0),) * _INFERENCES, words)


def _block(g: Generator) -> None:
    """A convolution that mostly keeps the shape, and what may follow it."""
    x = g.source()
    if len(g.shape(x)) != 4:
        return
    keeps = g.chance(0.7)
    side = g.pick((1, 1, 3, 3, 5))
    window = Window(kh=side, kw=g.pick((1, 3, side)), padding=Padding.SAME)
    channels = g.shape(x)[3] if keeps else g.pick(random_graphs.CHANNELS)
    name = f"block{len(g.words)}"
    g.read.add(x)
    if g.chance(0.25):
        y = depthwise(g.builder, g.rng, x, window, g.numbers(), name=name)
    else:
        y = conv(g.builder, g.rng, x, channels, window, g.numbers(), name=name)
    g.words.append("block")
    g.tensors.append(y)
    if g.chance(0.6):
        y = _function(g, y)
    fitting = [t for t in g.tensors if g.shape(t) == g.shape(y) and t not in (x, y)]
    others = [x] if g.shape(x) == g.shape(y) else fitting
    if others and g.chance(0.6):
        y = _sum(g, y, others[g.pick(len(others))])


def _function(g: Generator, x: int) -> int:
    """SiLU, or a function of one node."""
    if g.chance(0.4):
        made = MAKERS["function"](g, x)
    else:
        low = LIMITS[g.dtype][0]
        gate = function(g.builder, "LOGISTIC", (x,), Quantization((1 / 256,), (low,)))
        g.read.update((x, gate))
        pair = (x, gate) if g.chance(0.5) else (gate, x)
        made = [function(g.builder, "MUL", pair, g.quantization(), MulOptions())]
    g.words.append("function")
    g.tensors += made
    return made[0]


def _sum(g: Generator, x: int, other: int) -> int:
    pair = (x, other) if g.chance(0.5) else (other, x)
    g.read.update(pair)
    quantization = g.quantization()
    y = layers.add(
        g.builder, *pair, activation=random_graphs.ACTIVATIONS[g.pick(3)],
        output_scale=quantization.scale, output_zero_point=quantization.zero_point,
        name=f"sum{len(g.words)}",
    )  # fmt: skip
    g.words.append("sum")
    g.tensors.append(y)
    return y
