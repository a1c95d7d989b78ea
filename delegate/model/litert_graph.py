"""Reads a graph of LiteRT's compiler interface into the snapshot that ``context_reader`` takes.

Comes from: the addresses of the runtime's table of functions (``CompilerContext``) and of a
subgraph, which a compiler plugin gets. Goes to: the same dictionary that native code fills from an
interpreter, so that one reader serves both. Refuses (``DelegateError``) a table that is too short.

The interface gives no versions of operators, no metadata and no sparsity, and leaves absent inputs
out. It has a function for each option of an operator, not for all: an operator with an option that
has none gets no options, and the rules leave it to the CPU. A sparse constant is one whose bytes
are not those of its shape.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.errors import DelegateError
from delegate.model.context_reader import AFFINE_QUANTIZATION, ALLOCATION_MMAP_RO
from delegate.model.graph import DType, operator_name
from delegate.model.stored_options import STORED
from delegate.model.tensor_content import dense_bytes
from delegate.model.tflite_operators import CUSTOM

_HEADER = struct.Struct("<4H")
_MAJOR: Final = 1
_TABLE_BYTES: Final = 1040
"""The reach of the functions that are used here."""

_ARENA_RW: Final = 2
_OTHER_QUANTIZATION: Final = 2
_MAX_RANK: Final = 8

# Offsets in the table, as the runtime of ai-edge-litert 2.3.0 has them.
_SUBGRAPHS, _SUBGRAPH = 8, 16
_OPS, _OP, _INPUTS, _INPUT, _OUTPUTS, _OUTPUT = 24, 32, 40, 48, 56, 64
_OP_CODE, _CUSTOM_CODE = 72, 80
_OP_INPUTS, _OP_INPUT, _OP_OUTPUTS, _OP_OUTPUT = 88, 96, 104, 112
_NAME, _TYPE_ID, _RANKED_TYPE = 120, 136, 144
_QUANTIZATION_ID, _PER_TENSOR, _PER_CHANNEL = 160, 168, 176
_WEIGHTS, _WEIGHTS_BYTES = 208, 224
_PUSH_OP = 264


class _RankedType(ctypes.Structure):
    _fields_ = (
        ("element", ctypes.c_int32),
        ("rank_and_strides", ctypes.c_uint32),
        ("dimensions", ctypes.c_int32 * _MAX_RANK),
        ("strides", ctypes.c_uint32 * _MAX_RANK),
    )


class _PerTensor(ctypes.Structure):
    _fields_ = (("scale", ctypes.c_float), ("zero_point", ctypes.c_int64))


class _PerChannel(ctypes.Structure):
    _fields_ = (
        ("axis", ctypes.c_int32),
        ("channels", ctypes.c_uint64),
        ("scales", ctypes.POINTER(ctypes.c_float)),
        ("zero_points", ctypes.POINTER(ctypes.c_int64)),
    )


@dataclass(frozen=True, slots=True)
class Getter:
    """The way to read one option: the function's offset and the kind of its result. ``add``: what
    makes of the file's number, which the function gives, that of the runtime's struct.
    """

    offset: int
    kind: type[Any]
    add: int = 0


_KINDS: Final[Mapping[str, tuple[type[Any], int]]] = MappingProxyType(
    {
        "bool": (ctypes.c_bool, 0),
        "enum": (ctypes.c_uint32, 0),
        "enum+1": (ctypes.c_uint32, 1),
        "float": (ctypes.c_float, 0),
        "int": (ctypes.c_int32, 0),
    }
)
"""The words of the table below. Paddings and modes count from 1 in the runtime's structs."""

_FUNCTIONS: Final = """
ADD                      504 enum
AVERAGE_POOL_2D          672 enum+1  680 int  688 int  696 int  704 int  712 enum
BATCH_MATMUL             648 bool  656 bool  664 bool
CONCATENATION            576 int  584 enum
CONV_2D                  368 enum+1  376 int  384 int  392 enum  400 int  408 int
DEPTHWISE_CONV_2D        416 enum+1  424 int  432 int  440 int  448 enum  456 int  464 int
DEPTH_TO_SPACE           976 int
FULLY_CONNECTED          528 enum  536 enum  544 bool  560 bool
GATHER                   848 int  856 int
GELU                     1008 bool
LEAKY_RELU               768 float
MAX_POOL_2D              720 enum+1  728 int  736 int  744 int  752 int  760 enum
MEAN                     600 bool
MIRROR_PAD               1016 enum+1
MUL                      512 enum
PACK                     816 int  808 int
REDUCE_MAX               608 bool
RESIZE_BILINEAR          616 bool  624 bool
RESIZE_NEAREST_NEIGHBOR  632 bool  640 bool
SOFTMAX                  568 float
SPACE_TO_DEPTH           984 int
STRIDED_SLICE            304 int  312 int  328 int  336 int  320 int
SUB                      352 enum
SUM                      360 bool
TRANSPOSE_CONV           472 enum+1  480 int  488 int  496 enum
UNPACK                   840 int  832 int
"""
"""The place of LiteRT's functions for an operator's options in the table, and what they give; in
the order of the runtime's struct (``STORED``).
"""


