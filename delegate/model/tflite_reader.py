"""Reads .tflite files into graphs.

Comes from: a path or the bytes of a file, untrusted. Goes to: ``Model`` (subgraphs, metadata,
signatures) or one ``Graph``. Refuses, with one ``ModelError`` that names the file and what is
wrong: files that are missing, empty, no TFL3 flatbuffer, truncated, or inconsistent where
TensorFlow Lite itself would not load them. Constants are read-only views of the mapped file, never
copies.

A file that is truncated by someone else while it is mapped faults the process, as it does in the
runtime, which maps models the same way.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError
from delegate.model.files import open_plain
from delegate.model.flatbuffer_reader import FlatbufferReader, Table
from delegate.model.graph import (
    ABSENT,
    REDUCED_PRECISION,
    DType,
    Graph,
    Node,
    Quantization,
    Tensor,
    metadata_text,
    operator_name,
)
from delegate.model.operator_options import FileOptions
from delegate.model.tensor_content import (
    MAX_RANK,
    NUMPY_TYPES,
    dense_bytes,
    read_sparsity,
    view_content,
)
from delegate.model.tflite_operators import CUSTOM
from delegate.model.tflite_schema import (
    CUSTOM_DETAILS,
    FILE_IDENTIFIER,
    PLACEHOLDER_OFFSET,
    SCHEMA_VERSION,
    TENSOR_TYPES,
    BufferSlot,
    MetadataSlot,
    ModelSlot,
    OperatorCodeSlot,
    OperatorSlot,
    QuantizationSlot,
    SignatureSlot,
    SubGraphSlot,
    TensorMapSlot,
    TensorSlot,
)

PathOrBytes = str | os.PathLike[str] | bytes | bytearray | memoryview

_INT8 = struct.Struct("<b")
_UINT8 = struct.Struct("<B")
_INT32 = struct.Struct("<i")
_UINT32 = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")

_BYTES = np.dtype("u1")
_INT32S = np.dtype("<i4")
_INT64S = np.dtype("<i8")
_FLOAT32S = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Signature:
    """A named entry point: argument names to tensor indices of ``subgraph``."""

    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A whole file. ``metadata`` values are read-only views; ``content`` is the mapped file."""

    source: str
    description: str
    subgraphs: tuple[Graph, ...]
    metadata: Mapping[str, npt.NDArray[np.generic]]
    signatures: tuple[Signature, ...]
    content: memoryview = field(repr=False)


def read_model(model: PathOrBytes) -> Model:
    """Reads a file (``str`` or path) or its content (bytes). Raises ModelError."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        reader = FlatbufferReader(memoryview(model).cast("B").toreadonly(), "<memory>")
    else:
        path = os.fspath(model)
        reader = FlatbufferReader(_map_file(path), path)
    root = reader.root(FILE_IDENTIFIER, ".tflite")
    version = root.number(ModelSlot.VERSION, _UINT32)
    if version != SCHEMA_VERSION:
        raise reader.fail(f"schema version {version}; only version {SCHEMA_VERSION} is defined")
    buffers = _read_buffers(root)
    codes = [_read_code(t) for t in root.tables(ModelSlot.OPERATOR_CODES, "operator code")]
    metadata: dict[str, npt.NDArray[np.generic]] = {}
    for entry in root.tables(ModelSlot.METADATA, "metadata"):
        buffer = _index(entry, "buffer", entry.number(MetadataSlot.BUFFER, _UINT32), len(buffers))
        metadata[entry.string(MetadataSlot.NAME)] = buffers[buffer]
    says = metadata.get(REDUCED_PRECISION)
    bears = "" if says is None else metadata_text(bytes(says))
    graphs = tuple(
        replace(_read_subgraph(table, buffers, codes), reduced_precision=bears)
        for table in root.tables(ModelSlot.SUBGRAPHS, "subgraph")
    )
    if not graphs:
        raise reader.fail("the model has no subgraph")
    return Model(
        source=reader.source,
        description=root.string(ModelSlot.DESCRIPTION),
        subgraphs=graphs,
        metadata=MappingProxyType(metadata),
        signatures=_read_signatures(root, graphs),
        content=reader.data,
    )


def read_graph(model: PathOrBytes, subgraph: int = 0) -> Graph:
    """One subgraph of a file or of its content. Raises ModelError, also for an index it lacks."""
    read = read_model(model)
    if not 0 <= subgraph < len(read.subgraphs):
        raise ModelError(
            f"{read.source}: no subgraph {subgraph}; the model has {len(read.subgraphs)}"
        )
    return read.subgraphs[subgraph]


def _map_file(path: str) -> memoryview:
    with open_plain(path, error=ModelError) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ModelError(f"{path}: the file is empty")
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise ModelError(f"{path}: the file cannot be read: {error}") from None


_Bytes = npt.NDArray[np.uint8]


def _read_buffers(root: Table) -> list[_Bytes]:
    """Every buffer as bytes: inline ones, and those that lie elsewhere in the file."""
    buffers: list[_Bytes] = []
    for table in root.tables(ModelSlot.BUFFERS, "buffer"):
        offset = table.number(BufferSlot.OFFSET, _UINT64)
        if offset > PLACEHOLDER_OFFSET:
            size = table.number(BufferSlot.SIZE, _UINT64)
            table.reader.check(offset, size, table.where)
            buffers.append(np.asarray(table.reader.data[offset : offset + size]))
        else:
            buffers.append(table.vector(BufferSlot.DATA, _BYTES).view(np.uint8))
    return buffers


_OperatorCode = tuple[str, int]
"""An operator's name and its version."""


