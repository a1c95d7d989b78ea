"""A .tflite file with more outputs: inner tensors that a host wants to read after an inference.

In: the bytes of a model and tensor indices. Out: a copy whose first subgraph lists these tensors
behind its own outputs. The runtimes' own means, ``experimental_preserve_all_tensors``, is not
enough: operators that work in place (ADD, RESHAPE, ... since TensorFlow Lite 2.14) still overwrite
their input then, but never a tensor that is an output of the model.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from delegate.errors import ModelError
from delegate.model.files import MAX_MODEL_BYTES, read_file
from delegate.model.flatbuffer_reader import OFFSET_BYTES, FlatbufferReader
from delegate.model.tflite_reader import read_graph
from delegate.model.tflite_schema import FILE_IDENTIFIER, ModelSlot, SubGraphSlot

_MAX_FILE_BYTES = (1 << 31) - 1  # flatbuffer offsets between tables are limited to this


def expose_tensors(path: Path, indices: Iterable[int]) -> bytes:
    """The content of ``path`` with the tensors ``indices`` as additional outputs, in that order.

    Only the list of outputs changes: it is written anew behind the file's end. Raises ModelError
    for a file that cannot be read or is too large.
    """
    graph = read_graph(path)
    content = bytearray(read_file(path, "file", MAX_MODEL_BYTES, error=ModelError))
    content += bytes(-len(content) % OFFSET_BYTES)
    outputs = list(dict.fromkeys([*graph.outputs, *indices]))
    position = _outputs_field(bytes(content), str(path))
    start = len(content)
    content += struct.pack(f"<I{len(outputs)}i", len(outputs), *outputs)
    if len(content) > _MAX_FILE_BYTES:
        raise ModelError(f"{path}: too large to read inner tensors of")
    struct.pack_into("<I", content, position, start - position)
    return bytes(content)


def _outputs_field(content: bytes, source: str) -> int:
    """Where the first subgraph keeps the offset of its list of outputs."""
    reader = FlatbufferReader(memoryview(content), source)
    root = reader.root(FILE_IDENTIFIER, ".tflite")
    subgraph = next(iter(root.tables(ModelSlot.SUBGRAPHS, "subgraph")))
    position = subgraph.position_of(SubGraphSlot.OUTPUTS, OFFSET_BYTES)
    if not position:
        raise ModelError(f"{source}: the model has no outputs")
    return position
