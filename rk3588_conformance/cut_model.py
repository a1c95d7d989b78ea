"""A model taken apart: every operator reads inputs of its own, and every result is an output.

Comes from: the bytes of a .tflite file. Goes to: the bytes of another, with the same operators, in
which nothing that one operator writes reaches another. So the reference kernels say what each
operator gives for any values at its inputs, all in one run. Moves tables only: knows no operator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from delegate.host.delegated import expose_tensors
from delegate.model.flatbuffer_tables import TableValue, write_file
from delegate.model.table_edits import open_tables
from delegate.model.tflite_reader import read_graph
from delegate.model.tflite_schema import ModelSlot, OperatorSlot, SubGraphSlot, TensorSlot


@dataclass(frozen=True)
class CutModel:
    """``inputs``: (tensor of the whole model, its clone here) in the order of the file's inputs.
    ``outputs``: (operator, tensor). Numbers are those of the whole model.
    """

    content: bytes
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]


def parse(content: bytes) -> TableValue:
    """Return the tables of a file, with buffers that lie behind the flatbuffer inside."""
    return open_tables(content, "model")


def cut_model(content: bytes, shapes: Mapping[int, tuple[int, ...]] | None = None) -> CutModel:
    """Takes the first subgraph apart. ``shapes``: of the tensors that are read, else the file's.
    Raises ModelError for a file that cannot be copied.
    """
    root = parse(content)
    graph = root.children(ModelSlot.SUBGRAPHS)[0]
    tensors = graph.children(SubGraphSlot.TENSORS)
    operators = graph.children(SubGraphSlot.OPERATORS)
    changing = set(graph.integers(SubGraphSlot.INPUTS))
    changing |= {t for operator in operators for t in operator.integers(OperatorSlot.OUTPUTS)}
    inputs: list[tuple[int, int]] = []
    outputs: list[tuple[int, int]] = []
    for number, operator in enumerate(operators):
        clones: dict[int, int] = {}
        read = operator.integers(OperatorSlot.INPUTS)
        for tensor in changing.intersection(read):
            clone = TableValue(dict(tensors[tensor].fields))
            clone.set_number(TensorSlot.BUFFER, 0, 4)
            if shapes is not None:
                clone.set_integers(TensorSlot.SHAPE, shapes[tensor])
            clones[tensor] = len(tensors)
            tensors.append(clone)
        inputs += clones.items()
        operator.set_integers(OperatorSlot.INPUTS, [clones.get(t, t) for t in read])
        outputs += ((number, tensor) for tensor in operator.integers(OperatorSlot.OUTPUTS))
    graph.set_integers(SubGraphSlot.INPUTS, [clone for _, clone in inputs])
    graph.set_integers(SubGraphSlot.OUTPUTS, [tensor for _, tensor in outputs])
    root.fields.pop(ModelSlot.SIGNATURE_DEFS, None)
    return CutModel(write_file(root, b"TFL3"), tuple(inputs), tuple(outputs))


def exposed_model(content: bytes, tensors: Iterable[int] | None = None) -> bytes:
    """The model with every tensor that an operator writes, or with ``tensors``, among its outputs,
    behind its own.
    """
    if tensors is None:
        tensors = [tensor for node in read_graph(content).nodes for tensor in node.outputs]
    return expose_tensors(content, tensors)