def _read_code(table: Table) -> _OperatorCode:
    # Files from before 2020 know only the 8-bit field; newer ones fill both, with 127 in the old
    # one where it is too small. The larger is the code (rule of the public schema).
    old = table.number(OperatorCodeSlot.DEPRECATED_BUILTIN_CODE, _INT8)
    code = max(old, table.number(OperatorCodeSlot.BUILTIN_CODE, _INT32))
    custom = table.string(OperatorCodeSlot.CUSTOM_CODE)
    if code < 0:
        raise table.reader.corrupt(table.where, f"operator code {code}")
    if code == CUSTOM and not custom:
        raise table.reader.corrupt(table.where, "a custom operator without a name")
    version = table.number(OperatorCodeSlot.VERSION, _INT32, default=1)
    return operator_name(code, custom), version


def _read_subgraph(table: Table, buffers: list[_Bytes], codes: list[_OperatorCode]) -> Graph:
    prefix = f"{table.where} "
    tensors = tuple(
        _read_tensor(index, entry, buffers)
        for index, entry in enumerate(table.tables(SubGraphSlot.TENSORS, "tensor", prefix))
    )
    nodes = tuple(
        _read_node(index, entry, codes, len(tensors))
        for index, entry in enumerate(table.tables(SubGraphSlot.OPERATORS, "operator", prefix))
    )
    return Graph(
        tensors=tensors,
        nodes=nodes,
        inputs=_tensor_indices(table, SubGraphSlot.INPUTS, len(tensors), 0),
        outputs=_tensor_indices(table, SubGraphSlot.OUTPUTS, len(tensors), 0),
        name=table.string(SubGraphSlot.NAME),
        source=table.reader.source,
    )


def _tensor_indices(table: Table, slot: int, tensors: int, least: int) -> tuple[int, ...]:
    """Tensor indices from ``least`` (``ABSENT`` where optional tensors may be left out)."""
    indices = table.values(slot, _INT32S)
    return tuple(_index(table, "tensor", index, tensors, least) for index in indices)


def _index(table: Table, what: str, index: int, count: int, least: int = 0) -> int:
    """Return ``index``, which is one of ``what``; its file is corrupt if there are fewer."""
    if not least <= index < count:
        owner = "subgraph" if what == "tensor" else "model"
        raise table.reader.corrupt(
            table.where, f"refers to {what} {index}; the {owner} has {count}"
        )
    return index


def _read_node(index: int, table: Table, codes: list[_OperatorCode], tensors: int) -> Node:
    opcode = table.number(OperatorSlot.OPCODE_INDEX, _UINT32)
    op, version = codes[_index(table, "operator code", opcode, len(codes))]
    options = table.table(OperatorSlot.BUILTIN_OPTIONS, "options")
    union_type = table.number(OperatorSlot.BUILTIN_OPTIONS_TYPE, _UINT8)
    return Node(
        index=index,
        op=op,
        inputs=_tensor_indices(table, OperatorSlot.INPUTS, tensors, ABSENT),
        outputs=_tensor_indices(table, OperatorSlot.OUTPUTS, tensors, ABSENT),
        options=FileOptions(union_type, options),
        version=version,
    )


