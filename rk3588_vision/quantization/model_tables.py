"""Edits of a model's tables that several steps need."""

from __future__ import annotations

from delegate.model.flatbuffer_reader import FlatbufferReader
from delegate.model.flatbuffer_tables import Items, TableValue, bring_inside, read_table, write_file
from delegate.model.graph import REDUCED_PRECISION
from delegate.model.tflite_schema import (
    FILE_IDENTIFIER,
    MODEL,
    BufferSlot,
    MetadataSlot,
    ModelSlot,
    OperatorSlot,
    SignatureSlot,
    SubGraphSlot,
    TensorMapSlot,
    TensorSlot,
)

_TENSOR_LISTS = (OperatorSlot.INPUTS, OperatorSlot.OUTPUTS, OperatorSlot.INTERMEDIATES)
_EDGES = (SubGraphSlot.INPUTS, SubGraphSlot.OUTPUTS)
_ABSENT = -1
_ALIGNMENT_BYTES = 16
_FP16 = b"fp16accfp32"
"""Computed in fp16, summed in float32: what the NPU does."""


def open_tables(content: bytes | memoryview, source: str = "the quantised model") -> TableValue:
    """Return the tables of a file's content, all of it inside. Raises ModelError."""
    reader = FlatbufferReader(memoryview(content), source)
    root = read_table(reader.root(FILE_IDENTIFIER, ".tflite"), MODEL)
    bring_inside(root, memoryview(content))
    return root


def new_buffer(root: TableValue, content: bytes) -> int:
    """Add a buffer and return its number."""
    buffers = root.children(ModelSlot.BUFFERS)
    buffers.append(TableValue({int(BufferSlot.DATA): Items(content, 1, _ALIGNMENT_BYTES)}))
    return len(buffers) - 1


def bearing_fp16(content: bytes) -> bytes:
    """Return the model with the metadata that its float layers may be computed in fp16."""
    root = open_tables(content)
    entries = root.children(ModelSlot.METADATA)
    names = [entry.fields.get(MetadataSlot.NAME) for entry in entries]
    wanted = REDUCED_PRECISION.encode()
    if any(isinstance(name, Items) and bytes(name.content) == wanted for name in names):
        return content
    entry = TableValue()
    entry.set_text(MetadataSlot.NAME, REDUCED_PRECISION)
    entry.set_number(MetadataSlot.BUFFER, new_buffer(root, _FP16), 4)
    root.fields[ModelSlot.METADATA] = [*entries, entry]
    return write_file(root, FILE_IDENTIFIER)


def drop_unused_tensors(root: TableValue, subgraph: TableValue) -> dict[int, int]:
    """Drop tensors that nobody uses any more with their content; return the others' new numbers."""
    operators = subgraph.children(SubGraphSlot.OPERATORS)
    used = {t for edge in _EDGES for t in subgraph.integers(edge)}
    used.update(
        t for operator in operators for slot in _TENSOR_LISTS for t in operator.integers(slot)
    )
    numbers = {old: new for new, old in enumerate(sorted(used - {_ABSENT}))}
    numbers[_ABSENT] = _ABSENT
    tensors = subgraph.children(SubGraphSlot.TENSORS)
    kept = [tensors[old] for old in numbers if old != _ABSENT]
    in_use = {tensor.number(TensorSlot.BUFFER) for tensor in kept}
    for old, tensor in enumerate(tensors):
        buffer = tensor.number(TensorSlot.BUFFER)
        if old not in numbers and buffer not in in_use:
            root.children(ModelSlot.BUFFERS)[buffer].fields.pop(BufferSlot.DATA, None)
    subgraph.fields[SubGraphSlot.TENSORS] = kept
    for operator in operators:
        for slot in _TENSOR_LISTS:
            if slot in operator.fields:
                operator.set_integers(slot, [numbers[old] for old in operator.integers(slot)])
    for edge in _EDGES:
        subgraph.set_integers(edge, [numbers[old] for old in subgraph.integers(edge)])
    _renumber_signatures(root, numbers)
    return numbers


def _renumber_signatures(root: TableValue, numbers: dict[int, int]) -> None:
    for signature in root.children(ModelSlot.SIGNATURE_DEFS):
        for slot in (SignatureSlot.INPUTS, SignatureSlot.OUTPUTS):
            for argument in signature.children(slot):
                old = argument.number(TensorMapSlot.TENSOR_INDEX)
                argument.set_number(TensorMapSlot.TENSOR_INDEX, numbers[old], 4)
