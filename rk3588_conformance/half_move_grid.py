"""Float models in fp16 whose operators only move elements: all equal, infinities and NaN included.

Behind a move stands nothing, or a convolution with the unit matrix, which also reads the lanes to
spare behind the last channel: they must not be NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

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
from rk3588_conformance.case import Case, generator_of
from rk3588_conformance.grid import Grid, Outputs, Values, grid, shape_of
from rk3588_conformance.half_judge import in_half
from rk3588_conformance.reference.exact_graph import exact_values
from rk3588_conformance.reference.half_oracle import Array

Shapes = Sequence[Sequence[int]]
Move = Callable[[ModelBuilder, Sequence[int], Values], Outputs]
"""Adds the operator to a model, behind computed tensors, and returns its results."""

_NUMBERS = ("plain", "ends")


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


def _model(shapes: Shapes, move: Move, v: Values, _: object) -> bytes:
    builder = ModelBuilder("half move")
    given = []
    for number, shape in enumerate(shapes):
        x = builder.input(f"x{number}", shape, DType.FLOAT32)
        zero = builder.constant(f"zero{number}", np.zeros(1, np.float32))
        y = builder.result("ADD", (x, zero), f"computed{number}", options=AddOptions())
        given.append(y)
    made = move(builder, given, v)
    for result in (made,) if isinstance(made, int) else made:
        is_map = len(builder.spec(result).shape) == 4
        builder.output(_unit(builder, result) if v.behind == "unit" and is_map else result)
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


def _moving(
    prefix: str,
    shapes: Callable[[Values], Shapes],
    is_in: Callable[[Values], bool] = lambda _: True,
    **axes: Any,
) -> Callable[[Move], Grid]:
    """Makes a ``Grid`` of the function below it, which moves inputs of ``shapes``."""

    def family(move: Move) -> Grid:
        def make(name: str, v: Values) -> Case:
            rng, sizes = generator_of(name + " inputs"), shapes(v)
            return Case(
                name,
                "Half",
                partial(_model, sizes, move, v),
                inputs=lambda: [_drawn(rng, shape, v.numbers) for shape in sizes],
                outside=_differing,
            )

        # An infinity makes NaN of the zeros of the unit matrix.
        every: dict[str, Any] = {**axes, "behind": ("nothing", "unit"), "numbers": _NUMBERS}
        is_finite: Callable[[Values], bool] = lambda v: (  # noqa: E731
            (v.behind == "nothing" or v.numbers == "plain") and is_in(v)
        )
        return grid(prefix, is_in=is_finite, **every)(make)

    return family


def _parts(v: Values) -> Shapes:
    shapes = [[1, 5, 7, 11] for _ in shape_of(v.parts)]
    for shape, size in zip(shapes, shape_of(v.parts), strict=True):
        shape[v.axis] = size
    return shapes


@_moving(
    "Half.MovesJoin/",
    _parts,
    parts=("8x5", "1x1", "4x1x40", "7x9", "31x33x16", "3x3x3x3", "24x8", "2x40"),
    axis=(1, 3),
)
def _joins(builder: ModelBuilder, given: Sequence[int], v: Values) -> Outputs:
    return moves.concatenation(builder, given, v.axis)


@_moving(
    "Half.MovesCut/",
    lambda _: [(1, 9, 11, 40)],
    begin=("0x0x0", "2x0x8", "1x3x5", "3x1x33", "0x7x1"),
    size=("5x4x7", "1x1x1", "6x3x6", "3x4x5"),
    by=("slice", "strided"),
)
def _cuts(builder: ModelBuilder, given: Sequence[int], v: Values) -> Outputs:
    box = (0, *shape_of(v.begin)), (1, *shape_of(v.size))
    return moves.slice_of(builder, given[0], *box, strided=v.by == "strided")


@_moving(
    "Half.MovesSplit/",
    lambda v: [(2, 4, 9, v.channels * v.count)],
    channels=(1, 7, 8, 9, 20, 32),
    count=(2, 3, 5),
)
def _splits(builder: ModelBuilder, given: Sequence[int], v: Values) -> Outputs:
    return moves.split(builder, given[0], v.count, 3)


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
    return lambda builder, x: moves.pad(builder, x, [(0, 0), *amounts], mode=mode)


def _nearest(sizes: Callable[[int, int], tuple[int, int]], *, has_centres: bool) -> One:
    table = ResizeNearestOptions(False, has_centres)
    return lambda builder, x: moves.resize(
        builder, "RESIZE_NEAREST_NEIGHBOR", x, *sizes(*builder.spec(x).shape[1:3]), table
    )


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
    "nearest": _nearest(lambda h, w: (2 * h, 3 * w), has_centres=False),
    "nearest_any": _nearest(lambda h, w: (h + 2, -(-w // 2)), has_centres=True),
    "tiled": lambda b, x: moves.tile(b, x, (1, 2, 3, 2)),
    "reversed": lambda b, x: moves.gather(b, x, np.arange(b.spec(x).shape[2])[::-1], 2),
    "gathered": lambda b, x: moves.gather(b, x, (0, 0, b.spec(x).shape[3] - 1), 3),
}


def _is_whole(v: Values) -> bool:
    _, height, width, channels = v.input_shape
    fits = {
        "wider": channels % 2 == 0,
        "into_pixels": channels % 4 == 0,
        "into_channels": height % 2 == width % 2 == 0,
        "narrower": width % 2 == 0,
        "uneven": channels > 1,
        "squeeze": channels > 1,  # all dimensions of 1 go
        "expand": channels > 1,
    }
    return fits.get(v.op, True)


@_moving(
    "Half.Moves/",
    lambda v: [v.input_shape],
    _is_whole,
    op=tuple(_MOVES),
    shape=("1x4x6x8", "1x6x4x12", "1x8x3x20", "1x3x7x1", "1x5x4x7", "1x4x8x33"),
)
def _others(builder: ModelBuilder, given: Sequence[int], v: Values) -> Outputs:
    return _MOVES[v.op](builder, given[0])