def _getters(text: str) -> Mapping[str, tuple[Getter, ...]]:
    found = {}
    for name, *words in map(str.split, text.strip().splitlines()):
        pairs = zip(words[::2], words[1::2], strict=True)
        found[name] = tuple(Getter(int(offset), *_KINDS[kind]) for offset, kind in pairs)
    return MappingProxyType(found)


GETTERS: Final = _getters(_FUNCTIONS)
"""By operator: the functions of ``_FUNCTIONS``."""


class CompilerContext:
    """The runtime's table of functions. Raises DelegateError unless it is one of those known."""

    def __init__(self, address: int) -> None:
        size, major, minor, _ = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
        if major != _MAJOR or size < _TABLE_BYTES:
            raise DelegateError(
                f"LiteRT's functions for compilers are version {major}.{minor} of {size} bytes; "
                f"ai-edge-litert 2.3 and later ones of version {_MAJOR} are known"
            )
        self._address = address
        self._functions: dict[int, Callable[..., int]] = {}

    def call(self, offset: int, *arguments: Any) -> int:
        """Call the function at ``offset`` and return its status; 0 is success."""
        function = self._functions.get(offset)
        if function is None:
            pointer = ctypes.c_void_p.from_address(self._address + offset).value
            if not pointer:
                raise DelegateError(f"LiteRT has no function at {offset} of its table")
            kind = ctypes.CFUNCTYPE(ctypes.c_int32)
            function = self._functions[offset] = kind(pointer)
        return function(*arguments)

    def get(self, offset: int, kind: type[Any], *arguments: Any) -> Any:
        """Return what the function stores behind its last argument. Raises DelegateError."""
        place = kind()
        status = self.call(offset, *arguments, ctypes.byref(place))
        if status != 0:
            raise DelegateError(f"LiteRT's function at {offset} of its table fails ({status})")
        return place.value if isinstance(place, ctypes._SimpleCData) else place

    def handles(self, count: int, item: int, owner: ctypes.c_void_p) -> list[int]:
        """Return the addresses of all items of ``owner``, by the functions that count and give."""
        total = self.get(count, ctypes.c_size_t, owner)
        return [
            self.get(item, ctypes.c_void_p, owner, ctypes.c_size_t(index)) or 0
            for index in range(total)
        ]

    def subgraphs(self, model: int) -> list[int]:
        """Return the addresses of a model's subgraphs."""
        return self.handles(_SUBGRAPHS, _SUBGRAPH, ctypes.c_void_p(model))

    def push_op(self, selected: int, op: int, partition: int) -> None:
        """Put an operator on the list of those for the accelerator. Raises DelegateError."""
        arguments = ctypes.c_void_p(selected), ctypes.c_void_p(op), ctypes.c_size_t(partition)
        if self.call(_PUSH_OP, *arguments) != 0:
            raise DelegateError("LiteRT takes no operator for the accelerator")


@dataclass(frozen=True, slots=True, eq=False)
class LiteRtSubgraph:
    """A subgraph as numbers: ``snapshot`` is what ``context_reader`` takes, ``ops`` are the
    addresses of its nodes, in order; ``inputs`` and ``outputs`` are tensors.
    """

    snapshot: Mapping[str, Any]
    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: frozenset[int]


def read_subgraph(context: CompilerContext, address: int) -> LiteRtSubgraph:
    """Read a subgraph. Tensors are numbered as they are met. Raises DelegateError."""
    owner = ctypes.c_void_p(address)
    reader = _Tensors(context)
    inputs = reader.numbers(context.handles(_INPUTS, _INPUT, owner))
    ops = context.handles(_OPS, _OP, owner)
    nodes = [_node(context, index, op, reader) for index, op in enumerate(ops)]
    outputs = reader.numbers(context.handles(_OUTPUTS, _OUTPUT, owner))
    written = {tensor for node in nodes for tensor in node["outputs"]}
    tensors = [_tensor(context, index, handle) for handle, index in reader.known.items()]
    for tensor in tensors:
        # What nobody writes or gives is kept from one inference to the next.
        is_given = tensor["index"] in written or tensor["index"] in inputs
        tensor["is_variable"] = tensor["data"] is None and not is_given
    return LiteRtSubgraph(
        # As all kernels of LiteRT 2; Graph says of what.
        snapshot={"tensors": tensors, "nodes": nodes, "rounds_once": True},
        ops=tuple(ops),
        inputs=inputs,
        outputs=outputs,
        constants=frozenset(t["index"] for t in tensors if t["data"] is not None),
    )


@dataclass(slots=True)
class _Tensors:
    """The tensors met so far by address, with their numbers."""

    context: CompilerContext
    known: dict[int, int] = field(default_factory=dict)

    def numbers(self, handles: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.known.setdefault(handle, len(self.known)) for handle in handles)


