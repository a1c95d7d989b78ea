"""Sparse weights behind DENSIFY: trees of all kinds over odd shapes. Of int8 layers, and of layers
in fp16, whose weights are float32, float16 behind DEQUANTIZE too, or int8 with a scale per channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Graph, Quantization
from delegate.model.operator_options import Options
from delegate.model.tflite_reader import read_graph
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder.layers import conv, depthwise, fully_connected
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.sparse import Tree, stored
from rk3588_conformance.case import Case, Family, generator_of
from rk3588_conformance.grid import grid
from rk3588_conformance.half_judge import outside_bound
from rk3588_conformance.half_values import inputs_of, numbers
from rk3588_conformance.own_grid import numbers_of, one_layer, window_of
from rk3588_conformance.random_layers import DENSITY, Numbers

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Layer:
    """An operator on an input of 5 x 6 pixels, or 3 rows, of ``weights`` behind DENSIFY."""

    op: str
    weights: tuple[int, ...]
    outputs_axis: int
    table: Options
    quantised: Callable[[ModelBuilder, np.random.Generator, int, Numbers], int]
    """Adds it with int8 weights."""

    @property
    def outputs(self) -> int:
        return self.weights[self.outputs_axis]

    @property
    def lead(self) -> tuple[int, ...]:
        """Return the leading dimensions of the input and the result."""
        return (3,) if len(self.weights) == 2 else (1, 5, 6)

    @property
    def inputs(self) -> int:
        """Channels."""
        return self.weights[-1]


def _conv(*weights: int) -> _Layer:
    window = window_of(f"{weights[1]}x{weights[2]}")
    table = ConvOptions(*window.option_values, Activation.RELU)
    return _Layer(
        "CONV_2D", weights, 0, table,
        lambda builder, rng, x, given: conv(builder, rng, x, weights[0], window, given),
    )  # fmt: skip


def _depthwise(*weights: int) -> _Layer:
    window = window_of(f"{weights[1]}x{weights[2]}")
    table = DepthwiseOptions(*window.option_values, Activation.RELU6, 1)
    return _Layer(
        "DEPTHWISE_CONV_2D", weights, 3, table,
        lambda builder, rng, x, given: depthwise(builder, rng, x, window, given),
    )  # fmt: skip


def _dense(*weights: int) -> _Layer:
    table = FullyConnectedOptions()
    return _Layer(
        "FULLY_CONNECTED", weights, 0, table,
        lambda builder, rng, x, given: fully_connected(builder, rng, x, weights[0], given),
    )  # fmt: skip


_LAYERS = {
    "conv_1x1": _conv(17, 1, 1, 40),
    "conv_3x2": _conv(24, 3, 2, 9),
    "conv_one": _conv(1, 1, 5, 65),
    "depthwise_3x3": _depthwise(1, 3, 3, 33),
    "depthwise_2x5": _depthwise(1, 2, 5, 16),
    "dense": _dense(21, 100),
    "dense_wide": _dense(130, 35),
}


def _by_rows(rank: int) -> Tree:
    """CSR: rows of which the elements that are there are named."""
    return Tree(tuple(range(rank)), (*(False,) * (rank - 1), True), kind=np.int32)


def _backwards(rank: int) -> Tree:
    flags = tuple(bool(d % 2) for d in range(rank))
    return Tree(tuple(reversed(range(rank))), flags)


def _moved(rank: int) -> Tree:
    return Tree((rank - 1, *range(rank - 1)), (True,) + (False,) * (rank - 1))


_TREES: dict[str, Callable[[int], Tree]] = {
    "rows": _by_rows,
    "all": lambda rank: Tree(tuple(range(rank)), (True,) * rank),
    "none": lambda rank: Tree(tuple(range(rank)), (False,) * rank),
    "backwards": _backwards,
    "moved": _moved,
}
"""The trees of tensors of a rank."""
_BLOCKS = {"single": (), "first": (0,), "last": (-1,), "tiles": (0, -1), "turned_tiles": (-1, 0)}
"""The dimensions beyond 1 that have blocks, in the order of the tree."""


def _tree(shape: Sequence[int], order: str, blocks: str) -> Tree:
    """Blocks have the least size that divides one's."""
    rank, found = len(shape), _TREES[order](len(shape))
    long = [d for d, size in enumerate(shape) if size > 1]
    dimensions = [long[place] for place in _BLOCKS[blocks]]
    sizes = {d: next(n for n in range(2, 99) if shape[d] % n == 0) for d in dimensions}
    back = tuple(rank + sorted(sizes).index(d) for d in dimensions)
    flags = (*found.compressed, *(False,) * len(back))
    return replace(found, order=(*found.order, *back), compressed=flags, blocks=sizes)


@grid(
    "Sparse.Op/",
    layer=tuple(_LAYERS),
    order=tuple(_TREES),
    blocks=tuple(_BLOCKS),
    type=("int8", "per_channel"),
)
def _integers(name: str, *, layer: str, order: str, blocks: str, type: str) -> Case:
    made = _LAYERS[layer]
    given = replace(numbers_of(type), tree=_tree(made.weights, order, blocks))

    return one_layer(
        name, "Sparse", (*made.lead, made.inputs), type,
        lambda builder, rng, x: made.quantised(builder, rng, x, given),
    )  # fmt: skip


def _float_model(
    made: _Layer, dense: Array, scales: Array | None, bias: Array, tree: Tree | None
) -> bytes:
    """``scales``: of int8 weights. ``tree`` None: with the numbers that they stand for."""
    builder = ModelBuilder("half sparse")
    x = builder.input("x", (*made.lead, made.inputs), DType.FLOAT32)
    quantization = None
    if scales is not None:
        zeros = (0,) * scales.size
        quantization = Quantization(tuple(scales.tolist()), zeros, made.outputs_axis)
    if tree is None:
        along = np.ones(len(made.weights), int)
        along[made.outputs_axis] = -1
        real = dense.astype(np.float64)
        if scales is not None:
            real = real * scales.astype(np.float64).reshape(along)
        dense, quantization = real.astype(np.float32), None
    w = stored(builder, "w", dense, quantization, tree=tree)
    b = builder.constant("b", bias)
    result = (*made.lead, made.outputs)
    return builder.build(builder.result(made.op, (x, w, b), "y", result, options=made.table))


@grid(
    "Half.Sparse/",
    layer=tuple(_LAYERS),
    order=tuple(_TREES),
    blocks=tuple(_BLOCKS),
    weights=("float32", "float16", "int8"),
)
def _floats(name: str, *, layer: str, order: str, blocks: str, weights: str) -> Case:
    made, rng = _LAYERS[layer], generator_of(name)
    tree = _tree(made.weights, order, blocks)
    mask = tree.mask(rng, made.weights, DENSITY)
    bias = numbers(rng, (made.outputs,), "plain")
    scales = None
    if weights == "int8":
        dense = rng.integers(-127, 128, made.weights, np.int8)
        scales = rng.uniform(0.001, 0.05, made.outputs).astype(np.float32)
    else:
        dense = numbers(rng, made.weights, "plain").astype(weights)
    build = partial(_float_model, made, dense * mask, scales, bias)
    given = inputs_of(name, [(*made.lead, made.inputs)], "plain")

    def outside(_: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
        """Judge by the same model with the numbers that its weights stand for."""
        return outside_bound(read_graph(build(None)), inputs, outputs)

    return Case(name, "Half", lambda _: build(tree), inputs=given, outside=outside)


FAMILIES: tuple[Family, ...] = (_integers, _floats)
