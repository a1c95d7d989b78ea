"""The graph that every later stage reads: immutable tensors, nodes and quantisation.

Comes from a .tflite file (``tflite_reader``) or from a running TfLiteContext (``context_reader``);
both give the same types. Goes to ``partition`` and ``lower``. Knows nothing of registers.

Shapes are TFLite's: feature maps NHWC, CONV_2D filters OHWI, DEPTHWISE_CONV_2D filters 1HWO,
FULLY_CONNECTED filters [outputs, inputs]. Constants are read-only NumPy views of the file or of the
runtime's memory: never copied, never written.

A part of a graph that becomes one program.

Whether the nodes of a graph can run as they stand.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.model.tflite_operators import BUILTIN_OPERATORS, CUSTOM

T = TypeVar("T")


class DType(enum.Enum):
    """Element types by name; the value is TfLiteType (lite/core/c/c_api_types.h), which differs
    from the schema's.
    """

    NONE = 0
    FLOAT32 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT16 = 10
    FLOAT64 = 11
    COMPLEX128 = 12
    UINT64 = 13
    RESOURCE = 14
    VARIANT = 15
    UINT32 = 16
    UINT16 = 17
    INT4 = 18
    BFLOAT16 = 19
    OTHER = -1

    @property
    def element(self) -> Element:
        """The type as the NPU's side has it. Raises KeyError for types that it never holds."""
        return _ELEMENTS[self]


_ELEMENTS: Final = MappingProxyType(
    {
        DType.UINT8: Element.UINT8,
        DType.INT8: Element.INT8,
        DType.INT16: Element.INT16,
        DType.INT32: Element.INT32,
        DType.FLOAT16: Element.FP16,
        DType.FLOAT32: Element.FP32,
    }
)


class Padding(enum.Enum):
    """Padding schemes of convolutions (TfLitePadding)."""

    SAME = 1
    VALID = 2


