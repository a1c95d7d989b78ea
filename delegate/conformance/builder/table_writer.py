"""Writes the tables of the TensorFlow Lite schema with the flatbuffers package.

Comes from: the specifications below. Goes to: offsets inside a ``flatbuffers.Builder``. Children
are written before their table, as flatbuffers demands; nothing is deduplicated, so the same calls
give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import flatbuffers
import numpy as np

from delegate.conformance.builder.options import BuiltinOptions, FieldKind
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_operators import PLACEHOLDER_FOR_GREATER_OP_CODES
from delegate.model.tflite_schema import (
    TENSOR_TYPES,
    BufferSlot,
    MetadataSlot,
    OperatorCodeSlot,
    OperatorSlot,
    QuantizationSlot,
    SignatureSlot,
    SubGraphSlot,
    TensorMapSlot,
    TensorSlot,
)

# The schema demands force_align 16 for buffer data, so that kernels may use vector loads.
BUFFER_ALIGNMENT_BYTES = 16


@dataclass(slots=True)
class TensorSpec:
    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None
    buffer: int
    shape_signature: tuple[int, ...]
    is_variable: bool
    is_sparse: bool


@dataclass(slots=True)
class OperatorSpec:
    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: BuiltinOptions
    custom_options: bytes


@dataclass(slots=True)
class SubGraphSpec:
    name: str
    tensors: list[TensorSpec] = field(default_factory=list)
    operators: list[OperatorSpec] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


def offset_vector(fb: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    fb.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        fb.PrependUOffsetTRelative(offset)
    return int(fb.EndVector())


def _int_vector(fb: flatbuffers.Builder, values: Sequence[int], dtype: str = "<i4") -> int:
    return int(fb.CreateNumpyVector(np.array(values, dtype=dtype)))


def write_buffer(
    fb: flatbuffers.Builder, content: bytes | None, place: tuple[int, int] | None
) -> int:
    data = None
    if content is not None:
        fb.StartVector(1, len(content), BUFFER_ALIGNMENT_BYTES)
        fb.head -= len(content)
        fb.Bytes[fb.head : fb.head + len(content)] = content
        data = fb.EndVector()
    fb.StartObject(len(BufferSlot))
    if data is not None:
        fb.PrependUOffsetTRelativeSlot(BufferSlot.DATA, data, 0)
    if place is not None:
        fb.PrependUint64Slot(BufferSlot.OFFSET, place[0], 0)
        fb.PrependUint64Slot(BufferSlot.SIZE, place[1], 0)
    return int(fb.EndObject())


def write_operator_code(fb: flatbuffers.Builder, code: int, custom: str, version: int) -> int:
    name = fb.CreateString(custom) if custom else None
    deprecated = min(code, PLACEHOLDER_FOR_GREATER_OP_CODES)
    fb.StartObject(len(OperatorCodeSlot))
    fb.PrependInt8Slot(OperatorCodeSlot.DEPRECATED_BUILTIN_CODE, deprecated, 0)
    if name is not None:
        fb.PrependUOffsetTRelativeSlot(OperatorCodeSlot.CUSTOM_CODE, name, 0)
    fb.PrependInt32Slot(OperatorCodeSlot.VERSION, version, 1)
    fb.PrependInt32Slot(OperatorCodeSlot.BUILTIN_CODE, code, 0)
    return int(fb.EndObject())


def write_metadata(fb: flatbuffers.Builder, name: str, buffer: int) -> int:
    text = fb.CreateString(name)
    fb.StartObject(len(MetadataSlot))
    fb.PrependUOffsetTRelativeSlot(MetadataSlot.NAME, text, 0)
    fb.PrependUint32Slot(MetadataSlot.BUFFER, buffer, 0)
    return int(fb.EndObject())


def write_tensor_map(fb: flatbuffers.Builder, name: str, tensor: int) -> int:
    text = fb.CreateString(name)
    fb.StartObject(len(TensorMapSlot))
    fb.PrependUOffsetTRelativeSlot(TensorMapSlot.NAME, text, 0)
    fb.PrependUint32Slot(TensorMapSlot.TENSOR_INDEX, tensor, 0)
    return int(fb.EndObject())


def write_signature(
    fb: flatbuffers.Builder,
    key: str,
    inputs: dict[str, int],
    outputs: dict[str, int],
    subgraph: int,
) -> int:
    ins = offset_vector(fb, [write_tensor_map(fb, n, t) for n, t in inputs.items()])
    outs = offset_vector(fb, [write_tensor_map(fb, n, t) for n, t in outputs.items()])
    text = fb.CreateString(key)
    fb.StartObject(max(SignatureSlot) + 1)
    fb.PrependUOffsetTRelativeSlot(SignatureSlot.INPUTS, ins, 0)
    fb.PrependUOffsetTRelativeSlot(SignatureSlot.OUTPUTS, outs, 0)
    fb.PrependUOffsetTRelativeSlot(SignatureSlot.SIGNATURE_KEY, text, 0)
    fb.PrependUint32Slot(SignatureSlot.SUBGRAPH_INDEX, subgraph, 0)
    return int(fb.EndObject())


def write_quantization(fb: flatbuffers.Builder, quantization: Quantization) -> int:
    scale = fb.CreateNumpyVector(np.array(quantization.scales, dtype="<f4"))
    zero_point = _int_vector(fb, quantization.zero_points, "<i8")
    fb.StartObject(len(QuantizationSlot))
    fb.PrependUOffsetTRelativeSlot(QuantizationSlot.SCALE, scale, 0)
    fb.PrependUOffsetTRelativeSlot(QuantizationSlot.ZERO_POINT, zero_point, 0)
    fb.PrependInt32Slot(QuantizationSlot.QUANTIZED_DIMENSION, quantization.axis, 0)
    return int(fb.EndObject())


def write_tensor(fb: flatbuffers.Builder, tensor: TensorSpec) -> int:
    name = fb.CreateString(tensor.name)
    shape = _int_vector(fb, tensor.shape)
    signature = _int_vector(fb, tensor.shape_signature) if tensor.shape_signature else None
    quantization = (
        write_quantization(fb, tensor.quantization) if tensor.quantization is not None else None
    )
    sparsity = None
    if tensor.is_sparse:  # an empty table marks the tensor; nothing here decodes sparse content
        fb.StartObject(0)
        sparsity = fb.EndObject()
    fb.StartObject(len(TensorSlot))
    fb.PrependUOffsetTRelativeSlot(TensorSlot.SHAPE, shape, 0)
    fb.PrependInt8Slot(TensorSlot.TYPE, TENSOR_TYPES.index(tensor.dtype), 0)
    fb.PrependUint32Slot(TensorSlot.BUFFER, tensor.buffer, 0)
    fb.PrependUOffsetTRelativeSlot(TensorSlot.NAME, name, 0)
    if quantization is not None:
        fb.PrependUOffsetTRelativeSlot(TensorSlot.QUANTIZATION, quantization, 0)
    fb.PrependBoolSlot(TensorSlot.IS_VARIABLE, tensor.is_variable, False)
    if sparsity is not None:
        fb.PrependUOffsetTRelativeSlot(TensorSlot.SPARSITY, sparsity, 0)
    if signature is not None:
        fb.PrependUOffsetTRelativeSlot(TensorSlot.SHAPE_SIGNATURE, signature, 0)
    fb.PrependBoolSlot(TensorSlot.HAS_RANK, True, False)
    return int(fb.EndObject())


def write_options(fb: flatbuffers.Builder, options: BuiltinOptions) -> int:
    vectors = {
        f.slot: _int_vector(fb, f.value)
        for f in options.fields
        if f.kind is FieldKind.INT32_VECTOR and isinstance(f.value, Sequence)
    }
    fb.StartObject(max((f.slot for f in options.fields), default=-1) + 1)
    for f in options.fields:
        if f.kind is FieldKind.INT32_VECTOR:
            fb.PrependUOffsetTRelativeSlot(f.slot, vectors[f.slot], 0)
        elif f.kind is FieldKind.INT8:
            fb.PrependInt8Slot(f.slot, f.value, f.default)
        elif f.kind is FieldKind.INT32:
            fb.PrependInt32Slot(f.slot, f.value, f.default)
        elif f.kind is FieldKind.BOOL:
            fb.PrependBoolSlot(f.slot, f.value, f.default)
        else:
            fb.PrependFloat32Slot(f.slot, f.value, f.default)
    return int(fb.EndObject())


def write_operator(fb: flatbuffers.Builder, operator: OperatorSpec) -> int:
    inputs = _int_vector(fb, operator.inputs)
    outputs = _int_vector(fb, operator.outputs)
    custom = fb.CreateByteVector(operator.custom_options) if operator.custom_options else None
    has_options = operator.options.union_type != 0
    options = write_options(fb, operator.options) if has_options else None
    fb.StartObject(len(OperatorSlot))
    fb.PrependUint32Slot(OperatorSlot.OPCODE_INDEX, operator.code, 0)
    fb.PrependUOffsetTRelativeSlot(OperatorSlot.INPUTS, inputs, 0)
    fb.PrependUOffsetTRelativeSlot(OperatorSlot.OUTPUTS, outputs, 0)
    if options is not None:
        union_type = operator.options.union_type
        fb.PrependUint8Slot(OperatorSlot.BUILTIN_OPTIONS_TYPE, union_type, 0)
        fb.PrependUOffsetTRelativeSlot(OperatorSlot.BUILTIN_OPTIONS, options, 0)
    if custom is not None:
        fb.PrependUOffsetTRelativeSlot(OperatorSlot.CUSTOM_OPTIONS, custom, 0)
    return int(fb.EndObject())


def write_subgraph(fb: flatbuffers.Builder, graph: SubGraphSpec) -> int:
    tensors = offset_vector(fb, [write_tensor(fb, t) for t in graph.tensors])
    operators = offset_vector(fb, [write_operator(fb, o) for o in graph.operators])
    inputs = _int_vector(fb, graph.inputs)
    outputs = _int_vector(fb, graph.outputs)
    name = fb.CreateString(graph.name)
    fb.StartObject(len(SubGraphSlot))
    fb.PrependUOffsetTRelativeSlot(SubGraphSlot.TENSORS, tensors, 0)
    fb.PrependUOffsetTRelativeSlot(SubGraphSlot.INPUTS, inputs, 0)
    fb.PrependUOffsetTRelativeSlot(SubGraphSlot.OUTPUTS, outputs, 0)
    fb.PrependUOffsetTRelativeSlot(SubGraphSlot.OPERATORS, operators, 0)
    fb.PrependUOffsetTRelativeSlot(SubGraphSlot.NAME, name, 0)
    return int(fb.EndObject())
