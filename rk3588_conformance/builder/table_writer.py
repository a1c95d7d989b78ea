"""The tables of the TensorFlow Lite schema as values of ``delegate.model.flatbuffer_tables``.

Comes from: the specifications below. Goes to: ``TableValue``. What equals the schema's default is
left out, as the converter does; the same calls give the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delegate.model.flatbuffer_tables import TableValue
from delegate.model.graph import DType, Quantization, SparseLevel, Sparsity
from delegate.model.table_edits import table, vector
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


def buffer_table(content: bytes | None, place: tuple[int, int]) -> TableValue:
    """``place``: where content outside of the flatbuffer lies, and its size."""
    offset, size = place
    return table(
        "Buffer", {BufferSlot.DATA: content, BufferSlot.OFFSET: offset, BufferSlot.SIZE: size}
    )


def operator_code_table(code: int, custom: str, version: int) -> TableValue:
    return table(
        "OperatorCode",
        {
            OperatorCodeSlot.DEPRECATED_BUILTIN_CODE: min(code, PLACEHOLDER_FOR_GREATER_OP_CODES),
            OperatorCodeSlot.CUSTOM_CODE: custom or None,
            OperatorCodeSlot.VERSION: None if version == 1 else version,
            OperatorCodeSlot.BUILTIN_CODE: code,
        },
    )


def metadata_table(name: str, buffer: int) -> TableValue:
    return table("Metadata", {MetadataSlot.NAME: name, MetadataSlot.BUFFER: buffer})


def signature_table(
    key: str, inputs: dict[str, int], outputs: dict[str, int], subgraph: int
) -> TableValue:
    given, made = (
        [
            table("TensorMap", {TensorMapSlot.NAME: name, TensorMapSlot.TENSOR_INDEX: tensor})
            for name, tensor in named.items()
        ]
        for named in (inputs, outputs)
    )
    return table(
        "SignatureDef",
        {
            SignatureSlot.INPUTS: given,
            SignatureSlot.OUTPUTS: made,
            SignatureSlot.SIGNATURE_KEY: key,
            SignatureSlot.SUBGRAPH_INDEX: subgraph,
        },
    )


def _quantization_table(quantization: Quantization | None) -> TableValue | None:
    if quantization is None:
        return None
    return table(
        "QuantizationParameters",
        {
            QuantizationSlot.SCALE: np.array(quantization.scales, np.float64),
            QuantizationSlot.ZERO_POINT: quantization.zero_points,
            QuantizationSlot.QUANTIZED_DIMENSION: quantization.axis,
        },
    )


def _sparsity_table(tensor: TensorSpec) -> TableValue | None:
    """An empty table where nobody says which elements there are."""
    sparsity = tensor.sparsity
    if sparsity is None:
        return TableValue() if tensor.is_sparse else None
    return table(
        "SparsityParameters",
        {
            SparsitySlot.TRAVERSAL_ORDER: sparsity.traversal_order,
            SparsitySlot.BLOCK_MAP: [*sparsity.block_map],
            SparsitySlot.LEVELS: [_level_table(level) for level in sparsity.levels],
        },
    )


def _level_table(level: SparseLevel) -> TableValue:
    """Arrays are of int32, uint16 or uint8."""
    kinds = [None if k is None else np.dtype(k) for k in SPARSE_INDICES]
    fields: dict[int, Any] = {
        SparseLevelSlot.FORMAT: SPARSE_FORMATS[level.is_compressed],
        SparseLevelSlot.DENSE_SIZE: level.size,
    }
    for kind, slot, array in (
        (SparseLevelSlot.SEGMENTS_TYPE, SparseLevelSlot.SEGMENTS, level.segments),
        (SparseLevelSlot.INDICES_TYPE, SparseLevelSlot.INDICES, level.indices),
    ):
        if level.is_compressed and array is not None:
            fields |= {kind: kinds.index(array.dtype), slot: TableValue({0: vector(array)})}
    return table("DimensionMetadata", fields)


def _tensor_table(tensor: TensorSpec) -> TableValue:
    return table(
        "Tensor",
        {
            TensorSlot.SHAPE: tensor.shape,
            TensorSlot.TYPE: TENSOR_TYPES.index(tensor.dtype),
            TensorSlot.BUFFER: tensor.buffer,
            TensorSlot.NAME: tensor.name,
            TensorSlot.QUANTIZATION: _quantization_table(tensor.quantization),
            TensorSlot.IS_VARIABLE: tensor.is_variable,
            TensorSlot.SPARSITY: _sparsity_table(tensor),
            TensorSlot.SHAPE_SIGNATURE: tensor.shape_signature or None,
            TensorSlot.HAS_RANK: 1,
        },
    )


def operator_table(
    code: int,
    inputs: Sequence[int],
    outputs: Sequence[int],
    options: BuiltinOptions,
    custom_options: bytes,
) -> TableValue:
    made = TableValue({int(slot): value for slot, value in options.fields.items()})
    return table(
        "Operator",
        {
            OperatorSlot.OPCODE_INDEX: code,
            OperatorSlot.INPUTS: inputs,
            OperatorSlot.OUTPUTS: outputs,
            OperatorSlot.BUILTIN_OPTIONS_TYPE: options.union_type,
            OperatorSlot.BUILTIN_OPTIONS: made if options.union_type else None,
            OperatorSlot.CUSTOM_OPTIONS: custom_options or None,
        },
    )


def subgraph_table(graph: SubGraphSpec) -> TableValue:
    return table(
        "SubGraph",
        {
            SubGraphSlot.TENSORS: [_tensor_table(t) for t in graph.tensors],
            SubGraphSlot.INPUTS: graph.inputs,
            SubGraphSlot.OUTPUTS: graph.outputs,
            SubGraphSlot.OPERATORS: graph.operators,
            SubGraphSlot.NAME: graph.name,
        },
    )
