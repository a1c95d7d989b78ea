"""LiteRT's side of a dispatch library without LiteRT: the tables that it hands over, in ctypes.

Written from the documented interface, as ``native/litert/litert_abi.h`` is; what the real runtime
does is tested with ai-edge-litert itself (``test_litert.py``).
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import delegate
from delegate.compile.aot.dispatch_form import with_ports
from delegate.compile.compiler import compile_model
from delegate.options import Options
from tests.shared_folder import DIGITS

OK, INVALID, FAILED, UNSUPPORTED, NOT_FOUND, WRONG_VERSION = 0, 1, 3, 5, 6, 8
UNSUPPORTED_RUNTIME = 4000
HOST_MEMORY = 1
ML_MODEL = 2
TEXT = 8

POINTER = ctypes.c_void_p
PLACE = ctypes.POINTER(ctypes.c_void_p)
SIZE = ctypes.POINTER(ctypes.c_size_t)


class Header(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_uint16) for n in ("struct_size", "major", "minor", "reserved"))


class Version(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_int32) for n in ("major", "minor", "patch"))


class AnyValue(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("text", ctypes.c_char_p))


class TensorType(ctypes.Structure):
    _fields_ = (
        ("element", ctypes.c_int32),
        ("rank", ctypes.c_uint32),
        ("dimensions", ctypes.c_int32 * 8),
        ("strides", ctypes.c_uint32 * 8),
    )


class MemoryBuffer(ctypes.Structure):
    _fields_ = (
        ("descriptor", ctypes.c_int32),
        ("base", ctypes.c_char_p),
        ("offset", ctypes.c_size_t),
        ("size", ctypes.c_size_t),
        ("file_offset", ctypes.c_size_t),
    )


class Api(ctypes.Structure):
    """The fields that ai-edge-litert 2.3.0 has filled in."""

    _fields_ = (
        ("header", Header),
        ("version", Version),
        ("functions", POINTER),
        ("others", POINTER * 3),
    )


FUNCTIONS = (
    "initialize", "get_vendor_id", "get_build_id", "get_capabilities", "device_create",
    "device_destroy", "get_input_requirements", "get_output_requirements", "register_buffer",
    "unregister_buffer", "invocation_create", "invocation_destroy", "set_scheduling",
    "attach_input", "attach_output", "detach_input", "detach_output", "invoke", "start_metrics",
    "stop_metrics", "get_num_metrics", "get_metric", "destroy_metrics", "check_runtime",
    "set_run_options", "get_hooks",
)  # fmt: skip
TABLE_BYTES = 416
"""A part of the runtime's table in ai-edge-litert 2.3.0."""


def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(delegate.litert_folder()) / "libLiteRtDispatch_rk3588.so"))


def call(function: Any, *arguments: Any) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(function)(*arguments))


@dataclass(eq=False)
class Runtime:
    """A runtime with the table that it hands over. ``folder``: what its environment names.
    ``opaque``: the text of the model's opaque options. ``tensor_bytes``: what it says of buffers'
    tensors, if that is not their size.
    """

    folder: str = ""
    opaque: bytes | None = None
    size: int = TABLE_BYTES
    major: int = 1
    offset: int = 0
    tensor_bytes: int | None = None
    buffers: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    requirements: list[int] = field(default_factory=list)
    locked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = (ctypes.c_uint8 * TABLE_BYTES)()
        Header.from_buffer(self.table).struct_size = self.size
        Header.from_buffer(self.table).major = self.major
        self._keep: list[Any] = []
        self._set(8, self._create_requirements, ctypes.c_int32, POINTER, ctypes.c_size_t,
                  ctypes.c_int32, POINTER, PLACE)  # fmt: skip
        self._set(80, self._get_opaque, POINTER, PLACE)
        self._set(88, self._find_opaque, POINTER, ctypes.c_char_p, PLACE)
        self._set(112, self._value, POINTER, ctypes.c_int32, ctypes.POINTER(AnyValue))
        self._set(200, self._size, POINTER, SIZE)
        self._set(208, self._packed_size, POINTER, SIZE)
        self._set(216, self._offset, POINTER, SIZE)
        self._set(224, self._lock, POINTER, PLACE, ctypes.c_int32)
        self._set(232, self._unlock, POINTER)

    def _set(self, place: int, function: Callable[..., int], *kinds: Any) -> None:
        made = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(function)
        self._keep.append(made)
        pointer = ctypes.cast(made, POINTER).value
        POINTER.from_buffer(self.table, place).value = pointer

    def _create_requirements(
        self, count: int, types: int, size: int, strides: int, _: int, place: Any
    ) -> int:
        assert (count, ctypes.c_int32.from_address(types).value, strides) == (1, HOST_MEMORY, 0)
        self.requirements.append(size)
        place[0] = len(self.requirements)
        return OK

    def _get_opaque(self, options: int, place: Any) -> int:
        place[0] = options
        return OK

    def _find_opaque(self, _: int, identifier: bytes, place: Any) -> int:
        if self.opaque is None or identifier != b"rk3588":
            return NOT_FOUND
        text = ctypes.create_string_buffer(self.opaque)
        self._keep.append(text)
        place[0] = ctypes.addressof(text)
        return OK

    def _value(self, _: int, tag: int, place: Any) -> int:
        if tag != 1 or not self.folder:
            return NOT_FOUND
        place[0].type, place[0].text = TEXT, self.folder.encode()
        return OK

    def _size(self, buffer: int, place: Any) -> int:
        place[0] = self.buffers[buffer - 1].size
        return OK

    def _packed_size(self, buffer: int, place: Any) -> int:
        size = self.buffers[buffer - 1].size
        place[0] = size if self.tensor_bytes is None else self.tensor_bytes
        return OK

    def _offset(self, _: int, place: Any) -> int:
        place[0] = self.offset
        return OK

    def _lock(self, buffer: int, place: Any, _: int) -> int:
        if buffer in self.locked:
            return FAILED  # as LiteRT: a buffer is locked once
        self.locked.append(buffer)
        place[0] = self.buffers[buffer - 1].ctypes.data
        return OK

    def _unlock(self, buffer: int) -> int:
        self.locked.remove(buffer)
        return OK

    def add_buffer(self, content: npt.NDArray[Any]) -> int:
        self.buffers.append(np.frombuffer(content.tobytes(), np.uint8).copy())
        return len(self.buffers)


