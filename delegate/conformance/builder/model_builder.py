"""Builds .tflite files in memory: tensors, operators, subgraphs, written with flatbuffers in
milliseconds.

Comes from: calls in the order of the model. Goes to: bytes that a TensorFlow Lite interpreter
loads. The same calls give the same bytes. Nothing is checked against the operators' rules: tests
also need models that break them.
"""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers
import numpy as np
import numpy.typing as npt

from delegate.conformance.builder.options import BuiltinOptions, empty
from delegate.conformance.builder.table_writer import (
    BUFFER_ALIGNMENT_BYTES,
    OperatorSpec,
    SubGraphSpec,
    TensorSpec,
    offset_vector,
    write_buffer,
    write_metadata,
    write_operator_code,
    write_signature,
    write_subgraph,
)
from delegate.model.graph import DType, Quantization
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_operators import BUILTIN_OPERATORS, CUSTOM
from delegate.model.tflite_schema import FILE_IDENTIFIER, SCHEMA_VERSION, ModelSlot

_DTYPES = {kind: dtype for dtype, kind in NUMPY_TYPES.items()}


class ModelBuilder:
    """Collects a model; ``build`` writes it. Indices returned by the methods are those of the
    file."""

    def __init__(self, description: str = "", name: str = "main") -> None:
        self._description = description
        self._subgraphs = [SubGraphSpec(name)]
        self._buffers: list[bytes | None] = [None]  # buffer 0 is empty by the schema's rule
        self._external: dict[int, bytes] = {}
        self._codes: dict[tuple[int, str, int], int] = {}
        self._metadata: list[tuple[str, int]] = []
        self._signatures: list[tuple[str, dict[str, int], dict[str, int], int]] = []

    @property
    def _graph(self) -> SubGraphSpec:
        return self._subgraphs[-1]

    def spec(self, tensor: int) -> TensorSpec:
        """What was given for ``tensor`` of the current subgraph."""
        return self._graph.tensors[tensor]

    def subgraph(self, name: str) -> int:
        """Starts a new subgraph; what follows goes into it."""
        self._subgraphs.append(SubGraphSpec(name))
        return len(self._subgraphs) - 1

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: DType,
        quantization: Quantization | None = None,
        *,
        shape_signature: Sequence[int] = (),
        is_variable: bool = False,
    ) -> int:
        """A tensor without content. Shapes are TFLite's (NHWC)."""
        return self._add_tensor(
            name, tuple(shape), dtype, quantization, 0, tuple(shape_signature), is_variable, False
        )

    def input(
        self,
        name: str,
        shape: Sequence[int],
        dtype: DType,
        quantization: Quantization | None = None,
        *,
        shape_signature: Sequence[int] = (),
    ) -> int:
        """A tensor that is also an input of the subgraph."""
        index = self.tensor(name, shape, dtype, quantization, shape_signature=shape_signature)
        self._graph.inputs += (index,)
        return index

    def output(self, tensor: int) -> None:
        """Makes ``tensor`` an output of the subgraph."""
        self._graph.outputs += (tensor,)

    def constant(
        self,
        name: str,
        values: npt.NDArray[np.generic],
        quantization: Quantization | None = None,
        *,
        dtype: DType | None = None,
        shape: Sequence[int] | None = None,
        is_external: bool = False,
        is_sparse: bool = False,
    ) -> int:
        """A tensor with content. ``dtype`` and ``shape`` override the array's (packed int4,
        sparse).

        ``is_external`` puts the content after the flatbuffer, as models beyond 2 GB do.
        """
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        buffer = len(self._buffers)
        content = np.ascontiguousarray(little).tobytes()
        if is_external:
            self._buffers.append(None)
            self._external[buffer] = content
        else:
            self._buffers.append(content)
        kind = dtype if dtype is not None else _DTYPES[values.dtype]
        dims = tuple(values.shape) if shape is None else tuple(shape)
        return self._add_tensor(name, dims, kind, quantization, buffer, (), False, is_sparse)

    def operator(
        self,
        op: str | int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: BuiltinOptions | None = None,
        *,
        version: int = 1,
        custom_options: bytes = b"",
    ) -> int:
        """An operator. ``op``: builtin name, builtin code, or "CUSTOM:<name>"; -1 in ``inputs`` =
        absent."""
        if isinstance(op, int):
            code, custom = op, ""
        elif op.startswith("CUSTOM:"):
            code, custom = CUSTOM, op.removeprefix("CUSTOM:")
        else:
            code, custom = BUILTIN_OPERATORS.index(op), ""
        index = self._codes.setdefault((code, custom, version), len(self._codes))
        self._graph.operators.append(
            OperatorSpec(index, tuple(inputs), tuple(outputs), options or empty(), custom_options)
        )
        return len(self._graph.operators) - 1

    def metadata(self, name: str, content: bytes) -> None:
        self._buffers.append(content)
        self._metadata.append((name, len(self._buffers) - 1))

    def signature(
        self, key: str, inputs: dict[str, int], outputs: dict[str, int], subgraph: int = 0
    ) -> None:
        self._signatures.append((key, dict(inputs), dict(outputs), subgraph))

    def _add_tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        quantization: Quantization | None,
        buffer: int,
        shape_signature: tuple[int, ...],
        is_variable: bool,
        is_sparse: bool,
    ) -> int:
        self._graph.tensors.append(
            TensorSpec(
                name,
                shape,
                dtype,
                quantization,
                buffer,
                shape_signature,
                is_variable,
                is_sparse,
            )
        )
        return len(self._graph.tensors) - 1

    def build(self) -> bytes:
        """The model's bytes. May be called again after more additions."""
        if not self._external:
            return bytes(self._write({}))
        # Offsets of external buffers are fixed-size fields, so the first pass gives the final size.
        offset = _align(len(self._write(dict.fromkeys(self._external, (1, 2)))))
        places = {}
        for buffer, content in self._external.items():
            places[buffer] = (offset, len(content))
            offset = _align(offset + len(content))
        file = bytearray(self._write(places))
        for buffer, (start, _) in places.items():
            file += bytes(start - len(file)) + self._external[buffer]
        return bytes(file)

    def _write(self, places: dict[int, tuple[int, int]]) -> bytearray:
        size = sum(len(b) for b in self._buffers if b is not None)
        fb = flatbuffers.Builder(size + 4096)
        buffers = [
            write_buffer(fb, content, places.get(i)) for i, content in enumerate(self._buffers)
        ]
        buffer_vector = offset_vector(fb, buffers)
        codes = [write_operator_code(fb, *key) for key in self._codes]
        code_vector = offset_vector(fb, codes)
        graphs = offset_vector(fb, [write_subgraph(fb, g) for g in self._subgraphs])
        metadata = offset_vector(fb, [write_metadata(fb, *m) for m in self._metadata])
        signatures = offset_vector(fb, [write_signature(fb, *s) for s in self._signatures])
        description = fb.CreateString(self._description)

        fb.StartObject(len(ModelSlot))
        fb.PrependUint32Slot(ModelSlot.VERSION, SCHEMA_VERSION, 0)
        fb.PrependUOffsetTRelativeSlot(ModelSlot.OPERATOR_CODES, code_vector, 0)
        fb.PrependUOffsetTRelativeSlot(ModelSlot.SUBGRAPHS, graphs, 0)
        fb.PrependUOffsetTRelativeSlot(ModelSlot.DESCRIPTION, description, 0)
        fb.PrependUOffsetTRelativeSlot(ModelSlot.BUFFERS, buffer_vector, 0)
        if self._metadata:
            fb.PrependUOffsetTRelativeSlot(ModelSlot.METADATA, metadata, 0)
        if self._signatures:
            fb.PrependUOffsetTRelativeSlot(ModelSlot.SIGNATURE_DEFS, signatures, 0)
        fb.Finish(fb.EndObject(), FILE_IDENTIFIER)
        return bytearray(fb.Output())


def _align(offset: int) -> int:
    return -(-offset // BUFFER_ALIGNMENT_BYTES) * BUFFER_ALIGNMENT_BYTES
