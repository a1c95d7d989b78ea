"""Sparse constants: a dense array's elements in the order of a tree, and DENSIFY behind them.

What a tree is stands in the public schema (SparsityParameters): levels of positions, one for each
dimension, then one for each dimension of blocks; dense, or compressed (CSR).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Quantization, SparseLevel, Sparsity
from rk3588_conformance.builder.model_builder import ModelBuilder

Array = npt.NDArray[Any]

_KINDS = (np.uint8, np.uint16, np.int32)


@dataclass(frozen=True, slots=True)
class Tree:
    """``order``: the tensor's dimensions, then its blocks', numbered behind those. ``compressed``:
    of each level. ``blocks``: their sizes, by dimension. ``kind``: of segments and indices; None:
    the narrowest of each level.
    """

    order: tuple[int, ...]
    compressed: tuple[bool, ...]
    blocks: Mapping[int, int] = field(default_factory=dict)
    kind: type | None = None

    def mask(self, rng: np.random.Generator, shape: Sequence[int], share: float) -> Array:
        """Return which elements of an array are not 0, at least one: about ``share``, whole
        blocks.
        """
        sizes = [size // self.blocks.get(d, 1) for d, size in enumerate(shape)]
        drawn = rng.random(sizes) < share
        drawn.flat[rng.integers(drawn.size)] = True
        for d, size in self.blocks.items():
            drawn = drawn.repeat(size, d)
        return drawn


def encoded(dense: Array, tree: Tree) -> tuple[Array, Sparsity]:
    """The values that ``dense`` has where ``tree`` has places, in its order, and the places."""
    blocks = tuple(sorted(tree.blocks))
    split: list[int] = []
    axes: dict[int, int] = {}
    for d, size in enumerate(dense.shape):
        block = tree.blocks.get(d, 1)
        axes[d] = len(split)
        if d in blocks:
            axes[dense.ndim + blocks.index(d)] = len(split) + 1
        split += [size // block, block]
    inner = [axis + 1 for d, axis in axes.items() if d < dense.ndim and d not in blocks]  # of 1
    turned = dense.reshape(split).transpose([*(axes[d] for d in tree.order), *inner])
    nodes = np.zeros(1, np.int64)
    levels = []
    for number, is_compressed in enumerate(tree.compressed):
        size = turned.shape[number]
        below = (nodes[:, np.newaxis] * size + np.arange(size)).reshape(-1)
        if is_compressed:
            has_some = turned.reshape(int(np.prod(turned.shape[: number + 1])), -1).any(1)[below]
            ends = has_some.reshape(-1, size).sum(1).cumsum()
            below = below[has_some]
            given = (np.array([0, *ends]), below % size)
            most = max(int(part.max(initial=0)) for part in given)
            kind = tree.kind or next(k for k in _KINDS if most <= np.iinfo(k).max)
            levels.append(SparseLevel(0, True, *(part.astype(kind) for part in given)))
        else:
            levels.append(SparseLevel(size))
        nodes = below
    return turned.reshape(-1)[nodes], Sparsity(tree.order, blocks, tuple(levels))


def stored(
    builder: ModelBuilder,
    name: str,
    dense: Array,
    quantization: Quantization | None = None,
    *,
    tree: Tree | None,
) -> int:
    """A constant, or sparse behind DENSIFY; there, if it is float16, as float32 behind DEQUANTIZE
    too.
    """
    if tree is None:
        return builder.constant(name, dense, quantization)
    kind = DType[dense.dtype.name.upper()]
    values, sparsity = encoded(dense, tree)
    given = builder.constant(
        f"{name} sparse", values, quantization, shape=dense.shape, is_sparse=True, sparsity=sparsity
    )
    made = builder.result("DENSIFY", (given,), name)
    if kind is not DType.FLOAT16:
        return made
    return builder.result("DEQUANTIZE", (made,), f"{name} real", dtype=DType.FLOAT32)
