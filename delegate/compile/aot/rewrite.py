"""A .tflite file with every partition replaced by one operator that holds its Program.

Comes from: a .tflite file, untrusted, and options. Goes to: the bytes of a .tflite file in which
each partition is a custom operator ``rk3588-npu`` whose custom options are the serialised Program.
All else is kept: description, metadata, signatures, names, the other operators in an order in which
they can run, and the constants that they or the metadata use. Tensors, buffers and operator codes
that nobody uses any more are dropped and the rest renumbered. Same file and options, same bytes.
For LiteRT's CompiledModel the operators are written otherwise (``dispatch_form``).

The ZIP archive that TensorFlow Lite metadata appends to a model: label files and vocabularies.

Comes from: the bytes of a model. Goes to: the same members behind another model, with the offsets
of their new place. Refuses (``ModelError``) an archive that cannot be read.

Content that a .tflite file keeps outside its flatbuffer, as large ones and those of newer
exporters do.

In: the tables of a file and its bytes. Out: the same tables with the content inside, so that they
can be written anew, whatever becomes of the places in the file.
"""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from delegate.compile.aot.dispatch_form import DISPATCH_OPERATOR, renumber, write_dispatch_file
from delegate.compile.compiler import CompiledPartition, CompileResult, compile_model
from delegate.errors import ModelError
from delegate.model.flatbuffer_tables import Items, TableValue, write_file
from delegate.model.graph import Graph
from delegate.model.table_edits import (
    drop_tensors,
    drop_unread,
    in_subgraphs,
    named_tensors,
    open_tables,
    table,
)
from delegate.model.tflite_operators import CUSTOM
from delegate.model.tflite_reader import Model, PathOrBytes, read_model
from delegate.model.tflite_schema import (
    FILE_IDENTIFIER,
    ModelSlot,
    OperatorCodeSlot,
    OperatorSlot,
    SubGraphSlot,
)
from delegate.npu.program import parse, serialize
from delegate.options import Options
from delegate.partition.partitions import execution_order

OPERATOR_NAME = "rk3588-npu"
"""Custom code of the operators; ``native/tflite/compiled_operator.h`` has the same."""

OPERATOR_VERSION = 1
_COMPILED = (OPERATOR_NAME, DISPATCH_OPERATOR)


@dataclass(frozen=True, slots=True, eq=False)
class AheadOfTime:
    """A rewritten model and what was compiled, one result per subgraph."""

    content: bytes
    results: tuple[CompileResult, ...]


def compile_ahead_of_time(
    source: PathOrBytes, options: Options, *, litert: bool = False
) -> AheadOfTime:
    """Compiles every subgraph of a .tflite file (a path, or its content) and rewrites it.
    ``litert``: for LiteRT's CompiledModel.

    Raises ModelError if the file cannot be read, holds what this version cannot copy, or was
    compiled already.
    """
    model = read_model(source)
    if any(n.custom_name in _COMPILED for g in model.subgraphs for n in g.nodes):
        raise ModelError(
            f"{model.source}: was compiled ahead of time already; give the original model"
        )
    # LiteRT's own kernels are known; of other runtimes nobody knows which will have the file.
    graphs = [dataclasses.replace(graph, rounds_once=litert) for graph in model.subgraphs]
    results = tuple(compile_model(graph, options) for graph in graphs)
    return AheadOfTime(rewrite(model, results, litert=litert), results)


def rewrite(model: Model, results: Sequence[CompileResult], *, litert: bool = False) -> bytes:
    """The file with the partitions of ``results`` (one per subgraph) as operators; ``litert``: in
    the form that LiteRT's CompiledModel takes.
    """
    root = open_tables(model.content, model.source)
    codes = root.children(ModelSlot.OPERATOR_CODES)
    npu_code = len(codes)
    code = _operator_code()
    if any(result.partitions for result in results):
        codes.append(code)
    kept: list[dict[int, int]] = []
    for graph, result in zip(root.children(ModelSlot.SUBGRAPHS), results, strict=True):
        kept.append(_rewrite_subgraph(graph, result, npu_code, named_tensors(root, len(kept))))
    compiled = [
        operator
        for operator in in_subgraphs(root, SubGraphSlot.OPERATORS)
        if operator.number(OperatorSlot.OPCODE_INDEX) == npu_code
    ]
    drop_unread(root, kept)
    if litert and compiled:
        content = write_dispatch_file(root, code, compiled, results[0].chip.name)
    else:
        content = write_file(root, FILE_IDENTIFIER)
    return append_archive(model.content, model.source, content)


