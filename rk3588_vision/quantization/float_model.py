"""A float .tflite model made ready for the quantiser, and edits of tables for other steps.

In: a file that takes one picture. Out: the same model with constants as float32 (weights stored as
float16 and sparse weights are folded), with one name per tensor, with a signature, and with
operator codes as newer readers expect them. Refuses what cannot be quantised: quantised models,
models compiled ahead of time, control flow, inputs of another type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from delegate.errors import ModelError
from delegate.model import tflite_schema as schema
from delegate.model.flatbuffer_tables import Items, TableValue, write_file
from delegate.model.graph import REDUCED_PRECISION, DType, Graph
from delegate.model.table_edits import (
    add_metadata,
    drop_tensors,
    drop_unread,
    named_tensors,
    new_buffer,
    open_tables,
    table,
)
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_reader import Model, read_graph, read_model
from delegate.ops import OPERATORS

MADE = "the quantised model"
_FP16 = b"fp16accfp32"
"""Computed in fp16, summed in float32: what the NPU does."""


def bearing_fp16(content: bytes) -> bytes:
    """Return the model with the metadata that its float layers may be computed in fp16."""
    root = open_tables(content, MADE)
    entries = root.children(schema.ModelSlot.METADATA)
    names = [entry.fields.get(schema.MetadataSlot.NAME) for entry in entries]
    wanted = REDUCED_PRECISION.encode()
    if any(isinstance(name, Items) and bytes(name.content) == wanted for name in names):
        return content
    add_metadata(root, REDUCED_PRECISION, _FP16)
    return write_file(root, schema.FILE_IDENTIFIER)


def drop_unused(root: TableValue, subgraph: TableValue) -> dict[int, int]:
    """Drop what nobody uses of a model with one subgraph; return the tensors' new numbers."""
    numbers = drop_tensors(subgraph, named_tensors(root, 0))
    drop_unread(root, [numbers])
    return numbers


SIGNATURE = "serving_default"
_COMPILED = "rk3588-npu"
_INTEGERS = frozenset({DType.INT4, DType.INT8, DType.UINT8, DType.INT16})


@dataclass(frozen=True, slots=True, eq=False)
class FloatModel:
    """A float model as the quantiser takes it. ``graph`` is read from ``content``."""

    source: Path
    content: bytes
    graph: Graph

    @classmethod
    def read(cls, path: Path) -> FloatModel:
        """Read and prepare a file. Raises ModelError for a model that cannot be quantised."""
        model = read_model(path)
        _check(path, model)
        content = _prepared(model)
        return cls(path, content, read_graph(content))

    def activations(self) -> list[int]:
        """Return the float32 tensors that inputs and operators give, in the order of execution."""
        given = [*self.graph.inputs, *(t for node in self.graph.nodes for t in node.outputs)]
        return [t for t in given if t >= 0 and self.graph.tensor(t).dtype is DType.FLOAT32]


def _check(path: Path, model: Model) -> None:
    graph = model.subgraphs[0]
    if any(node.custom_name == _COMPILED for node in graph.nodes):
        raise ModelError(f"{path}: was compiled for the NPU already; give the float model")
    if len(model.subgraphs) > 1:
        raise ModelError(
            f"{path}: has {len(model.subgraphs)} subgraphs (loops or branches), which cannot be "
            "quantised; export the model without control flow"
        )
    for tensor in graph.tensors:
        if tensor.quantization is not None and tensor.dtype in _INTEGERS:
            raise ModelError(
                f"{path}: is quantised already (tensor {tensor.index} {tensor.name!r} is "
                f"{tensor.dtype.name.lower()}); give the float model that it was made from"
            )
    if len(graph.inputs) != 1:
        raise ModelError(
            f"{path}: has {len(graph.inputs)} inputs; calibration by pictures needs one"
        )
    entry = graph.tensor(graph.inputs[0])
    if entry.dtype is not DType.FLOAT32:
        raise ModelError(
            f"{path}: its input {entry.name!r} is {entry.dtype.name.lower()}, not float32"
        )


def _prepared(model: Model) -> bytes:
    root = open_tables(model.content, model.source)
    _name_codes(root)
    graph, subgraph = model.subgraphs[0], root.children(schema.ModelSlot.SUBGRAPHS)[0]
    folded = _fold(root, subgraph, graph)
    operators = subgraph.children(schema.SubGraphSlot.OPERATORS)
    subgraph.fields[schema.SubGraphSlot.OPERATORS] = [
        operator
        for node, operator in zip(graph.nodes, operators, strict=True)
        if node.index not in folded
    ]
    numbers = drop_unused(root, subgraph)
    _name_tensors(subgraph)
    if not model.signatures:
        _sign(root, graph, numbers)
    return write_file(root, schema.FILE_IDENTIFIER)


def _name_codes(root: TableValue) -> None:
    """Fill the 32-bit operator code, which files from before 2020 lack: the quantiser reads no
    other.
    """
    for code in root.children(schema.ModelSlot.OPERATOR_CODES):
        old = code.number(schema.OperatorCodeSlot.DEPRECATED_BUILTIN_CODE)
        new = code.number(schema.OperatorCodeSlot.BUILTIN_CODE)
        code.set_number(schema.OperatorCodeSlot.BUILTIN_CODE, max(old, new), 4)


def _fold(root: TableValue, subgraph: TableValue, graph: Graph) -> set[int]:
    """Store what nodes compute from stored weights alone; return these nodes."""
    tables = subgraph.children(schema.SubGraphSlot.TENSORS)
    tensors = list(graph.tensors)
    folded = set()
    for node in graph.nodes:
        operator = OPERATORS.get(node.op)
        if operator is None or operator.folds is None:
            continue
        values = operator.folds(replace(graph, tensors=tuple(tensors)), node)
        if values is None:
            continue
        target = node.outputs[0]
        tensors[target] = replace(tensors[target], constant=values)
        folded.add(node.index)
        stored = values.astype(NUMPY_TYPES[tensors[target].dtype]).tobytes()
        tables[target].set_number(schema.TensorSlot.BUFFER, new_buffer(root, stored), 4)
    return folded


def _name_tensors(subgraph: TableValue) -> None:
    """Give every tensor a name of its own: the quantiser knows tensors by their names."""
    taken: set[str] = set()
    for number, tensor in enumerate(subgraph.children(schema.SubGraphSlot.TENSORS)):
        stored = tensor.fields.get(schema.TensorSlot.NAME)
        name = bytes(stored.content).decode() if isinstance(stored, Items) else ""
        if not name or name in taken:
            name = f"{name or 'tensor'}_{number}"
            tensor.set_text(schema.TensorSlot.NAME, name)
        taken.add(name)


def _sign(root: TableValue, graph: Graph, numbers: dict[int, int]) -> None:
    """Add a signature: without one, newer runtimes and the quantiser's checks know no entry."""
    given, made = (
        [
            table(
                "TensorMap",
                {
                    schema.TensorMapSlot.NAME: f"{what}_{place}",
                    schema.TensorMapSlot.TENSOR_INDEX: numbers[tensor],
                },
            )
            for place, tensor in enumerate(tensors)
        ]
        for what, tensors in (("input", graph.inputs), ("output", graph.outputs))
    )
    slots = schema.SignatureSlot
    signature = {slots.INPUTS: given, slots.OUTPUTS: made, slots.SIGNATURE_KEY: SIGNATURE}
    root.fields[schema.ModelSlot.SIGNATURE_DEFS] = [table("SignatureDef", signature)]
