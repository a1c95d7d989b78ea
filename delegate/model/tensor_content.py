"""Makes an array of the bytes of a constant.

Comes from: the raw bytes of a .tflite buffer or of the runtime's memory. Goes to: both graph
readers, which so agree. Nothing is copied; every view is read-only.

Sparse constants: how a file says which elements it holds, and the dense array that they make.

A sparse tensor is a tree of one level per dimension in ``traversal_order``, those of the tensor
first, then those of its blocks. A dense level has every position, a compressed one (CSR) those that
``indices`` names, from ``segments[parent]`` up to ``segments[parent + 1]``. Source: the public
schema (SparsityParameters). What its text or TensorFlow Lite's reader leaves open is refused.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.model.flatbuffer_reader import Table
from delegate.model.graph import DType, SparseLevel, Sparsity, read_only
from delegate.model.tflite_schema import (
    SPARSE_FORMATS,
    SPARSE_INDICES,
    SparseLevelSlot,
    SparsitySlot,
    TensorSlot,
)

NUMPY_TYPES: Mapping[DType, np.dtype[np.generic]] = MappingProxyType(
    {
        DType.FLOAT32: np.dtype("<f4"),
        DType.FLOAT16: np.dtype("<f2"),
        DType.FLOAT64: np.dtype("<f8"),
        DType.INT8: np.dtype("i1"),
        DType.INT16: np.dtype("<i2"),
        DType.INT32: np.dtype("<i4"),
        DType.INT64: np.dtype("<i8"),
        DType.UINT8: np.dtype("u1"),
        DType.UINT16: np.dtype("<u2"),
        DType.UINT32: np.dtype("<u4"),
        DType.UINT64: np.dtype("<u8"),
        DType.BOOL: np.dtype("?"),
        DType.COMPLEX64: np.dtype("<c8"),
        DType.COMPLEX128: np.dtype("<c16"),
    }
)

# NumPy 1 refuses more dimensions; TensorFlow Lite's kernels stop at 8.
MAX_RANK = 32


def dense_bytes(dtype: DType, shape: tuple[int, ...]) -> int | None:
    """Bytes of a dense tensor; None where the type does not fix them (strings, resources).

    int4 is packed two to a byte, the low nibble first; bfloat16 takes two bytes.
    """
    count = math.prod(shape)
    if dtype is DType.INT4:
        return (count + 1) // 2
    if dtype is DType.BFLOAT16:
        return 2 * count
    kind = NUMPY_TYPES.get(dtype)
    return None if kind is None else count * kind.itemsize


def view_content(
    raw: npt.NDArray[np.uint8], dtype: DType, shape: tuple[int, ...], is_sparse: bool
) -> npt.NDArray[np.generic] | None:
    """``raw`` as an array of ``shape``; flat bytes where NumPy has no such array: sparse tensors,
    int4, bfloat16 and strings. None: there are more or fewer bytes than ``dense_bytes``.
    """
    size, kind = dense_bytes(dtype, shape), NUMPY_TYPES.get(dtype)
    if not is_sparse and size is not None and (size != raw.size or any(d < 0 for d in shape)):
        return None
    if kind is None or is_sparse:
        return read_only(raw)
    return read_only(raw.view(kind).reshape(shape))


Positions = npt.NDArray[np.int64]

_INT8, _UINT8, _INT32 = struct.Struct("<b"), struct.Struct("<B"), struct.Struct("<i")
_INT32S: Final = np.dtype("<i4")

_MOST_ELEMENTS: Final = 1 << 28
"""The most elements of a dense array: weights of more bytes have no addresses in a program of 32
bits.
"""


def read_sparsity(tensor: Table) -> Sparsity | None:
    """Return what a file says of ``tensor``; None where it is dense, or has kinds of levels or of
    indices that the schema does not know. Raises ModelError for damaged tables.
    """
    table = tensor.table(TensorSlot.SPARSITY, "sparsity")
    if table is None:
        return None
    levels = [_read_level(t) for t in table.tables(SparsitySlot.LEVELS, "level", f"{table.where} ")]
    known = tuple(level for level in levels if level is not None)
    if len(known) != len(levels):
        return None
    slots = (SparsitySlot.TRAVERSAL_ORDER, SparsitySlot.BLOCK_MAP)
    order, block_map = (table.values(slot, _INT32S) for slot in slots)
    return Sparsity(order, block_map, known)


def _read_level(table: Table) -> SparseLevel | None:
    kind = table.number(SparseLevelSlot.FORMAT, _INT8)
    size = table.number(SparseLevelSlot.DENSE_SIZE, _INT32)
    segments = _read_indices(table, SparseLevelSlot.SEGMENTS)
    indices = _read_indices(table, SparseLevelSlot.INDICES)
    if kind not in SPARSE_FORMATS or segments is None or indices is None:
        return None
    return SparseLevel(size, kind == SPARSE_FORMATS[1], segments, indices)


def _read_indices(level: Table, slot: int) -> npt.NDArray[np.generic] | None:
    """Return the indices of the union in ``slot``, whose number stands in the slot before."""
    number = level.number(slot - 1, _UINT8)
    if number >= len(SPARSE_INDICES):
        return None
    held, table = SPARSE_INDICES[number], level.table(slot, "indices")
    if held is None or table is None:
        return np.empty(0, _INT32S)
    return table.vector(0, np.dtype(held))


def dense_values(
    content: npt.NDArray[np.generic],
    kind: np.dtype[np.generic],
    shape: tuple[int, ...],
    sparsity: Sparsity,
) -> npt.NDArray[np.generic]:
    """The read-only array of ``shape`` and ``kind`` that the bytes ``content`` stand for. Raises
    ValueError.
    """
    sizes = _block_sizes(shape, sparsity)
    total = math.prod(shape)
    if not 0 < total <= _MOST_ELEMENTS:
        raise ValueError(f"it has {total} elements")
    if content.nbytes % kind.itemsize:
        raise ValueError(f"its {content.nbytes} bytes are no whole elements")
    values = content.view(np.uint8).view(kind)
    # Every entry leads to a value, or to a segment of a compressed level below it: a small file
    # does not make large arrays by what it says of its levels.
    most = max(values.size, *(level.segments.size for level in sparsity.levels))
    rank = len(shape)
    parents = np.zeros(1, np.int64)
    places = [np.zeros(1, np.int64) for _ in range(rank + len(sizes))]
    for number, (level, dimension) in enumerate(
        zip(sparsity.levels, sparsity.traversal_order, strict=True)
    ):
        if dimension < rank:
            size = shape[dimension] // dict(zip(sparsity.block_map, sizes, strict=True)).get(
                dimension, 1
            )
        else:
            size = sizes[dimension - rank]
        origin, found, parents = _expanded(number, level, size, len(parents), most)
        places = [place[origin] for place in places]
        places[dimension] = found
    if values.size != len(parents):
        raise ValueError(f"it holds {values.size} values for {len(parents)} places")
    for block, (size, dimension) in enumerate(zip(sizes, sparsity.block_map, strict=True)):
        places[dimension] = places[dimension] * size + places[rank + block]
    dense = np.zeros(shape, kind)
    dense[tuple(places[:rank])] = values
    return read_only(dense)


def _block_sizes(shape: tuple[int, ...], sparsity: Sparsity) -> list[int]:
    """Return the size of each dimension of blocks. Raises ValueError."""
    rank, levels = len(shape), sparsity.levels
    order, block_map = sparsity.traversal_order, sparsity.block_map
    if not 0 < rank <= MAX_RANK or len(levels) != len(order):
        raise ValueError(f"{len(levels)} levels, {len(order)} dimensions in order")
    if len(order) != rank + len(block_map) or sorted(order) != list(range(len(order))):
        raise ValueError(f"the order {list(order)} of rank {rank}")
    if sorted(order[:rank]) != list(range(rank)):
        raise ValueError(f"the order {list(order)} has blocks before the tensor's dimensions")
    if list(block_map) != sorted(set(block_map)) or not all(0 <= d < rank for d in block_map):
        raise ValueError(f"the block map {list(block_map)}")
    sizes = []
    for block, dimension in enumerate(block_map):
        level = order.index(rank + block)
        # TensorFlow Lite's reader takes the size from the level that the order names there.
        if order[rank + block] != level:
            raise ValueError(f"the order {list(order)} of blocks")
        size = levels[level].size
        if levels[level].is_compressed or size < 1 or shape[dimension] % size:
            raise ValueError(f"blocks of {size} along {shape[dimension]}")
        sizes.append(size)
    return sizes


def _expanded(
    number: int, level: SparseLevel, size: int, parents: int, most: int
) -> tuple[Positions, Positions, Positions]:
    """Return which of ``parents`` each entry of a level of ``size`` positions belongs to, its
    position, and its number in the level, from which deeper levels count. Raises ValueError.
    """
    if not level.is_compressed:
        if level.size != size:
            raise ValueError(f"level {number} has {level.size} positions instead of {size}")
        if parents * size > most:
            raise ValueError(f"level {number} has more entries than values or segments")
        origin = np.repeat(np.arange(parents), size)
        return origin, np.tile(np.arange(size), parents), np.arange(parents * size)
    segments, indices = (a.astype(np.int64) for a in (level.segments, level.indices))
    counts = np.diff(segments)
    if segments.size != parents + 1 or segments[0] != 0 or segments[-1] != indices.size:
        raise ValueError(f"level {number} has {segments.size} segments of {indices.size} indices")
    if (counts < 0).any() or indices.size > most:
        raise ValueError(f"the segments of level {number} overlap")
    origin = np.repeat(np.arange(parents), counts)
    rising = (np.diff(indices) > 0) | (np.diff(origin) > 0)
    if ((indices < 0) | (indices >= size)).any() or not rising.all():
        raise ValueError(f"the indices of level {number} do not rise from 0 to {size}")
    return origin, indices, np.arange(indices.size)