class Dispatch:
    """A dispatch library as the runtime drives it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._library = library()
        api = Api(Header(ctypes.sizeof(Api), 1))
        assert self._library.LiteRtDispatchGetApi(ctypes.byref(api)) == OK
        pointers = (POINTER * len(FUNCTIONS)).from_address(api.functions or 0)
        self.functions = dict(zip(FUNCTIONS, pointers, strict=True))
        self.version = (api.version.major, api.version.minor, api.version.patch)

    def status(self, name: str, *arguments: Any) -> int:
        return call(self.functions[name], *arguments)

    def initialize(self) -> int:
        return self.status("initialize", self.runtime.table, None, POINTER(1))

    def create_device(self) -> tuple[int, int | None]:
        place = POINTER()
        status = self.check_runtime(0, 1) or self.status(
            "device_create", self.runtime.table, POINTER(1), ctypes.byref(place)
        )
        return status, place.value

    def check_runtime(self, major: int, minor: int) -> int:
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, Version, POINTER, POINTER)
        return int(prototype(self.functions["check_runtime"])(Version(major, minor), 1, 1))

    def create_invocation(
        self, device: int, program: bytes, inputs: int, outputs: int, kind: int = ML_MODEL
    ) -> tuple[int, int | None]:
        place = POINTER()
        # As in a file: byte code lies somewhere behind its beginning.
        code = MemoryBuffer(-1, b"\0" * 64 + program, 64, len(program), 0)
        status = self.status(
            "invocation_create", self.runtime.table, POINTER(device), kind, ctypes.byref(code),
            b"partition_0", inputs, outputs, ctypes.byref(place),
        )  # fmt: skip
        return status, place.value

    def require(
        self, side: str, invocation: int, port: int, element: int, shape: Sequence[int]
    ) -> int:
        kind = TensorType(element, len(shape))
        kind.dimensions[: len(shape)] = shape
        return self.status(
            f"get_{side}_requirements", POINTER(invocation), port, ctypes.byref(kind),
            ctypes.byref(POINTER()),
        )  # fmt: skip

    def register(self, device: int, content: npt.NDArray[Any]) -> int:
        handle = ctypes.c_uint64()
        buffer = self.runtime.add_buffer(content)
        arguments = POINTER(device), POINTER(buffer), ctypes.byref(handle)
        assert self.status("register_buffer", *arguments) == OK
        return handle.value

    def attach(self, side: str, invocation: int, port: int, handle: int) -> int:
        return self.status(f"attach_{side}", POINTER(invocation), port, ctypes.c_uint64(handle))


def compiled_digits(chip: str = "rk3588") -> tuple[bytes, tuple[int, ...], tuple[int, ...]]:
    """Return the digits model's program for LiteRT, and the shapes of its input and output."""
    result = compile_model(DIGITS, Options.from_mapping({"chip": chip}))
    (part,) = result.partitions
    program = with_ports(part.program, part.partition.inputs, part.partition.outputs)
    graph = result.graph
    inputs, outputs = (
        graph.tensor(side[0]).shape for side in (part.partition.inputs, part.partition.outputs)
    )
    return program, inputs, outputs
