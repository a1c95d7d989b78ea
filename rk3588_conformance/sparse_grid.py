"""Sparse weights behind DENSIFY: trees of all kinds over odd shapes. Of int8 layers, and of layers
in fp16, whose weights are float32, float16 behind DEQUANTIZE too, or int8 with a scale per channel.
"""

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
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.sparse import Tree, stored
from rk3588_conformance.case import Case, generator_of
from rk3588_conformance.grid import Values, grid, layer_grid
from rk3588_conformance.half_grid import inputs_of, numbers
from rk3588_conformance.half_judge import outside_bound
from rk3588_conformance.net import Net
from rk3588_conformance.random_layers import DENSITY, Numbers

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Layer:
    """An operator on an input of 5 x 6 pixels, or 3 rows, of ``weights`` behind DENSIFY."""

    op: str
    weights: tuple[int, ...]
    outputs_axis: int
    table: Options
    quantised: Callable[[Net, Numbers], int]
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
    window = Window(weights[1], weights[2])
    return _Layer(
        "CONV_2D", weights, 0, ConvOptions(*window.option_values, Activation.RELU),
        lambda net, given: net.conv(net.x, weights[0], window, given),
    )  # fmt: skip


def _depthwise(*weights: int) -> _Layer:
    window = Window(weights[1], weights[2])
    return _Layer(
        "DEPTHWISE_CONV_2D", weights, 3,
        DepthwiseOptions(*window.option_values, Activation.RELU6, 1),
        lambda net, given: net.depthwise(net.x, window, given),
    )  # fmt: skip


def _dense(*weights: int) -> _Layer:
    return _Layer(
        "FULLY_CONNECTED", weights, 0, FullyConnectedOptions(),
        lambda net, given: net.fully_connected(net.x, weights[0], given),
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


_TREES: dict[str, Callable[[int], Tree]] = {
    # CSR: rows of which the elements that are there are named.
    "rows": lambda rank: Tree((*range(rank),), (*(False,) * (rank - 1), True), kind=np.int32),
    "all": lambda rank: Tree((*range(rank),), (True,) * rank),
    "none": lambda rank: Tree((*range(rank),), (False,) * rank),
    "backwards": lambda rank: Tree((*range(rank)[::-1],), tuple(bool(d % 2) for d in range(rank))),
    "moved": lambda rank: Tree((rank - 1, *range(rank - 1)), (True,) + (False,) * (rank - 1)),
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


@layer_grid(
    "Sparse.Op/",
    input_shape=lambda v: (*_LAYERS[v.layer].lead, _LAYERS[v.layer].inputs),
    layer=tuple(_LAYERS),
    order=tuple(_TREES),
    blocks=tuple(_BLOCKS),
    type=("int8", "per_channel"),
)
def integers(net: Net, v: Values) -> int:
    made = _LAYERS[v.layer]
    tree = _tree(made.weights, v.order, v.blocks)
    return made.quantised(net, replace(v.layer_numbers, tree=tree))


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
def _floats(name: str, v: Values) -> Case:
    made, rng = _LAYERS[v.layer], generator_of(name)
    tree = _tree(made.weights, v.order, v.blocks)
    mask = tree.mask(rng, made.weights, DENSITY)
    bias = numbers(rng, (made.outputs,), "plain")
    scales = None
    if v.weights == "int8":
        dense = rng.integers(-127, 128, made.weights, np.int8)
        scales = rng.uniform(0.001, 0.05, made.outputs).astype(np.float32)
    else:
        dense = numbers(rng, made.weights, "plain").astype(v.weights)
    build = partial(_float_model, made, dense * mask, scales, bias)
    given = inputs_of(name, [(*made.lead, made.inputs)], "plain")

    def outside(_: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
        """Judge by the same model with the numbers that its weights stand for."""
        return outside_bound(read_graph(build(None)), inputs, outputs)

    return Case(name, "Half", lambda _: build(tree), inputs=given, outside=outside)
