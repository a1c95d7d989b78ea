"""Random graphs that hold images in other orders and shapes for a while, as exports of PyTorch and
Keras do: channels first, groups of channels apart, or without the dimension of a mean.

Nothing shows what lies between, so that the compiler may say it otherwise.
"""

from rk3588_conformance.builder.layers import Window
from rk3588_conformance.generated import mixed_steps
from rk3588_conformance.generated.generator import RandomGraph, Step, first_of
from rk3588_conformance.generated.random_graphs import MixedGenerator

_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Axes that bring channels first, and back."""
_SIDES = (1, 2, 3, 4, 5, 8)
_CHANNELS = (1, 2, 3, 4, 5, 8, 16, 20, 24, 32)
_GROUP_AXES = ((1, 2, 4), (1, 2, 4), (4,), (1, 2), (3, 4), (1, 2, 3))
_MAKERS: dict[str, Step] = mixed_steps.OF_ANY_TYPE | mixed_steps.OF_EIGHT_BITS
_STEPS = (
    *3 * ("computed",), *5 * ("paired",), *4 * ("reduced2",), *2 * ("softmax", "floating"),
    "retyped", "cut", "joined", "padded", "gather", "tiled", "shape", "weighted", "product",
)  # fmt: skip
# Seeds of one kind of graphs lie below those of the next.
_REGIONS = 1 << 52


class _Regions(MixedGenerator):
    """``rank``: of what is held otherwise; 4: channels first, 5: groups, 3: a mean."""

    def __init__(self, seed: int) -> None:
        super().__init__(_REGIONS + seed)
        self.rank = self.pick((4, 4, 4, 5, 5, 3))
        sides = (self.pick((1, 1, 1, 2)), *(self.pick(_SIDES) for _ in "hw"))
        self.tensors.append(self.new_input((*sides, self.pick(_CHANNELS))))
        if self.chance(0.6):
            window = Window(1, 1)
            self.take(
                "conv", self.conv(self.tensors[0], self.pick(_CHANNELS), window, self.numbers())
            )

    def shown(self) -> list[int]:
        made = [t for t in self.tensors if t not in self._graph.inputs]
        return [t for t in made if t not in self.read]

    def enter(self, x: int) -> int:
        images, rows, columns, channels = self.shape(x)
        if self.rank == 4:
            return self.transpose(x, _FIRST)
        if self.rank == 5:
            groups = self.choose([n for n in _CHANNELS if channels % n == 0])
            return self.reshape(x, (images, rows, columns, groups, channels // groups))
        return self.mean(x, (3,), keeps=False)

    def mean(self, x: int, axes: tuple[int, ...], *, keeps: bool) -> int:
        op = self.choose(("MEAN", "SUM"))
        return self.reduced(op, x, self.quantization(), keep_dims=keeps, axes=axes)

    def step(self, x: int) -> None:
        self.turn_to(self.spec(x).dtype)
        name = self.choose(_STEPS)
        if not self.shape(x) or not (name in mixed_steps.OF_ANY_TYPE or self.is_eight_bits(x)):
            return
        if name == "reduced2" and len(self.shape(x)) == 5:
            axes = self.choose(_GROUP_AXES)
            self.take("mean", self.mean(x, axes, keeps=self.chance(0.8)))
        else:
            self.take(name, _MAKERS[name](self, x))

    def leave(self, x: int) -> None:
        shape = self.shape(x)
        if len(shape) != self.rank or self.chance(0.15):
            return
        if self.rank == 4:
            self.take("leave", self.transpose(x, _LAST))
        elif self.rank == 5:
            self.take("leave", self.reshape(x, (*shape[:3], shape[3] * shape[4])))
        else:
            self.take("leave", self.reshape(x, (*shape, 1)))


def region_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``."""

    def made(seed: int) -> _Regions | None:
        g = _Regions(seed)
        g.take(f"enter as rank {g.rank}", g.enter(g.tensors[-1]))
        for _ in range(g.pick(range(1, 7))):
            g.step(g.source())
        for tensor in g.shown()[:3]:
            g.leave(tensor)
        for tensor in (listed := g.shown()):
            g.output(tensor)
        return g if listed else None

    g = first_of(made, seed)
    return RandomGraph(g.build(), " ".join(g.words))
