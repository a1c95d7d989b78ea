"""The tables of the TensorFlow Lite schema as values of ``delegate.model.flatbuffer_tables``.

Comes from: the specifications below. Goes to: ``TableValue``. What equals the schema's default is
left out, as the converter does; the same calls give the same bytes.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from delegate.model.flatbuffer_tables import Items, TableValue, Value
from delegate.model.graph import DType, Quantization, SparseLevel, Sparsity
from delegate.model.tflite_operators import PLACEHOLDER_FOR_GREATER_OP_CODES
from delegate.model.tflite_schema import (
    SPARSE_FORMATS,
    SPARSE_INDICES,
    TENSOR_TYPES,
    BufferSlot,
    MetadataSlot,
    OperatorCodeSlot,
    OperatorSlot,
    QuantizationSlot,
    SignatureSlot,
    SparseLevelSlot,
    SparsitySlot,
    SubGraphSlot,
    TensorMapSlot,
    TensorSlot,
)
from rk3588_conformance.builder.options import BuiltinOptions

# The schema demands force_align 16 for buffer data, so that kernels may use vector loads.
BUFFER_ALIGNMENT_BYTES = 16


@dataclass(slots=True)
class TensorSpec:
    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None = None
    buffer: int = 0
    shape_signature: tuple[int, ...] = ()
    is_variable: bool = False
    is_sparse: bool = False
    sparsity: Sparsity | None = None


@dataclass(slots=True)
class SubGraphSpec:
    name: str
    tensors: list[TensorSpec] = field(default_factory=list)
    operators: list[TableValue] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


def table_of(fields: Mapping[int, Value | None]) -> TableValue:
    """Return a table without the fields that are None."""
    return TableValue({int(slot): value for slot, value in fields.items() if value is not None})


def number(kind: str, value: int, default: int = 0) -> bytes | None:
    """``value`` in the format ``kind`` of struct; None: the schema's default."""
    return None if value == default else struct.pack(f"<{kind}", value)


def text(value: str) -> Items:
    return Items(value.encode(), is_text=True)


def vector(values: Sequence[float], dtype: str = "<i4") -> Items:
    numbers = np.array(values, dtype)
    return Items(numbers.tobytes(), numbers.itemsize, numbers.itemsize)


def buffer_table(content: bytes | None, place: tuple[int, int]) -> TableValue:
    """``place``: where content outside of the flatbuffer lies, and its size."""
    offset, size = place
    return table_of(
        {
            BufferSlot.DATA: None if content is None else Items(content, 1, BUFFER_ALIGNMENT_BYTES),
            BufferSlot.OFFSET: number("Q", offset),
            BufferSlot.SIZE: number("Q", size),
        }
    )


def operator_code_table(code: int, custom: str, version: int) -> TableValue:
    deprecated = min(code, PLACEHOLDER_FOR_GREATER_OP_CODES)
    return table_of(
        {
            OperatorCodeSlot.DEPRECATED_BUILTIN_CODE: number("b", deprecated),
            OperatorCodeSlot.CUSTOM_CODE: text(custom) if custom else None,
            OperatorCodeSlot.VERSION: number("i", version, 1),
            OperatorCodeSlot.BUILTIN_CODE: number("i", code),
        }
    )


def metadata_table(name: str, buffer: int) -> TableValue:
    return table_of({MetadataSlot.NAME: text(name), MetadataSlot.BUFFER: number("I", buffer)})


def signature_table(
    key: str, inputs: dict[str, int], outputs: dict[str, int], subgraph: int
) -> TableValue:
    def arguments(named: dict[str, int]) -> list[TableValue]:
        return [
            table_of({TensorMapSlot.NAME: text(n), TensorMapSlot.TENSOR_INDEX: number("I", tensor)})
            for n, tensor in named.items()
        ]

    return table_of(
        {
            SignatureSlot.INPUTS: arguments(inputs),
            SignatureSlot.OUTPUTS: arguments(outputs),
            SignatureSlot.SIGNATURE_KEY: text(key),
            SignatureSlot.SUBGRAPH_INDEX: number("I", subgraph),
        }
    )


