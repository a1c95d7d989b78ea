"""Damaged byte code, options and calls for the libraries of LiteRT, by a stand-in for the runtime.

Cases of ``sanitized_module.py``, whose process has the libraries of a build with sanitizers. What
is wrong must be a status. Nobody hands over pointers that are neither null nor the library's own:
no library can tell those.
"""

import ctypes
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import delegate
from delegate.chip.element import Element
from delegate.compile.aot.dispatch_form import with_ports
from delegate.compile.compiler import compile_model
from delegate.npu.program import parse
from delegate.options import Options
from tests.aot.models import single_operator_model, two_programs_model
from tests.hosts.litert_standin import OK, POINTER, Dispatch, Header, Runtime
from tests.hosts.mutation import damage_and_repair
from tests.shared_folder import DIGITS

TYPES = {Element.UINT8: 3, Element.INT8: 9, Element.FP32: 1}
"""The numbers of TfLiteType."""

CONTEXT_BYTES = 1408
GRAPH_BYTES = 272
COUNTS = (8, 24, 40, 56)
"""Places of the functions that count subgraphs, operators, inputs and outputs."""

OPTIONS = (
    b"device=simulator", b"device=null\nchip=rk3576", b"device", b"device=npu", b"=", b"a" * 70_000,
    b"device=simulator\ncores=all\nlog_level=error", b"\xff\xfe=\x01", b"", b"verify=sample",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Port:
    """A tensor of an operator: the number of its type, its shape and its bytes."""

    kind: int
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Operator:
    """A program for LiteRT, and what the model says of its operator."""

    program: bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def _ports(bindings: Any) -> tuple[Port, ...]:
    by_number = {binding.tensor: binding for binding in bindings}
    found = []
    for number in sorted(by_number):
        binding = by_number[number]
        size = int(np.prod(binding.shape)) * binding.element.bytes
        found.append(Port(TYPES[binding.element], tuple(binding.shape), size))
    return tuple(found)


def operators() -> list[Operator]:
    """Return those of three models."""
    found = []
    for model in (single_operator_model(), two_programs_model(), DIGITS):
        for part in compile_model(model, Options(deny_ops=())).partitions:
            program = with_ports(part.program, part.partition.inputs, part.partition.outputs)
            parsed = parse(program)
            found.append(Operator(program, _ports(parsed.inputs), _ports(parsed.outputs)))
    return found


def run(operator: Operator, program: bytes, rng: random.Random) -> tuple[str, list[bytes]]:
    """Return what happened, and outputs for fixed inputs. ``rng``: other acts of the runtime."""
    dispatch = Dispatch(Runtime(opaque=b"device=simulator\nlog_level=error"))
    if dispatch.initialize() != OK:
        return "refused: the runtime", []
    status, device = dispatch.create_device()
    assert status == OK
    assert device is not None
    counts = len(operator.inputs), len(operator.outputs)
    status, invocation = dispatch.create_invocation(device, program, *counts)
    outputs: list[bytes] = []
    if status == OK and invocation is not None:
        status, outputs = _invoke(dispatch, device, invocation, operator, rng)
        if rng.random() < 0.5:  # LiteRT takes models down in any order
            dispatch.status("invocation_destroy", POINTER(invocation))
            invocation = None
    dispatch.status("device_destroy", POINTER(device))
    if invocation is not None:
        dispatch.status("invocation_destroy", POINTER(invocation))
    return ("ran" if status == OK else f"refused: {status}"), outputs


def _invoke(
    dispatch: Dispatch, device: int, invocation: int, operator: Operator, rng: random.Random
) -> tuple[int, list[bytes]]:
    contents = np.random.default_rng(1)
    failed = OK
    for side, ports in (("input", operator.inputs), ("output", operator.outputs)):
        for number, port in enumerate(ports):
            failed |= dispatch.require(side, invocation, number, port.kind, port.shape)
            content = contents.integers(0, 256, port.size, np.uint8)
            handle = dispatch.register(device, content)
            failed |= dispatch.attach(side, invocation, number, handle)
    if failed != OK:
        return failed, []
    for _ in range(rng.randrange(8)):
        _call_oddly(dispatch, device, invocation, rng)
    count = len(operator.inputs)
    for side, first, ports in (("input", 0, operator.inputs), ("output", count, operator.outputs)):
        for number in range(len(ports)):
            dispatch.attach(side, invocation, number, first + number + 1)
    for _ in range(2):
        if (status := dispatch.status("invoke", POINTER(invocation))) != OK:
            return status, []
    results = dispatch.runtime.buffers[count : count + len(operator.outputs)]
    return OK, [result.tobytes() for result in results]


def _call_oddly(dispatch: Dispatch, device: int, invocation: int, rng: random.Random) -> None:
    """Call a function with arguments that nobody should give."""
    side = rng.choice(("input", "output"))
    port = rng.choice((-(2**31), -1, 0, 1, 2**31 - 1))
    handle = ctypes.c_uint64(rng.choice((0, 1, 2, 3, 99, 2**64 - 1)))
    choice = rng.randrange(6)
    if choice == 0:
        shape = [rng.choice((-1, 0, 1, 2**31 - 1)) for _ in range(rng.randrange(9))]
        dispatch.require(side, invocation, port, rng.choice((0, 1, 3, 9, 255)), shape)
    elif choice == 1:
        dispatch.status(f"attach_{side}", POINTER(invocation), port, handle)
    elif choice == 2:
        dispatch.status(f"detach_{side}", POINTER(invocation), port, handle)
    elif choice == 3:
        small = dispatch.register(device, np.zeros(rng.randrange(1, 40), np.uint8))
        dispatch.attach(side, invocation, port, small)
        dispatch.status("unregister_buffer", POINTER(device), ctypes.c_uint64(small))
    elif choice == 4:
        for name in ("invoke", "invocation_destroy", "device_destroy", "get_vendor_id"):
            dispatch.status(name, None)
    else:
        dispatch.create_invocation(rng.choice((0, 99, device)), b"RKNP", port, 1)


def dispatch_cases(count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Damaged byte code: half of it has checksums that fit, and may compute anything."""
    from tests.hosts.sanitized_module import judged

    originals = operators()
    expected = [run(each, each.program, random.Random(0))[1] for each in originals]
    assert all(expected)

    def damaged(number: int) -> str:
        rng = random.Random(number)
        which = number // 3 % len(originals)
        program = bytearray(originals[which].program)
        kind = number % 3
        if kind == 0:
            damage_and_repair(rng, program)
        elif kind == 1:
            program[rng.randrange(len(program))] ^= rng.randrange(1, 256)
            program = program[: rng.choice((len(program), rng.randrange(len(program))))]
        found = run(originals[which], bytes(program), rng)
        return found[0] if kind == 0 else judged(expected[which], found)

    for number in range(seed, seed + count):
        yield "dispatch", lambda number=number: damaged(number)


class Compiler:
    """A runtime with the table for compiler plugins; functions of operators fail in it."""

    def __init__(self, rng: random.Random) -> None:
        self.table = (ctypes.c_uint8 * CONTEXT_BYTES)()
        header = Header.from_buffer(self.table)
        header.struct_size = rng.choice((CONTEXT_BYTES,) * 6 + (0, 8, 303, 304))
        header.major = rng.choice((1,) * 9 + (2,))
        self._status = rng.choice((1, 3, 5, 6))
        self._text = ctypes.create_string_buffer(rng.choice(OPTIONS))
        fail = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: self._status)
        place = ctypes.POINTER(POINTER)
        none = ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, place)(self._none)
        text = ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, POINTER, place)(self._payload)
        self._keep = (fail, none, text)
        for offset in range(8, CONTEXT_BYTES, 8):
            self._set(offset, fail)
        for offset in COUNTS:
            self._set(offset, none)
        self._set(GRAPH_BYTES, ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, place)(self._opaque))
        self._set(GRAPH_BYTES + 8, text)

    def _set(self, offset: int, function: Any) -> None:
        self._keep += (function,)
        POINTER.from_buffer(self.table, offset).value = ctypes.cast(function, POINTER).value

    def _none(self, _: int, place: Any) -> int:
        place[0] = 0
        return OK

    def _opaque(self, options: int, place: Any) -> int:
        place[0] = options
        return OK

    def _payload(self, _: int, __: int, place: Any) -> int:
        place[0] = ctypes.addressof(self._text)
        return OK


def plugin_cases(count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Tables and options that are damaged, models without operators, results that are not there."""
    path = Path(delegate.litert_folder()) / "libLiteRtCompilerPlugin_rk3588.so"
    library = ctypes.PyDLL(str(path))

    def drive(number: int) -> str:
        rng = random.Random(number)
        runtime, plugin, result = Compiler(rng), POINTER(), POINTER()
        status = library.LiteRtCreateCompilerPlugin(
            runtime.table, ctypes.byref(plugin), POINTER(1), POINTER(1)
        )
        if status == OK:
            chip = rng.choice((None, b"rk3588", b"rk3576", b"", b"no chip", b"a" * 5000))
            status = library.LiteRtCompilerPluginPartition(plugin, chip, POINTER(1), POINTER(1))
            status |= library.LiteRtCompilerPluginCompile(
                plugin, chip, POINTER(1), ctypes.byref(result)
            )
        _ask_for_results(library, result, rng)
        if result.value is not None:
            library.LiteRtDestroyCompiledResult(result)
        library.LiteRtDestroyCompilerPlugin(plugin)
        return "ran" if status == OK else "refused"

    for number in range(seed, seed + count):
        yield "compiler plugin", lambda number=number: drive(number)


def _ask_for_results(library: ctypes.PyDLL, result: Any, rng: random.Random) -> None:
    index = ctypes.c_uint64(rng.choice((0, 1, 2**64 - 1)))
    one, two, three = POINTER(), ctypes.c_size_t(), ctypes.c_uint64()
    library.LiteRtCompiledResultNumByteCodeModules(result, ctypes.byref(three))
    library.LiteRtGetNumCompiledResultCalls(result, None)
    library.LiteRtGetCompiledResultByteCode(result, index, ctypes.byref(one), ctypes.byref(two))
    library.LiteRtGetCompiledResultCallInfo(
        result, index, ctypes.byref(one), ctypes.byref(two), ctypes.byref(three)
    )
    library.LiteRtGetCompilerPluginSupportedSocModel(None, index, ctypes.byref(one))
