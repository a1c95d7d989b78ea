"""Float models in fp16 whose operators only move elements: all equal, infinities and NaN included.

Behind a move stands nothing, or a convolution with the unit matrix, which also reads the lanes to
spare behind the last channel: they must not be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Graph
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from rk3588_conformance.builder import moves
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import pad, resize
from rk3588_conformance.case import Case, Family, generator_of
from rk3588_conformance.grid import grid
from rk3588_conformance.half_judge import in_half
from rk3588_conformance.own_grid import Outputs, shape_of
from rk3588_conformance.reference.exact_graph import exact_values
from rk3588_conformance.reference.half_oracle import Array

Move = Callable[[ModelBuilder, Sequence[int]], Outputs]
"""Adds the operator to a model, behind computed tensors, and returns its results."""

_NUMBERS = ("plain", "ends")
_BEHIND = ("nothing", "unit")


def _drawn(rng: np.random.Generator, shape: Sequence[int], numbers: str) -> npt.NDArray[np.float32]:
    """Draw numbers of the order of one, or what is special in fp16 and beyond."""
    if numbers == "plain":
        return rng.normal(size=tuple(shape)).astype(np.float32)
    odd = [65504, -65504, 65520, 1e9, -1e9, 2.0**-14, 2.0**-24, 2.0**-25, 0, -0.0, 1, -1, 2049,
           np.inf, -np.inf, np.nan]  # fmt: skip
    return rng.choice(np.array(odd, np.float32), tuple(shape))


def _unit(builder: ModelBuilder, x: int) -> int:
    channels = builder.spec(x).shape[-1]
    weights = np.eye(channels, dtype=np.float32)[:, None, None, :]
    unit = builder.constant(f"unit{x}", weights)
    bias = builder.constant(f"bias{x}", np.zeros(channels, np.float32))
    return builder.result("CONV_2D", (x, unit, bias), f"same{x}", options=ConvOptions())


def _model(shapes: Sequence[Sequence[int]], move: Move, behind: str, _: object) -> bytes:
    builder = ModelBuilder("half move")
    given = []
    for number, shape in enumerate(shapes):
        x = builder.input(f"x{number}", shape, DType.FLOAT32)
        zero = builder.constant(f"zero{number}", np.zeros(1, np.float32))
        y = builder.result("ADD", (x, zero), f"computed{number}", options=AddOptions())
        given.append(y)
    made = move(builder, given)
    for result in (made,) if isinstance(made, int) else made:
        is_map = len(builder.spec(result).shape) == 4
        builder.output(_unit(builder, result) if behind == "unit" and is_map else result)
    return builder.build()


def _differing(graph: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
    """Return what is not one of the inputs, as the host rounds them, where it belongs. Additions of
    0 and convolutions with the unit matrix change nothing.
    """
    values = exact_values(graph, {index: in_half(x) for index, x in inputs.items()})
    problems = []
    for number, (ours, index) in enumerate(zip(outputs, graph.outputs, strict=True)):
        exact = values[index]
        if ours.shape != exact.shape:
            problems.append(f"output {number} is {list(ours.shape)}, not {list(exact.shape)}")
        elif not np.array_equal(ours, exact, equal_nan=True):
            wrong = ~((ours == exact) | (np.isnan(ours) & np.isnan(exact)))
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            problems.append(
                f"output {number}, element {list(place)}: {ours[place]} instead of "
                f"{exact[place]}; {int(wrong.sum())} of {wrong.size} differ"
            )
    return problems


def _case(
    name: str, shapes: Sequence[Sequence[int]], move: Move, behind: str, numbers: str
) -> Case:
    rng = generator_of(name + " inputs")
    return Case(
        name,
        "Half",
        partial(_model, shapes, move, behind),
        inputs=lambda: [_drawn(rng, shape, numbers) for shape in shapes],
        outside=_differing,
    )


def _is_in(*, behind: str, numbers: str, **_: object) -> bool:
    """An infinity makes NaN of the zeros of the unit matrix."""
    return behind == "nothing" or numbers == "plain"


@grid(
    "Half.MovesJoin/",
    parts=("8x5", "1x1", "4x1x40", "7x9", "31x33x16", "3x3x3x3", "24x8", "2x40"),
    axis=(1, 3),
    behind=_BEHIND,
    numbers=_NUMBERS,
    is_in=_is_in,
)
def _joins(name: str, *, parts: str, axis: int, behind: str, numbers: str) -> Case:
    shapes = []
    for size in shape_of(parts):
        shape = [1, 5, 7, 11]
        shape[axis] = size
        shapes.append(shape)

    def move(builder: ModelBuilder, given: Sequence[int]) -> Outputs:
        return moves.concatenation(builder, given, axis)

    return _case(name, shapes, move, behind, numbers)


@grid(
    "Half.MovesCut/",
    begin=("0x0x0", "2x0x8", "1x3x5", "3x1x33", "0x7x1"),
    size=("5x4x7", "1x1x1", "6x3x6", "3x4x5"),
    by=("slice", "strided"),
    behind=_BEHIND,
    numbers=_NUMBERS,
    is_in=_is_in,
)
def _cuts(name: str, *, begin: str, size: str, by: str, behind: str, numbers: str) -> Case:
    box = (0, *shape_of(begin)), (1, *shape_of(size))

    def move(builder: ModelBuilder, given: Sequence[int]) -> Outputs:
        return moves.slice_of(builder, given[0], *box, strided=by == "strided")

    return _case(name, [(1, 9, 11, 40)], move, behind, numbers)


@grid(
    "Half.MovesSplit/",
    channels=(1, 7, 8, 9, 20, 32),
    count=(2, 3, 5),
    behind=_BEHIND,
    numbers=_NUMBERS,
    is_in=_is_in,
)
def _splits(name: str, *, channels: int, count: int, behind: str, numbers: str) -> Case:
    def move(builder: ModelBuilder, given: Sequence[int]) -> Outputs:
        return moves.split(builder, given[0], count, 3)

    return _case(name, [(2, 4, 9, channels * count)], move, behind, numbers)


def _into_channels(builder: ModelBuilder, x: int) -> int:
    n, h, w, c = builder.spec(x).shape
    shape = (n, h // 2, w // 2, c * 4)
    return builder.result("SPACE_TO_DEPTH", (x,), "blocks", shape, options=SpaceToDepthOptions(2))


def _into_pixels(builder: ModelBuilder, x: int) -> int:
    n, h, w, c = builder.spec(x).shape
    shape = (n, h * 2, w * 2, c // 4)
    return builder.result("DEPTH_TO_SPACE", (x,), "blocks", shape, options=DepthToSpaceOptions(2))


One = Callable[[ModelBuilder, int], int]


def _reshaped(size: Callable[..., tuple[int, ...]]) -> One:
    return lambda builder, x: moves.reshape(builder, x, size(*builder.spec(x).shape))


def _squeezed(builder: ModelBuilder, x: int) -> int:
    return moves.squeeze(builder, x, builder.spec(x).shape[1:])


def _transposed(*axes: int) -> One:
    return lambda builder, x: moves.transpose(builder, x, axes)


def _padded(*amounts: tuple[int, int], mode: int | None = None) -> One:
    return lambda builder, x: pad(builder, x, [(0, 0), *amounts], mode=mode)


def _nearest(builder: ModelBuilder, x: int) -> int:
    _, height, width, _ = builder.spec(x).shape
    table = ResizeNearestOptions(False, False)
    return resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, 2 * height, 3 * width, table)


def _nearest_any(builder: ModelBuilder, x: int) -> int:
    _, height, width, _ = builder.spec(x).shape
    table = ResizeNearestOptions(False, True)
    return resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, height + 2, -(-width // 2), table)


_MOVES: dict[str, Callable[[ModelBuilder, int], Outputs]] = {
    "flat": _reshaped(lambda n, h, w, c: (n, h * w, 1, c)),
    "wider": _reshaped(lambda n, h, w, c: (n, h, w * 2, c // 2)),
    "narrower": _reshaped(lambda n, h, w, c: (n, h, w // 2, c * 2)),
    "rows": _reshaped(lambda n, h, w, c: (n, h, 1, w * c)),
    "rank3": _reshaped(lambda n, h, w, c: (n, h * w, c)),
    "squeeze": _squeezed,
    "expand": lambda b, x: moves.expand_dims(b, _squeezed(b, x), b.spec(x).shape),
    "unpacked": lambda b, x: moves.unpack(b, x, 1),
    "packed": lambda b, x: moves.pack(b, moves.unpack(b, x, 1), 1),
    "uneven": lambda b, x: moves.split_v(b, x, (1, b.spec(x).shape[3] - 1), 3),
    "turn": _transposed(0, 2, 1, 3),
    "first": _transposed(0, 3, 1, 2),
    "inner": _transposed(0, 1, 3, 2),
    "pad": _padded((1, 2), (3, 0), (0, 0)),
    "pad_all": _padded((0, 1), (1, 1), (5, 2)),
    "pad_far": _padded((17, 0), (0, 20), (0, 0)),
    "reflect": _padded((1, 1), (2, 0), (0, 0), mode=REFLECT),
    "symmetric": _padded((0, 2), (1, 1), (0, 0), mode=SYMMETRIC),
    "into_channels": _into_channels,
    "into_pixels": _into_pixels,
    "nearest": _nearest,
    "nearest_any": _nearest_any,
    "tiled": lambda b, x: moves.tile(b, x, (1, 2, 3, 2)),
    "reversed": lambda b, x: moves.gather(b, x, np.arange(b.spec(x).shape[2])[::-1], 2),
    "gathered": lambda b, x: moves.gather(b, x, (0, 0, b.spec(x).shape[3] - 1), 3),
}


def _others_in(*, op: str, shape: str, behind: str, numbers: str) -> bool:
    _, height, width, channels = shape_of(shape)
    fits = {
        "wider": channels % 2 == 0,
        "into_pixels": channels % 4 == 0,
        "into_channels": height % 2 == width % 2 == 0,
        "narrower": width % 2 == 0,
        "uneven": channels > 1,
        "squeeze": channels > 1,  # all dimensions of 1 go
        "expand": channels > 1,
    }
    return fits.get(op, True) and _is_in(behind=behind, numbers=numbers)


@grid(
    "Half.Moves/",
    op=tuple(_MOVES),
    shape=("1x4x6x8", "1x6x4x12", "1x8x3x20", "1x3x7x1", "1x5x4x7", "1x4x8x33"),
    behind=_BEHIND,
    numbers=_NUMBERS,
    is_in=_others_in,
)
def _others(name: str, *, op: str, shape: str, behind: str, numbers: str) -> Case:
    def move(builder: ModelBuilder, given: Sequence[int]) -> Outputs:
        return _MOVES[op](builder, given[0])

    return _case(name, [shape_of(shape)], move, behind, numbers)


FAMILIES: tuple[Family, ...] = (_joins, _cuts, _splits, _others)
