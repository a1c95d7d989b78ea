"""Edits of a .tflite file's tables: new ones, and those gone that nobody refers to any more.

Comes from: a file's content, or values by the slots of a table of the schema. Goes to: tables that
``flatbuffer_tables`` writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from delegate.model.flatbuffer_reader import FlatbufferReader
from delegate.model.flatbuffer_tables import Items, TableValue, Value, bring_inside, read_table
from delegate.model.graph import ABSENT
from delegate.model.tflite_schema import (
    FILE_IDENTIFIER,
    MODEL,
    TABLES,
    BufferSlot,
    MetadataSlot,
    ModelSlot,
    OperatorSlot,
    SignatureSlot,
    SubGraphSlot,
    TensorMapSlot,
    TensorSlot,
)

_ALIGNMENT_BYTES: Final = 16  # of the schema's bytes, so that kernels may use vector loads
_EDGES = (SubGraphSlot.INPUTS, SubGraphSlot.OUTPUTS)
_TENSOR_LISTS = (OperatorSlot.INPUTS, OperatorSlot.OUTPUTS, OperatorSlot.INTERMEDIATES)


def open_tables(content: bytes | memoryview, source: str) -> TableValue:
    """Return the tables of a file's content, all of it inside. Raises ModelError."""
    reader = FlatbufferReader(memoryview(content), source)
    root = read_table(reader.root(FILE_IDENTIFIER, ".tflite"), MODEL)
    bring_inside(root, memoryview(content))
    return root


def table(name: str, fields: Mapping[Any, Any]) -> TableValue:
    """The table that the schema calls ``name``. None, and the number 0, are left out."""
    kinds = TABLES[name]
    found = {int(slot): _value(kinds[slot], value) for slot, value in fields.items()}
    return TableValue({slot: value for slot, value in found.items() if value is not None})


def _value(kind: str, value: Any) -> Value | None:
    """``kind``: a word of the schema's rows. Tables are as they are given."""
    size = kind.strip("[]")
    if value is None or not (size.isdigit() or kind in ("text", "bytes")):
        return None if value is None else cast("Value", value)
    if kind == "text":
        return Items(value.encode(), is_text=True)
    if kind == "bytes":
        return Items(value, 1, _ALIGNMENT_BYTES)
    if kind == size:
        return int(value).to_bytes(int(size), "little", signed=value < 0) if value else None
    numbers = np.asarray(value)
    return vector(numbers.astype(f"<{'f' if numbers.dtype.kind == 'f' else 'i'}{size}"))


def vector(numbers: npt.NDArray[Any]) -> Items:
    return Items(numbers.tobytes(), numbers.itemsize, numbers.itemsize)


def new_buffer(root: TableValue, content: bytes) -> int:
    """Add a buffer and return its number."""
    buffers = root.children(ModelSlot.BUFFERS)
    buffers.append(table("Buffer", {BufferSlot.DATA: content}))
    root.fields[ModelSlot.BUFFERS] = buffers
    return len(buffers) - 1


def add_metadata(root: TableValue, name: str, content: bytes) -> None:
    place = new_buffer(root, content)
    entry = table("Metadata", {MetadataSlot.NAME: name, MetadataSlot.BUFFER: place})
    root.fields[ModelSlot.METADATA] = [*root.children(ModelSlot.METADATA), entry]


def in_subgraphs(root: TableValue, slot: int) -> list[TableValue]:
    """The tables that ``slot`` holds, of all subgraphs."""
    return [one for graph in root.children(ModelSlot.SUBGRAPHS) for one in graph.children(slot)]


def _arguments(root: TableValue) -> Iterator[tuple[int, TableValue]]:
    """Yield the arguments of all signatures, with the number of the subgraph."""
    for signature in root.children(ModelSlot.SIGNATURE_DEFS):
        for slot in (SignatureSlot.INPUTS, SignatureSlot.OUTPUTS):
            for argument in signature.children(slot):
                yield signature.number(SignatureSlot.SUBGRAPH_INDEX), argument


def named_tensors(root: TableValue, subgraph: int) -> set[int]:
    """Tensors of ``subgraph`` that signatures name."""
    return {
        argument.number(TensorMapSlot.TENSOR_INDEX)
        for number, argument in _arguments(root)
        if number == subgraph
    }


def drop_tensors(subgraph: TableValue, named: Collection[int]) -> dict[int, int]:
    """Drop the tensors that nobody uses, but for ``named``; return the others' new numbers."""
    operators = subgraph.children(SubGraphSlot.OPERATORS)
    lists: list[tuple[TableValue, int]] = [(subgraph, slot) for slot in _EDGES]
    lists += [(operator, slot) for operator in operators for slot in _TENSOR_LISTS]
    used = set(named).union(*(owner.integers(slot) for owner, slot in lists))
    tensors = subgraph.children(SubGraphSlot.TENSORS)
    numbers = {old: new for new, old in enumerate(sorted(used - {ABSENT}))}
    subgraph.fields[SubGraphSlot.TENSORS] = [tensors[old] for old in numbers]
    numbers[ABSENT] = ABSENT
    for owner, slot in lists:
        if slot in owner.fields:
            owner.set_integers(slot, [numbers[old] for old in owner.integers(slot)])
    return numbers


def drop_unread(root: TableValue, kept: Sequence[Mapping[int, int]]) -> None:
    """Drop what else nobody refers to: operator codes and buffers; let signatures name tensors by
    their new numbers, as ``drop_tensors`` gave them for every subgraph.
    """
    for subgraph, argument in _arguments(root):
        tensor = kept[subgraph][argument.number(TensorMapSlot.TENSOR_INDEX)]
        argument.set_number(TensorMapSlot.TENSOR_INDEX, tensor, 4)
    _drop_codes(root)
    _drop_buffers(root)


def _drop_codes(root: TableValue) -> None:
    operators = in_subgraphs(root, SubGraphSlot.OPERATORS)
    used = sorted({operator.number(OperatorSlot.OPCODE_INDEX) for operator in operators})
    codes = root.children(ModelSlot.OPERATOR_CODES)
    root.fields[ModelSlot.OPERATOR_CODES] = [codes[index] for index in used]
    numbers = {old: new for new, old in enumerate(used)}
    for operator in operators:
        index = operator.number(OperatorSlot.OPCODE_INDEX)
        operator.set_number(OperatorSlot.OPCODE_INDEX, numbers[index], 4)


def _drop_buffers(root: TableValue) -> None:
    """Keeps buffer 0, which stands for "no content", and those that something refers to."""
    buffers = root.children(ModelSlot.BUFFERS)
    tensors, metadata = in_subgraphs(root, SubGraphSlot.TENSORS), root.children(ModelSlot.METADATA)
    owners = [(tensor, int(TensorSlot.BUFFER)) for tensor in tensors]
    owners += [(item, int(MetadataSlot.BUFFER)) for item in metadata]
    listed = root.integers(ModelSlot.METADATA_BUFFER)
    used = {owner.number(slot) for owner, slot in owners}.union(listed, {0})
    kept = [index for index in sorted(used) if 0 <= index < len(buffers)]
    numbers = {old: new for new, old in enumerate(kept)}
    root.fields[ModelSlot.BUFFERS] = [buffers[index] for index in kept]
    for owner, slot in owners:
        owner.set_number(slot, numbers.get(owner.number(slot), 0), 4)
    if listed:
        known = [numbers[index] for index in listed if index in numbers]
        root.set_integers(ModelSlot.METADATA_BUFFER, known)
