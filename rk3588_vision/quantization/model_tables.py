"""Edits of a model's tables that several steps need."""

from __future__ import annotations

from delegate.model import tflite_schema as schema
from delegate.model.flatbuffer_reader import FlatbufferReader
from delegate.model.flatbuffer_tables import Items, TableValue, bring_inside, read_table, write_file
from delegate.model.graph import REDUCED_PRECISION

_TENSOR_LISTS = (
    schema.OperatorSlot.INPUTS,
    schema.OperatorSlot.OUTPUTS,
    schema.OperatorSlot.INTERMEDIATES,
)
_EDGES = (schema.SubGraphSlot.INPUTS, schema.SubGraphSlot.OUTPUTS)
_ABSENT = -1
_ALIGNMENT_BYTES = 16
_FP16 = b"fp16accfp32"
"""Computed in fp16, summed in float32: what the NPU does."""


def open_tables(content: bytes | memoryview, source: str = "the quantised model") -> TableValue:
    """Return the tables of a file's content, all of it inside. Raises ModelError."""
    reader = FlatbufferReader(memoryview(content), source)
    root = read_table(reader.root(schema.FILE_IDENTIFIER, ".tflite"), schema.MODEL)
    bring_inside(root, memoryview(content))
    return root


def new_buffer(root: TableValue, content: bytes) -> int:
    """Add a buffer and return its number."""
    buffers = root.children(schema.ModelSlot.BUFFERS)
    buffers.append(TableValue({int(schema.BufferSlot.DATA): Items(content, 1, _ALIGNMENT_BYTES)}))
    return len(buffers) - 1


def bearing_fp16(content: bytes) -> bytes:
    """Return the model with the metadata that its float layers may be computed in fp16."""
    root = open_tables(content)
    entries = root.children(schema.ModelSlot.METADATA)
    names = [entry.fields.get(schema.MetadataSlot.NAME) for entry in entries]
    wanted = REDUCED_PRECISION.encode()
    if any(isinstance(name, Items) and bytes(name.content) == wanted for name in names):
        return content
    entry = TableValue()
    entry.set_text(schema.MetadataSlot.NAME, REDUCED_PRECISION)
    entry.set_number(schema.MetadataSlot.BUFFER, new_buffer(root, _FP16), 4)
    root.fields[schema.ModelSlot.METADATA] = [*entries, entry]
    return write_file(root, schema.FILE_IDENTIFIER)


def drop_unused_tensors(root: TableValue, subgraph: TableValue) -> dict[int, int]:
    """Drop tensors that nobody uses any more with their content; return the others' new numbers."""
    operators = subgraph.children(schema.SubGraphSlot.OPERATORS)
    used = {t for edge in _EDGES for t in subgraph.integers(edge)}
    used.update(
        t for operator in operators for slot in _TENSOR_LISTS for t in operator.integers(slot)
    )
    numbers = {old: new for new, old in enumerate(sorted(used - {_ABSENT}))}
    numbers[_ABSENT] = _ABSENT
    tensors = subgraph.children(schema.SubGraphSlot.TENSORS)
    kept = [tensors[old] for old in numbers if old != _ABSENT]
    in_use = {tensor.number(schema.TensorSlot.BUFFER) for tensor in kept}
    for old, tensor in enumerate(tensors):
        buffer = tensor.number(schema.TensorSlot.BUFFER)
        if old not in numbers and buffer not in in_use:
            root.children(schema.ModelSlot.BUFFERS)[buffer].fields.pop(schema.BufferSlot.DATA, None)
    subgraph.fields[schema.SubGraphSlot.TENSORS] = kept
    for operator in operators:
        for slot in _TENSOR_LISTS:
            if slot in operator.fields:
                operator.set_integers(slot, [numbers[old] for old in operator.integers(slot)])
    for edge in _EDGES:
        subgraph.set_integers(edge, [numbers[old] for old in subgraph.integers(edge)])
    _renumber_signatures(root, numbers)
    return numbers


def _renumber_signatures(root: TableValue, numbers: dict[int, int]) -> None:
    for signature in root.children(schema.ModelSlot.SIGNATURE_DEFS):
        for slot in (schema.SignatureSlot.INPUTS, schema.SignatureSlot.OUTPUTS):
            for argument in signature.children(slot):
                old = argument.number(schema.TensorMapSlot.TENSOR_INDEX)
                argument.set_number(schema.TensorMapSlot.TENSOR_INDEX, numbers[old], 4)
