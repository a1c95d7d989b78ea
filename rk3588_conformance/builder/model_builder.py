"""Builds .tflite files in memory: tensors, operators, subgraphs, written in milliseconds.

Comes from: calls in the order of the model. Goes to: bytes that a TensorFlow Lite interpreter
loads. The same calls give the same bytes. Nothing is checked against the operators' rules: tests
also need models that break them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.flatbuffer_tables import TableValue, write_file
from delegate.model.graph import DType, Quantization, Sparsity
from delegate.model.operator_options import Options
from delegate.model.table_edits import table
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_operators import BUILTIN_OPERATORS, CUSTOM
from delegate.model.tflite_schema import FILE_IDENTIFIER, MODEL, SCHEMA_VERSION, ModelSlot
from rk3588_conformance.builder import table_writer as tables
from rk3588_conformance.builder.options import BuiltinOptions, of

NO_NUMBERS: Mapping[str, Any] = MappingProxyType({})
_DTYPES = {kind: dtype for dtype, kind in NUMPY_TYPES.items()}


class ModelBuilder:
    """Collects a model; ``build`` writes it. Indices returned by the methods are those of the
    file."""

    def __init__(
        self,
        description: str = "",
        rng: np.random.Generator | None = None,
        *,
        name: str = "main",
    ) -> None:
        """``rng`` draws the numbers that nobody gives; None: one that is always the same."""
        self.rng = rng or np.random.default_rng(0)
        self._description = description
        self._subgraphs = [tables.SubGraphSpec(name)]
        self._buffers: list[bytes | None] = [None]  # buffer 0 is empty by the schema's rule
        self._external: dict[int, bytes] = {}
        self._codes: dict[tuple[int, str, int], int] = {}
        self._metadata: list[TableValue] = []
        self._signatures: list[TableValue] = []

    @property
    def _graph(self) -> tables.SubGraphSpec:
        return self._subgraphs[-1]

    def spec(self, tensor: int) -> tables.TensorSpec:
        """Return what was given for ``tensor`` of the current subgraph."""
        return self._graph.tensors[tensor]

    def scaling(self, tensor: int) -> Quantization:
        """Return the quantisation of ``tensor``, which has one."""
        found = self.spec(tensor).quantization
        assert found is not None, "a quantised layer needs a quantised input"
        return found

    def subgraph(self, name: str) -> int:
        """Starts a new subgraph; what follows goes into it."""
        self._subgraphs.append(tables.SubGraphSpec(name))
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
        given = tables.TensorSpec(name, tuple(shape), dtype, quantization, is_variable=is_variable)
        given.shape_signature = tuple(shape_signature)
        return self._add(given)

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
        sparsity: Sparsity | None = None,
    ) -> int:
        """A tensor with content. ``dtype`` and ``shape`` override the array's (packed int4,
        sparse).

        ``sparsity`` says which elements of a sparse constant ``values`` are, in the tree's order.
        ``is_external`` puts the content after the flatbuffer, as models beyond 2 GB do.
        """
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        buffer = len(self._buffers)
        content = np.ascontiguousarray(little).tobytes()
        self._buffers.append(None if is_external else content)
        if is_external:
            self._external[buffer] = content
        kind = dtype if dtype is not None else _DTYPES[values.dtype]
        dims = tuple(values.shape if shape is None else shape)
        how: dict[str, Any] = {"buffer": buffer, "is_sparse": is_sparse, "sparsity": sparsity}
        return self._add(tables.TensorSpec(name, dims, kind, quantization, **how))

    def operator(
        self,
        op: str | int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Options | BuiltinOptions | None = None,
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
            tables.operator_table(index, inputs, outputs, of(options), custom_options)
        )
        return len(self._graph.operators) - 1

    def result(
        self,
        op: str,
        operands: Sequence[int],
        name: str,
        shape: Sequence[int] | None = None,
        quantization: Quantization | None = None,
        *,
        dtype: DType | None = None,
        options: Options | BuiltinOptions | None = None,
        numbers: Mapping[str, Any] = NO_NUMBERS,
        version: int = 1,
    ) -> int:
        """The one result of an operator, which is called ``name``. Shape, type and quantisation are
        the first operand's unless given. ``numbers``: int32 constants that are operands behind the
        others.
        """
        first = self.spec(operands[0])
        kind, scaling = dtype or first.dtype, quantization or first.quantization
        result = self.tensor(name, first.shape if shape is None else shape, kind, scaling)
        constants = [
            self.constant(f"{name}/{what}", np.array(values, np.int32))
            for what, values in numbers.items()
        ]
        self.operator(op, (*operands, *constants), (result,), options, version=version)
        return result

    def metadata(self, name: str, content: bytes) -> None:
        self._buffers.append(content)
        self._metadata.append(tables.metadata_table(name, len(self._buffers) - 1))

    def signature(
        self, key: str, inputs: dict[str, int], outputs: dict[str, int], subgraph: int = 0
    ) -> None:
        self._signatures.append(tables.signature_table(key, inputs, outputs, subgraph))

    def _add(self, tensor: tables.TensorSpec) -> int:
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def build(self, *outputs: int) -> bytes:
        """The model's bytes, with ``outputs`` behind those that it has. May be called again after
        more additions.
        """
        for tensor in outputs:
            self.output(tensor)
        if not self._external:
            return self._write({})
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

    def _write(self, places: dict[int, tuple[int, int]]) -> bytes:
        buffers = [
            tables.buffer_table(content, places.get(i, (0, 0)))
            for i, content in enumerate(self._buffers)
        ]
        root = table(
            MODEL,
            {
                ModelSlot.VERSION: SCHEMA_VERSION,
                ModelSlot.OPERATOR_CODES: [tables.operator_code_table(*key) for key in self._codes],
                ModelSlot.SUBGRAPHS: [tables.subgraph_table(graph) for graph in self._subgraphs],
                ModelSlot.DESCRIPTION: self._description,
                ModelSlot.BUFFERS: buffers,
                ModelSlot.METADATA: self._metadata or None,
                ModelSlot.SIGNATURE_DEFS: self._signatures or None,
            },
        )
        return write_file(root, FILE_IDENTIFIER)


def _align(offset: int) -> int:
    return -(-offset // tables.BUFFER_ALIGNMENT_BYTES) * tables.BUFFER_ALIGNMENT_BYTES