class Activation(enum.Enum):
    """Fused activations (TfLiteFusedActivation)."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5
    SIGMOID = 6


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantisation: real = scale[c] * (q - zero_point[c]) along ``axis``.

    ``scales`` are the float32 values of the file, widened to float (exactly); one entry means per
    tensor. ``zero_points`` has the same length as ``scales`` (a size-1 array of the file is
    broadcast by the readers).
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    @property
    def is_per_channel(self) -> bool:
        return len(self.scales) > 1

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantisation. Raises ValueError on a per-channel one."""
        if len(self.scales) != 1:
            raise ValueError("per-channel quantisation has no single scale")
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantisation. Raises ValueError on a per-channel one."""
        if len(self.zero_points) != 1:
            raise ValueError("per-channel quantisation has no single zero point")
        return self.zero_points[0]


@dataclass(frozen=True, slots=True, eq=False)
class SparseLevel:
    """A level of a sparse tensor: ``size`` positions each, or those that ``indices`` names,
    compressed (CSR). Arrays are integers of any kind.
    """

    size: int
    is_compressed: bool = False
    segments: npt.NDArray[np.generic] = field(default_factory=lambda: np.empty(0, np.int32))
    indices: npt.NDArray[np.generic] = field(default_factory=lambda: np.empty(0, np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Sparsity:
    """The elements that a sparse constant has, as its file says it; ``model.sparsity`` reads it."""

    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[SparseLevel, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor. ``constant`` is a read-only array of ``shape`` (little-endian) or None; flat
    bytes where NumPy has no such array: sparse tensors, int4, bfloat16, strings.

    ``shape_signature`` holds -1 where a dimension is dynamic (empty when the file has none).
    ``sparsity``: of a sparse tensor; None: it has none that this version knows. ``stored_shape``:
    what a host sees, where the compiler computes with another shape. ``is_inner``: a host cannot
    have it, as its elements are others then, or lie in another order.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None = None
    constant: npt.NDArray[np.generic] | None = None
    shape_signature: tuple[int, ...] = ()
    is_variable: bool = False
    is_sparse: bool = False
    sparsity: Sparsity | None = None
    stored_shape: tuple[int, ...] | None = None
    is_inner: bool = False

    @property
    def has_fixed_image(self) -> bool:
        """All dimensions but the first (the batch) are fixed, and the shape is known for now.

        A program is compiled for the batch the tensor has now, and anew after a resize.
        """
        return all(d >= 0 for d in (*self.shape, *self.shape_signature[1:]))


class StoredOptions(Protocol):
    """Options as a node has them, to be read as the class of its operator
    (``model.operator_options``).
    """

    def decode(self, kind: type[T]) -> T | None:
        """Return the decoded options; None: they are missing or hold a value this version does not
        know. Raises ModelError for a corrupt table.
        """


def operator_name(builtin_code: int, custom_name: str) -> str:
    """The name of an operator as ``Node.op`` has it: "CONV_2D", "CUSTOM:<name>", "UNKNOWN_300"."""
    if builtin_code == CUSTOM:
        return f"CUSTOM:{custom_name}"
    if 0 <= builtin_code < len(BUILTIN_OPERATORS):
        return BUILTIN_OPERATORS[builtin_code]
    return f"UNKNOWN_{builtin_code}"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator. ``op`` is the builtin's name ("CONV_2D") or "CUSTOM:<name>"; -1 in
    ``inputs`` = absent. ``given_op``: the file's, where the compiler says it with another one.
    """

    index: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: StoredOptions | None = None
    version: int = 1
    given_op: str = ""

    @property
    def stored_op(self) -> str:
        """Return the operator that the file has."""
        return self.given_op or self.op

    @property
    def custom_name(self) -> str | None:
        """The name of a custom operator; None: it is a builtin."""
        _, separator, name = self.op.partition(":")
        return name if separator else None

    def options_as(self, kind: type[T]) -> T | None:
        """Return the node's options as those of operator class ``kind``; None: missing or
        unknown.
        """
        return None if self.options is None else self.options.decode(kind)

    def known_options(self, kind: type[T]) -> T:
        """Return the options of a node of which the rule ``options_known`` holds."""
        options = self.options_as(kind)
        assert options is not None
        return options


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """One subgraph. ``nodes`` are in execution order; ``Node.index`` is the index Netron and TFLite
    show, which need not be the position in ``nodes``. ``inputs``/``outputs`` are empty for a graph
    read from a context, which does not tell them.

    ``rounds_once``: the reference kernel of FULLY_CONNECTED in the runtime that holds the graph
    multiplies accumulators by a double and rounds once (ai-edge-litert from 1.4 on), not twice in
    integers as that of other runtimes and all other kernels do. Which runtime will hold a file
    nobody knows: False. ``reduced_precision``: what the model's metadata says that it bears, as
    "fp16accfp32"; empty: nothing. ``half``: the NPU computes its float32 feature maps in fp16;
    ``folded``: tensors that nodes compute from constants alone, whose ``constant`` has their
    values, perhaps as float16. ``together``: nodes said in other terms, all of which run on
    the NPU or none, see ``ops.shared.dilations`` and ``regions``.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    name: str = ""
    source: str = ""
    rounds_once: bool = False
    reduced_precision: str = ""
    half: bool = False
    folded: frozenset[int] = frozenset()
    together: tuple[frozenset[int], ...] = ()
    nodes_by_index: Mapping[int, Node] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_index = MappingProxyType({node.index: node for node in self.nodes})
        object.__setattr__(self, "nodes_by_index", by_index)

    def node(self, index: int) -> Node:
        return self.nodes_by_index[index]

    def tensor(self, index: int) -> Tensor:
        return self.tensors[index]


REDUCED_PRECISION = "reduced_precision_support"
"""The metadata of that name is ``Graph.reduced_precision``."""


def metadata_text(content: bytes) -> str:
    """Metadata that is a text, perhaps with zeros behind it."""
    return content.rstrip(b"\0").decode("ascii", errors="replace")


def read_only(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A view of ``array`` that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class Partition:
    """A convex set of nodes that becomes one program and one submit.

    ``nodes``: node indices in execution order. ``inputs``: non-constant tensors it reads from
    outside. ``outputs``: tensors it produces that are read outside or are outputs of the graph.
    ``computed``: nodes beside these that are computed while it is compiled, as shapes are; only
    its ``nodes`` read their results.
    """

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    computed: tuple[int, ...] = ()

    @property
    def delegated(self) -> tuple[int, ...]:
        """All nodes that the program stands for, by index."""
        return tuple(sorted((*self.nodes, *self.computed)))


ABSENT = -1
"""Among the inputs and outputs of a node: none."""


def constant_makers(graph: Graph) -> list[Node]:
    """Return the nodes whose results follow from constants alone, or from one another's, in order.
    They stand in an order in which they can run.
    """
    known = {tensor.index for tensor in graph.tensors if tensor.constant is not None}
    found = []
    for node in graph.nodes:
        if all(tensor in known for tensor in node.inputs if tensor != ABSENT):
            known.update(node.outputs)
            found.append(node)
    return found


def named(tensor: Tensor) -> str:
    """Return how messages call a tensor."""
    return f"tensor {tensor.index} {tensor.name!r}"


def find_disorder(graph: Graph) -> str | None:
    """Say what keeps the nodes from running one after the other as they stand; None: nothing.

    The runtime finds partitions by which results are ready, not by the order of the nodes, and
    writes out of bounds where an output of the model never gets ready.
    """
    done: set[int] = set()
    ends = frozenset(graph.inputs)
    computed = {t for node in graph.nodes for t in node.outputs}
    for node in graph.nodes:
        where = f"node {node.index} ({node.op})"
        for tensor in (graph.tensor(t) for t in node.inputs if t != ABSENT):
            if tensor.index in computed and tensor.index not in done:
                return f"{where} reads {named(tensor)} before it is written"
        for tensor in (graph.tensor(t) for t in node.outputs if t != ABSENT):
            if tensor.index in done:
                return f"{where} writes {named(tensor)} again"
            if tensor.is_variable or tensor.index in ends:
                kind = "a variable" if tensor.is_variable else "an input of the model"
                return f"{where} writes {named(tensor)}, {kind}"
            done.add(tensor.index)
    return None