def _read_tensor(index: int, table: Table, buffers: list[_Bytes]) -> Tensor:
    shape = table.values(TensorSlot.SHAPE, _INT32S)
    if len(shape) > MAX_RANK:
        raise table.reader.corrupt(table.where, f"rank {len(shape)}; the limit is {MAX_RANK}")
    number = table.number(TensorSlot.TYPE, _INT8)
    dtype = TENSOR_TYPES[number] if 0 <= number < len(TENSOR_TYPES) else DType.OTHER
    is_sparse = table.position_of(TensorSlot.SPARSITY, 1) != 0
    buffer = table.number(TensorSlot.BUFFER, _UINT32)
    if buffer:
        _index(table, "buffer", buffer, len(buffers))
    constant = None
    if buffers and buffers[buffer].size:
        constant = view_content(buffers[buffer], dtype, shape, is_sparse)
        if constant is None:
            raise table.reader.corrupt(
                table.where,
                f"a constant of shape {list(shape)} and type {dtype.name} takes "
                f"{dense_bytes(dtype, shape)} bytes, its buffer holds {buffers[buffer].size}",
            )
    return Tensor(
        index=index,
        name=table.string(TensorSlot.NAME),
        shape=shape,
        dtype=dtype,
        quantization=_read_quantization(table, shape),
        constant=constant,
        shape_signature=table.values(TensorSlot.SHAPE_SIGNATURE, _INT32S),
        is_variable=table.number(TensorSlot.IS_VARIABLE, _INT8) != 0,
        is_sparse=is_sparse,
        sparsity=read_sparsity(table) if is_sparse else None,
    )


def _read_quantization(tensor: Table, shape: tuple[int, ...]) -> Quantization | None:
    """Affine quantisation; None where there is none or it is of another kind (blockwise)."""
    table = tensor.table(TensorSlot.QUANTIZATION, "quantization")
    if table is None:
        return None
    if table.number(QuantizationSlot.DETAILS_TYPE, _UINT8) > CUSTOM_DETAILS:
        return None
    scales = table.values(QuantizationSlot.SCALE, _FLOAT32S)
    if not scales:
        return None
    zero_points = table.values(QuantizationSlot.ZERO_POINT, _INT64S)
    if len(zero_points) not in (1, len(scales)):
        raise table.reader.corrupt(
            table.where, f"{len(scales)} scales and {len(zero_points)} zero points"
        )
    limits = np.iinfo(np.int32)
    for zero_point in zero_points:
        if not limits.min <= zero_point <= limits.max:
            raise table.reader.corrupt(table.where, f"zero point {zero_point} exceeds 32 bits")
    axis = table.number(QuantizationSlot.QUANTIZED_DIMENSION, _INT32)
    if len(scales) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scales)):
        raise table.reader.corrupt(
            table.where, f"{len(scales)} scales along axis {axis} of shape {list(shape)}"
        )
    if len(zero_points) == 1:
        zero_points *= len(scales)
    return Quantization(scales, zero_points, axis)


def _read_signatures(root: Table, graphs: tuple[Graph, ...]) -> tuple[Signature, ...]:
    signatures = []
    for table in root.tables(ModelSlot.SIGNATURE_DEFS, "signature"):
        subgraph = table.number(SignatureSlot.SUBGRAPH_INDEX, _UINT32)
        tensors = len(graphs[_index(table, "subgraph", subgraph, len(graphs))].tensors)
        signatures.append(
            Signature(
                key=table.string(SignatureSlot.SIGNATURE_KEY),
                inputs=_read_arguments(table, SignatureSlot.INPUTS, tensors),
                outputs=_read_arguments(table, SignatureSlot.OUTPUTS, tensors),
                subgraph=subgraph,
            )
        )
    return tuple(signatures)


def _read_arguments(signature: Table, slot: int, tensors: int) -> Mapping[str, int]:
    arguments: dict[str, int] = {}
    for table in signature.tables(slot, "argument", f"{signature.where} "):
        tensor = table.number(TensorMapSlot.TENSOR_INDEX, _UINT32)
        arguments[table.string(TensorMapSlot.NAME)] = _index(table, "tensor", tensor, tensors)
    return MappingProxyType(arguments)


def tensor_details(graph: Graph, index: int) -> dict[str, Any]:
    """Return a tensor with the keys of ``Interpreter.get_input_details()`` that this project uses.

    "quantization" is (0.0, 0) where there is none or more than one scale, as the runtimes give it.
    """
    tensor = graph.tensor(index)
    quantization: tuple[float, int] = (0.0, 0)
    if tensor.quantization is not None and not tensor.quantization.is_per_channel:
        quantization = (tensor.quantization.scale, tensor.quantization.zero_point)
    return {
        "name": tensor.name,
        "index": index,
        "shape": tensor.shape,
        "shape_signature": tensor.shape_signature or tensor.shape,
        "dtype": NUMPY_TYPES.get(tensor.dtype, np.dtype(np.object_)).type,
        "quantization": quantization,
    }


def model_details(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Inputs and outputs of the first subgraph of a .tflite file. Raises ModelError."""
    graph = read_graph(path)
    return (
        [tensor_details(graph, index) for index in graph.inputs],
        [tensor_details(graph, index) for index in graph.outputs],
    )
