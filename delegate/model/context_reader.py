"""Builds the graph of a running interpreter from a snapshot of its TfLiteContext.

Comes from: the dictionary that native code fills in delegate Prepare, raw integers of the runtime's
C structs and views of its memory. Goes to: the same ``Graph`` that ``tflite_reader`` gives for the
file. Refuses nothing: a value this schema does not know becomes an absent option, an unknown type
or an unknown operator, all of which the constraints reject.

TfLiteType counts from 1 (``DType`` has its values), unlike the file's types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from delegate.model.graph import (
    DType,
    Graph,
    Node,
    Quantization,
    SparseLevel,
    Sparsity,
    Tensor,
    metadata_text,
    operator_name,
)
from delegate.model.operator_options import RuntimeOptions
from delegate.model.tensor_content import view_content

# TfLiteAllocationType: what makes a tensor a constant, and what makes its shape unknown.
ALLOCATION_MMAP_RO = 1
ALLOCATION_DYNAMIC = 4
ALLOCATION_PERSISTENT_RO = 5
CONSTANT_ALLOCATIONS = (ALLOCATION_MMAP_RO, ALLOCATION_PERSISTENT_RO)

# TfLiteQuantizationType: only this one has scale and zero_point as TfLiteAffineQuantization does.
AFFINE_QUANTIZATION = 1

# TfLiteDimensionType.
_DENSE_LEVEL = 0
_CSR_LEVEL = 1

_DTYPES = MappingProxyType({dtype.value: dtype for dtype in DType})


def graph_from_snapshot(snapshot: Mapping[str, Any]) -> Graph:
    """The graph of ``snapshot``: {"tensors": [...], "nodes": [...]}, nodes in execution order.

    A tensor: index, name, type, shape, shape_signature, allocation_type, is_variable, is_sparse,
    sparsity (None, or traversal_order, block_map, levels of format, size, segments and indices),
    quantization (None or type, scale float32[n], zero_point int32[n or 1], axis), data (read-only
    uint8[bytes] or None). A node: index, builtin_code, custom_name, version, inputs, outputs,
    options (None or the first bytes of the runtime's struct). "reduced_precision" (bytes, may be
    None or missing): the model's metadata of that name. "rounds_once" (may be missing): whether it
    is known that the runtime's FULLY_CONNECTED does.
    """
    return Graph(
        tensors=tuple(_tensor(entry) for entry in snapshot["tensors"]),
        nodes=tuple(_node(entry) for entry in snapshot["nodes"]),
        rounds_once=bool(snapshot.get("rounds_once")),
        reduced_precision=metadata_text(snapshot.get("reduced_precision") or b""),
    )


def _ints(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    shape = _ints(entry["shape"])
    signature = _ints(entry["shape_signature"])
    if entry["allocation_type"] == ALLOCATION_DYNAMIC and not any(d < 0 for d in signature):
        # The shape is known only during Invoke; a signature says so in the file, if at all.
        signature = (-1,) * max(len(shape), 1)
    dtype = _DTYPES.get(int(entry["type"]), DType.OTHER)
    is_sparse = bool(entry["is_sparse"])
    constant, content = None, entry["data"]
    if entry["allocation_type"] in CONSTANT_ALLOCATIONS and content is not None and content.size:
        constant = view_content(content, dtype, shape, is_sparse)
    return Tensor(
        index=int(entry["index"]),
        name=entry["name"] or "",
        shape=shape,
        dtype=dtype,
        quantization=_quantization(entry["quantization"]),
        constant=constant,
        shape_signature=signature,
        is_variable=bool(entry["is_variable"]),
        is_sparse=is_sparse,
        sparsity=_sparsity(entry.get("sparsity")),
    )


def _sparsity(entry: Mapping[str, Any] | None) -> Sparsity | None:
    if entry is None:
        return None
    levels = entry["levels"]
    if any(kind not in (_DENSE_LEVEL, _CSR_LEVEL) for kind, *_ in levels):
        return None
    return Sparsity(
        _ints(entry["traversal_order"]),
        _ints(entry["block_map"]),
        tuple(
            SparseLevel(int(size), kind == _CSR_LEVEL, segments, indices)
            for kind, size, segments, indices in levels
        ),
    )


def _quantization(entry: Mapping[str, Any] | None) -> Quantization | None:
    if entry is None or entry["type"] != AFFINE_QUANTIZATION:
        return None
    scales = tuple(float(s) for s in entry["scale"])
    zero_points = _ints(entry["zero_point"])
    if not scales or len(zero_points) not in (1, len(scales)):
        return None
    if len(zero_points) == 1:
        zero_points *= len(scales)
    return Quantization(scales, zero_points, int(entry["axis"]))


def _node(entry: Mapping[str, Any]) -> Node:
    op = operator_name(int(entry["builtin_code"]), entry["custom_name"] or "")
    options = entry["options"]
    return Node(
        index=int(entry["index"]),
        op=op,
        inputs=_ints(entry["inputs"]),
        outputs=_ints(entry["outputs"]),
        options=None if options is None else RuntimeOptions(options),
        version=int(entry["version"]),
    )
