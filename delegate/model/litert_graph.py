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
from delegate.model.graph import DType
from delegate.model.stored_options import STORED
from delegate.model.tensor_content import dense_bytes
from delegate.model.tflite_operators import CUSTOM, operator_name

_HEADER = struct.Struct("<4H")
_MAJOR: Final = 1
_TABLE_BYTES: Final = 1040
"""How far the functions reach that are used here."""

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
class _Getter:
    """How one option is read: the function's offset and the kind of its result. ``add``: what makes
    of the file's number, which the function gives, that of the runtime's struct.
    """

    offset: int
    kind: type[Any] = ctypes.c_int32
    add: int = 0


def _padding(offset: int) -> _Getter:
    return _Getter(offset, ctypes.c_uint32, add=1)


def _enum(offset: int) -> _Getter:
    return _Getter(offset, ctypes.c_uint32)


def _flag(offset: int) -> _Getter:
    return _Getter(offset, ctypes.c_bool)


def _pool(first: int) -> tuple[_Getter, ...]:
    sizes = (_Getter(offset) for offset in range(first + 8, first + 40, 8))
    return (_padding(first), *sizes, _enum(first + 40))


GETTERS: Mapping[str, tuple[_Getter, ...]] = MappingProxyType(
    {
        "ADD": (_enum(504),),
        "AVERAGE_POOL_2D": _pool(672),
        "BATCH_MATMUL": (_flag(648), _flag(656), _flag(664)),
        "CONCATENATION": (_Getter(576), _enum(584)),
        "CONV_2D": (
            _padding(368), _Getter(376), _Getter(384), _enum(392), _Getter(400), _Getter(408),
        ),
        "DEPTHWISE_CONV_2D": (
            _padding(416), _Getter(424), _Getter(432), _Getter(440), _enum(448), _Getter(456),
            _Getter(464),
        ),
        "DEPTH_TO_SPACE": (_Getter(976),),
        "FULLY_CONNECTED": (_enum(528), _enum(536), _flag(544), _flag(560)),
        "GATHER": (_Getter(848), _Getter(856)),
        "GELU": (_flag(1008),),
        "LEAKY_RELU": (_Getter(768, ctypes.c_float),),
        "MAX_POOL_2D": _pool(720),
        "MEAN": (_flag(600),),
        "MIRROR_PAD": (_Getter(1016, ctypes.c_uint32, add=1),),
        "MUL": (_enum(512),),
        "PACK": (_Getter(816), _Getter(808)),
        "REDUCE_MAX": (_flag(608),),
        "RESIZE_BILINEAR": (_flag(616), _flag(624)),
        "RESIZE_NEAREST_NEIGHBOR": (_flag(632), _flag(640)),
        "SPACE_TO_DEPTH": (_Getter(984),),
        "STRIDED_SLICE": (
            _Getter(304), _Getter(312), _Getter(328), _Getter(336), _Getter(320),
        ),
        "SUB": (_enum(352),),
        "SUM": (_flag(360),),
        "TRANSPOSE_CONV": (_padding(472), _Getter(480), _Getter(488), _enum(496)),
        "UNPACK": (_Getter(840), _Getter(832)),
    }
)  # fmt: skip
"""By operator: where its options are read, in the order of the runtime's struct (``STORED``)."""


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
        snapshot={"tensors": tensors, "nodes": nodes},
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
    view = np.frombuffer(memory, np.uint8)
    view.flags.writeable = False
    return view


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