def _operator_code() -> TableValue:
    return table(
        "OperatorCode",
        {
            OperatorCodeSlot.DEPRECATED_BUILTIN_CODE: CUSTOM,
            OperatorCodeSlot.CUSTOM_CODE: OPERATOR_NAME,
            OperatorCodeSlot.VERSION: OPERATOR_VERSION,
            OperatorCodeSlot.BUILTIN_CODE: CUSTOM,
        },
    )


def _rewrite_subgraph(
    subgraph: TableValue, result: CompileResult, npu_code: int, named: set[int]
) -> dict[int, int]:
    """Replaces the operators; gives the new number of every tensor that stays."""
    operators = _without_unread(result.graph, named, _ordered_operators(subgraph, result, npu_code))
    subgraph.fields[SubGraphSlot.OPERATORS] = operators
    numbers = drop_tensors(subgraph, named)
    for operator in operators:
        if operator.number(OperatorSlot.OPCODE_INDEX) == npu_code:
            options = operator.fields[OperatorSlot.CUSTOM_OPTIONS]
            assert isinstance(options, Items)
            options.content = serialize(renumber(bytes(options.content), numbers, numbers))
    return numbers


def _ordered_operators(
    subgraph: TableValue, result: CompileResult, npu_code: int
) -> list[TableValue]:
    """The operators that stay and one for every partition, in an order in which they can run."""
    graph: Graph = result.graph
    old = subgraph.children(SubGraphSlot.OPERATORS)
    if not result.partitions:
        return old  # perhaps out of order, which is the runtime's to judge
    compiled = {node: item for item in result.partitions for node in item.partition.delegated}
    operators = []
    parts = [item.partition.delegated for item in result.partitions]
    for nodes in execution_order(graph, compiled, parts):
        item = compiled.get(nodes[0])
        if item is None:
            operators += [old[node] for node in nodes]
        else:
            operators.append(_operator(item, npu_code))
    return operators


def _without_unread(
    graph: Graph, named: set[int], operators: Sequence[TableValue]
) -> list[TableValue]:
    """Return ``operators`` without those that compute only what programs hold as constants."""
    read = named.union(graph.outputs)
    kept = []
    for operator in reversed(operators):
        results = set(operator.integers(OperatorSlot.OUTPUTS))
        if results <= graph.folded and results.isdisjoint(read):
            continue
        read.update(operator.integers(OperatorSlot.INPUTS))
        kept.append(operator)
    return kept[::-1]


def _operator(item: CompiledPartition, npu_code: int) -> TableValue:
    program = parse(item.program)
    # Each once, whatever boxes it has.
    sides = program.inputs, program.outputs
    inputs, outputs = (dict.fromkeys(b.tensor for b in side) for side in sides)
    return table(
        "Operator",
        {
            OperatorSlot.OPCODE_INDEX: npu_code,
            OperatorSlot.INPUTS: [*inputs],
            OperatorSlot.OUTPUTS: [*outputs],
            OperatorSlot.CUSTOM_OPTIONS: item.program,
        },
    )


MAX_UNPACKED_BYTES = 256 << 20
"""The most bytes of all members: label files have some kilobytes; a bomb has more than memory
holds.
"""

_END_RECORD_SIGNATURE = b"PK\x05\x06"
_END_RECORD_SEARCH_BYTES = 22 + (1 << 16)  # the end record and the longest comment


def append_archive(source: memoryview, name: str, model: bytes) -> bytes:
    """``model`` with the members of the archive at the end of ``source`` behind it, if any."""
    if _END_RECORD_SIGNATURE not in bytes(source[-_END_RECORD_SEARCH_BYTES:]):
        return model
    target = io.BytesIO()
    target.write(model)
    try:
        with zipfile.ZipFile(io.BytesIO(source)) as old:
            members = old.infolist()
            if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
                raise ModelError(f"{name}: the archive behind the model unpacks to too many bytes")
            with zipfile.ZipFile(target, "a") as new:
                for member in members:
                    new.writestr(member, old.read(member), member.compress_type)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
        # The signature was chance: an archive that nobody can read carries nothing.
        return model
    return target.getvalue()