def _quantization_table(quantization: Quantization | None) -> TableValue | None:
    if quantization is None:
        return None
    return table_of(
        {
            QuantizationSlot.SCALE: vector(quantization.scales, "<f4"),
            QuantizationSlot.ZERO_POINT: vector(quantization.zero_points, "<i8"),
            QuantizationSlot.QUANTIZED_DIMENSION: number("i", quantization.axis),
        }
    )


def _sparsity_table(tensor: TensorSpec) -> TableValue | None:
    """An empty table where nobody says which elements there are."""
    sparsity = tensor.sparsity
    if sparsity is None:
        return TableValue() if tensor.is_sparse else None
    return table_of(
        {
            SparsitySlot.TRAVERSAL_ORDER: vector(sparsity.traversal_order),
            SparsitySlot.BLOCK_MAP: vector(sparsity.block_map),
            SparsitySlot.LEVELS: [_level_table(level) for level in sparsity.levels],
        }
    )


def _level_table(level: SparseLevel) -> TableValue:
    """Arrays are of int32, uint16 or uint8."""
    kinds = [None if k is None else np.dtype(k) for k in SPARSE_INDICES]
    fields: dict[int, Value | None] = {
        SparseLevelSlot.FORMAT: number("b", SPARSE_FORMATS[level.is_compressed]),
        SparseLevelSlot.DENSE_SIZE: number("i", level.size),
    }
    for kind, slot, array in (
        (SparseLevelSlot.SEGMENTS_TYPE, SparseLevelSlot.SEGMENTS, level.segments),
        (SparseLevelSlot.INDICES_TYPE, SparseLevelSlot.INDICES, level.indices),
    ):
        if level.is_compressed and array is not None:
            fields[kind] = number("B", kinds.index(array.dtype))
            fields[slot] = TableValue({0: vector(array.tolist(), array.dtype.str)})
    return table_of(fields)


def _tensor_table(tensor: TensorSpec) -> TableValue:
    signature = tensor.shape_signature
    return table_of(
        {
            TensorSlot.SHAPE: vector(tensor.shape),
            TensorSlot.TYPE: number("b", TENSOR_TYPES.index(tensor.dtype)),
            TensorSlot.BUFFER: number("I", tensor.buffer),
            TensorSlot.NAME: text(tensor.name),
            TensorSlot.QUANTIZATION: _quantization_table(tensor.quantization),
            TensorSlot.IS_VARIABLE: number("B", tensor.is_variable),
            TensorSlot.SPARSITY: _sparsity_table(tensor),
            TensorSlot.SHAPE_SIGNATURE: vector(signature) if signature else None,
            TensorSlot.HAS_RANK: number("B", 1),
        }
    )


def operator_table(
    code: int,
    inputs: Sequence[int],
    outputs: Sequence[int],
    options: BuiltinOptions,
    custom_options: bytes,
) -> TableValue:
    return table_of(
        {
            OperatorSlot.OPCODE_INDEX: number("I", code),
            OperatorSlot.INPUTS: vector(inputs),
            OperatorSlot.OUTPUTS: vector(outputs),
            OperatorSlot.BUILTIN_OPTIONS_TYPE: number("B", options.union_type),
            OperatorSlot.BUILTIN_OPTIONS: table_of(options.fields) if options.union_type else None,
            OperatorSlot.CUSTOM_OPTIONS: Items(custom_options) if custom_options else None,
        }
    )


def subgraph_table(graph: SubGraphSpec) -> TableValue:
    return table_of(
        {
            SubGraphSlot.TENSORS: [_tensor_table(t) for t in graph.tensors],
            SubGraphSlot.INPUTS: vector(graph.inputs),
            SubGraphSlot.OUTPUTS: vector(graph.outputs),
            SubGraphSlot.OPERATORS: graph.operators,
            SubGraphSlot.NAME: text(graph.name),
        }
    )