def _node(context: CompilerContext, index: int, op: int, tensors: _Tensors) -> dict[str, Any]:
    owner = ctypes.c_void_p(op)
    code = context.get(_OP_CODE, ctypes.c_int32, owner)
    custom = context.get(_CUSTOM_CODE, ctypes.c_char_p, owner) if code == CUSTOM else b""
    return {
        "index": index,
        "builtin_code": code,
        "custom_name": (custom or b"").decode("utf-8", errors="backslashreplace"),
        "version": 1,
        "inputs": tensors.numbers(context.handles(_OP_INPUTS, _OP_INPUT, owner)),
        "outputs": tensors.numbers(context.handles(_OP_OUTPUTS, _OP_OUTPUT, owner)),
        "options": _options(context, operator_name(code, ""), owner),
    }


def _options(context: CompilerContext, name: str, op: ctypes.c_void_p) -> bytes | None:
    """Return an operator's options as the runtime's struct has them; None: it has none, or the
    interface does not give them.
    """
    spans = STORED.get(name, ())
    if not spans:
        return b""
    getters = GETTERS.get(name, ())
    if len(getters) != len(spans):
        return None
    content = bytearray(max(offset + size for offset, size in spans))
    for (offset, size), getter in zip(spans, getters, strict=True):
        place = getter.kind()
        if context.call(getter.offset, op, ctypes.byref(place)) != 0:
            return None
        stored = getter.kind(place.value + getter.add) if getter.add else place
        content[offset : offset + size] = bytes(stored)
    return bytes(content)


def _tensor(context: CompilerContext, index: int, handle: int) -> dict[str, Any]:
    owner = ctypes.c_void_p(handle)
    name = context.get(_NAME, ctypes.c_char_p, owner) or b""
    number, shape, signature = _type(context, owner)
    data = _content(context, owner)
    try:
        expected = dense_bytes(DType(number), shape)
    except ValueError:
        expected = None
    is_sparse = data is not None and expected is not None and data.size != expected
    return {
        "index": index,
        "name": name.decode("utf-8", errors="backslashreplace"),
        "type": number,
        "shape": shape,
        "shape_signature": signature,
        "allocation_type": _ARENA_RW if data is None else ALLOCATION_MMAP_RO,
        "is_variable": False,
        "is_sparse": is_sparse,
        "sparsity": None,
        "quantization": _quantization(context, owner),
        "data": data,
    }


def _type(
    context: CompilerContext, tensor: ctypes.c_void_p
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return a tensor's element type, its shape and its signature. A dynamic batch is 1 until the
    model is resized, as in the files that converters write; other dynamic dimensions stay -1.
    """
    if context.get(_TYPE_ID, ctypes.c_int32, tensor) != 0:
        return DType.OTHER.value, (-1,), (-1,)
    found = context.get(_RANKED_TYPE, _RankedType, tensor)
    rank = min(found.rank_and_strides & 0x7F, _MAX_RANK)
    signature = tuple(max(d, -1) for d in found.dimensions[:rank])
    is_dynamic = any(d < 0 for d in signature)
    shape = (1, *signature[1:]) if signature[:1] == (-1,) else signature
    return int(found.element), shape, signature if is_dynamic else ()


def _content(context: CompilerContext, tensor: ctypes.c_void_p) -> npt.NDArray[np.uint8] | None:
    """Return the bytes of a constant, in the runtime's memory; None: it is none."""
    weights = context.get(_WEIGHTS, ctypes.c_void_p, tensor)
    if not weights:
        return None
    address, size = ctypes.c_void_p(), ctypes.c_size_t()
    arguments = ctypes.c_void_p(weights), ctypes.byref(address), ctypes.byref(size)
    if context.call(_WEIGHTS_BYTES, *arguments) != 0 or not address.value or not size.value:
        return None
    memory = (ctypes.c_uint8 * size.value).from_address(address.value)
    return np.frombuffer(memoryview(memory).toreadonly(), np.uint8)


def _quantization(context: CompilerContext, tensor: ctypes.c_void_p) -> dict[str, Any] | None:
    kind = context.get(_QUANTIZATION_ID, ctypes.c_int32, tensor)
    if kind == 0:
        return None
    scales: Sequence[float]
    zero_points: Sequence[int]
    axis = 0
    if kind == 1:
        one = context.get(_PER_TENSOR, _PerTensor, tensor)
        scales, zero_points = [one.scale], [one.zero_point]
    elif kind == 2:
        all_ = context.get(_PER_CHANNEL, _PerChannel, tensor)
        scales, zero_points = all_.scales[: all_.channels], all_.zero_points[: all_.channels]
        axis = all_.axis
    else:
        return {"type": _OTHER_QUANTIZATION}
    limits = np.iinfo(np.int32)
    if not all(limits.min <= zero_point <= limits.max for zero_point in zero_points):
        return {"type": _OTHER_QUANTIZATION}
    return {
        "type": AFFINE_QUANTIZATION,
        "scale": scales,
        "zero_point": zero_points,
        "axis": axis,
    }
