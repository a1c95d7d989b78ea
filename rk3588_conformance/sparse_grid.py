"""Sparse weights behind DENSIFY: trees of all kinds over odd shapes. Of int8 layers, and of layers
in fp16, whose weights are float32, float16 behind DEQUANTIZE too, or int8 with a scale per channel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Graph, Quantization
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import (
    Weighted,
    Window,
    conv_layer,
    dense_layer,
    depthwise_layer,
)
from rk3588_conformance.builder.reals import DRAWS, numbers
from rk3588_conformance.builder.sparse import Tree, stored
from rk3588_conformance.case import Case, generator_of
from rk3588_conformance.grid import Values, grid, layer_grid
from rk3588_conformance.half_judge import outside_bound
from rk3588_conformance.random_layers import DENSITY

Array = npt.NDArray[Any]


_KERNELS = {
    "conv_1x1": (17, 1, 1, 40), "conv_3x2": (24, 3, 2, 9), "conv_one": (1, 1, 5, 65),
    "depthwise_3x3": (1, 3, 3, 33), "depthwise_2x5": (1, 2, 5, 16),
    "dense": (21, 100), "dense_wide": (130, 35),
}  # fmt: skip
"""The shapes of weights behind DENSIFY."""


def _layer(name: str, *, is_clamped: bool = False) -> Weighted:
    """The operator on an input of 5 x 6 pixels, or 3 rows."""
    first, *sides, channels = _KERNELS[name]
    if not sides:
        return dense_layer((3, channels), first)
    window, shape = Window(sides[0], sides[1]), (1, 5, 6, channels)
    if name.startswith("depthwise"):
        return depthwise_layer(shape, window, Activation.RELU6 if is_clamped else Activation.NONE)
    return conv_layer(shape, first, window, Activation.RELU if is_clamped else Activation.NONE)


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
    input_shape=lambda v: _layer(v.layer).given,
    layer=tuple(_KERNELS),
    order=tuple(_TREES),
    blocks=tuple(_BLOCKS),
    type=("int8", "per_channel"),
)
def integers(net: Net, v: Values) -> int:
    made = _layer(v.layer)
    numbers = replace(v.layer_numbers, tree=_tree(made.kernels, v.order, v.blocks))
    return net.weighted(net.x, made, numbers)


def _float_model(
    made: Weighted, dense: Array, scales: Array | None, bias: Array, tree: Tree | None
) -> bytes:
    """``scales``: of int8 weights. ``tree`` None: with the numbers that they stand for."""
    builder = Net("half sparse")
    x = builder.input("x", made.given, DType.FLOAT32)
    quantization = None
    if scales is not None:
        zeros = (0,) * scales.size
        quantization = Quantization(tuple(scales.tolist()), zeros, made.axis)
    if tree is None:
        along = np.ones(len(made.kernels), int)
        along[made.axis] = -1
        real = dense.astype(np.float64)
        if scales is not None:
            real = real * scales.astype(np.float64).reshape(along)
        dense, quantization = real.astype(np.float32), None
    w = stored(builder, "w", dense, quantization, tree=tree)
    b = builder.constant("b", bias)
    return builder.build(builder.result(made.op, (x, w, b), "y", made.result, options=made.options))


@grid(
    "Half.Sparse/",
    layer=tuple(_KERNELS),
    order=tuple(_TREES),
    blocks=tuple(_BLOCKS),
    weights=("float32", "float16", "int8"),
)
def _floats(name: str, v: Values) -> Case:
    made, rng = _layer(v.layer, is_clamped=True), generator_of(name)
    tree = _tree(made.kernels, v.order, v.blocks)
    mask = tree.mask(rng, made.kernels, DENSITY)
    bias = numbers(rng, (made.outputs,))
    scales = None
    if v.weights == "int8":
        dense = rng.integers(-127, 128, made.kernels, np.int8)
        scales = rng.uniform(0.001, 0.05, made.outputs).astype(np.float32)
    else:
        dense = numbers(rng, made.kernels).astype(v.weights)
    build = partial(_float_model, made, dense * mask, scales, bias)

    def outside(_: Graph, inputs: Mapping[int, Array], outputs: Sequence[Array]) -> list[str]:
        """Judge by the same model with the numbers that its weights stand for."""
        return outside_bound(read_graph(build(None)), inputs, outputs)

    return Case(name, "Half", lambda _: build(tree), reals=DRAWS["plain"], outside=outside)
