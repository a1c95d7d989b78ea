"""Content that a .tflite file keeps outside its flatbuffer, as large ones and those of newer
exporters do.

In: the tables of a file and its bytes. Out: the same tables with the content inside, so that they
can be written anew, whatever becomes of the places in the file.
"""

from __future__ import annotations

from delegate.errors import ModelError
from delegate.model.flatbuffer_tables import Items, TableValue
from delegate.model.tflite_schema import BufferSlot, ModelSlot, OperatorSlot, SubGraphSlot

# Operator.large_custom_options_offset and _size: options outside the flatbuffer, for large files.
_LARGE_OPTIONS_OFFSET, _LARGE_OPTIONS_SIZE = 9, 10
_ALIGNMENT_BYTES = 16
_PLACEHOLDER_OFFSET = 1  # see tflite_reader


def bring_inside(root: TableValue, content: memoryview) -> None:
    """Make what the file keeps outside the flatbuffer part of it. Raises ModelError."""
    tables: list[tuple[TableValue, int, int, int]] = [
        (buffer, BufferSlot.OFFSET, BufferSlot.SIZE, BufferSlot.DATA)
        for buffer in root.children(ModelSlot.BUFFERS)
    ]
    tables += [
        (operator, _LARGE_OPTIONS_OFFSET, _LARGE_OPTIONS_SIZE, OperatorSlot.CUSTOM_OPTIONS)
        for subgraph in root.children(ModelSlot.SUBGRAPHS)
        for operator in subgraph.children(SubGraphSlot.OPERATORS)
    ]
    for table, offset_slot, size_slot, target in tables:
        offset, size = table.number(offset_slot), table.number(size_slot)
        table.fields.pop(offset_slot, None)
        table.fields.pop(size_slot, None)
        if offset <= _PLACEHOLDER_OFFSET:
            continue
        if offset + size > len(content):
            raise ModelError(f"corrupt model: {size} bytes at byte {offset} leave the file")
        table.fields[target] = Items(content[offset : offset + size], 1, _ALIGNMENT_BYTES)
