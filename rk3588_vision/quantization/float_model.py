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
from delegate.model.flatbuffer_reader import FlatbufferReader
from delegate.model.flatbuffer_tables import Items, TableValue, bring_inside, read_table, write_file
from delegate.model.graph import REDUCED_PRECISION, DType, Graph
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.model.tflite_reader import Model, read_graph, read_model
from delegate.ops import OPERATORS

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
    numbers = drop_unused_tensors(root, subgraph)
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
    signature = TableValue()
    for slot, what, tensors in (
        (schema.SignatureSlot.INPUTS, "input", graph.inputs),
        (schema.SignatureSlot.OUTPUTS, "output", graph.outputs),
    ):
        signature.fields[slot] = [
            _argument(f"{what}_{place}", numbers[t]) for place, t in enumerate(tensors)
        ]
    signature.set_text(schema.SignatureSlot.SIGNATURE_KEY, SIGNATURE)
    root.fields[schema.ModelSlot.SIGNATURE_DEFS] = [signature]


def _argument(name: str, tensor: int) -> TableValue:
    argument = TableValue()
    argument.set_text(schema.TensorMapSlot.NAME, name)
    argument.set_number(schema.TensorMapSlot.TENSOR_INDEX, tensor, 4)
    return argument
