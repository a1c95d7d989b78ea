"""The dispatch library for LiteRT, driven by a stand-in for the runtime."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.aot.dispatch_form import with_ports
from delegate.compile.compiler import compile_model
from delegate.errors import DelegateError
from delegate.npu.program import parse
from delegate.options import Options
from tests.hosts import litert_standin as standin
from tests.hosts.litert_standin import (
    OK,
    POINTER,
    Api,
    Dispatch,
    Header,
    Runtime,
    Version,
    compiled_digits,
)
from tests.shared_folder import DIGITS

INT8 = 9
FLOAT32 = 1
SIMULATOR = b"device=simulator\nlog_level=error"


@dataclass(frozen=True)
class Loaded:
    """A program for LiteRT, and the runtime that holds a device for it."""

    program: bytes
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    dispatch: Dispatch
    device: int

    def invocation(self) -> int:
        status, invocation = self.dispatch.create_invocation(self.device, self.program, 1, 1)
        assert status == OK
        assert invocation
        return invocation


def with_device(runtime: Runtime) -> tuple[Dispatch, int]:
    dispatch = Dispatch(runtime)
    assert dispatch.initialize() == OK
    status, device = dispatch.create_device()
    assert status == OK
    assert device
    return dispatch, device


@pytest.fixture
def loaded() -> Iterator[Loaded]:
    program, *shapes = compiled_digits()
    dispatch, device = with_device(Runtime(opaque=SIMULATOR))
    yield Loaded(program, (shapes[0], shapes[1]), dispatch, device)
    assert dispatch.status("device_destroy", POINTER(device)) == OK


@pytest.fixture
def invocation(loaded: Loaded) -> Iterator[int]:
    created = loaded.invocation()
    yield created
    assert loaded.dispatch.status("invocation_destroy", POINTER(created)) == OK


def test_it_names_the_version_that_litert_2_3_compares_with() -> None:
    assert Dispatch(Runtime()).version == (0, 1, 0)


def test_an_older_litert_whose_struct_has_no_header_is_refused(
    capfd: pytest.CaptureFixture[str],
) -> None:
    api = Api()
    status = standin.library().LiteRtDispatchGetApi(ctypes.byref(api))
    assert status == standin.WRONG_VERSION
    assert not api.functions
    assert "is not ai-edge-litert 2.3" in capfd.readouterr().err


def test_the_versioned_interface_has_the_same_functions() -> None:
    query = standin.library().LiteRtDispatchQueryInterface
    place = POINTER()
    assert query(0, Version(1, 0, 0), ctypes.byref(place)) == OK
    header = Header.from_address(place.value or 0)
    assert (header.struct_size, header.major) == (8 + 8 * len(standin.FUNCTIONS), 1)
    first = POINTER.from_address((place.value or 0) + 8).value
    assert first == Dispatch(Runtime()).functions["initialize"]
    assert query(1, Version(1, 0, 0), ctypes.byref(place)) == standin.UNSUPPORTED
    assert query(0, Version(0, 1, 0), ctypes.byref(place)) == standin.UNSUPPORTED


@pytest.mark.parametrize("runtime", [Runtime(size=200), Runtime(major=2)], ids=["short", "major"])
def test_a_table_of_another_size_or_version_is_refused(
    runtime: Runtime, capfd: pytest.CaptureFixture[str]
) -> None:
    dispatch = Dispatch(runtime)
    assert dispatch.initialize() == standin.WRONG_VERSION
    assert dispatch.status("device_create", runtime.table, None, None) == standin.WRONG_VERSION
    assert "this LiteRT's functions are version" in capfd.readouterr().err


def test_other_versions_of_the_interface_are_refused(loaded: Loaded) -> None:
    check = loaded.dispatch.check_runtime
    assert check(0, 1) == OK
    assert check(1, 0) == OK
    assert check(0, 2) == standin.UNSUPPORTED_RUNTIME


def test_a_program_gives_what_it_gives_elsewhere(loaded: Loaded, invocation: int) -> None:
    dispatch = loaded.dispatch
    executable = Executable(loaded.program, "simulator")
    (_, _, shape, kind) = executable.inputs[0]
    picture = np.random.default_rng(3).integers(-128, 127, shape).astype(kind)
    (expected,) = executable.run([picture])
    assert dispatch.require("input", invocation, 0, INT8, loaded.shapes[0]) == OK
    assert dispatch.require("output", invocation, 0, INT8, loaded.shapes[1]) == OK
    assert dispatch.runtime.requirements == [picture.nbytes, expected.nbytes]
    handles = [dispatch.register(loaded.device, array) for array in (picture, 0 * expected)]
    assert dispatch.attach("input", invocation, 0, handles[0]) == OK
    assert dispatch.attach("output", invocation, 0, handles[1]) == OK
    for _ in range(2):
        assert dispatch.status("invoke", POINTER(invocation)) == OK
        assert dispatch.runtime.buffers[1].tobytes() == expected.tobytes()
        dispatch.runtime.buffers[1][:] = 0
    assert not dispatch.runtime.locked


def test_a_tensor_without_a_buffer_is_an_error(
    loaded: Loaded, invocation: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert loaded.dispatch.status("invoke", POINTER(invocation)) == standin.INVALID
    assert "no buffer attached" in capfd.readouterr().err
    assert not loaded.dispatch.runtime.locked


def test_a_device_may_be_destroyed_before_what_runs_on_it() -> None:
    """In which order LiteRT takes a model down is its own affair."""
    program, shape, _ = compiled_digits()
    dispatch, device = with_device(Runtime(opaque=SIMULATOR))
    _, invocation = dispatch.create_invocation(device, program, 1, 1)
    assert invocation
    handle = dispatch.register(device, np.zeros(int(np.prod(shape)), np.int8))
    assert dispatch.attach("input", invocation, 0, handle) == OK
    assert dispatch.status("device_destroy", POINTER(device)) == OK
    detach = POINTER(invocation), 0, ctypes.c_uint64(handle)
    assert dispatch.status("detach_input", *detach) == OK
    assert dispatch.status("unregister_buffer", POINTER(device), ctypes.c_uint64(handle)) == OK
    assert dispatch.create_invocation(device, program, 1, 1)[0] == standin.INVALID
    _, another = dispatch.create_device()
    assert another != device
    assert dispatch.status("invocation_destroy", POINTER(invocation)) == OK
    assert dispatch.status("device_destroy", POINTER(another)) == OK


def test_detached_buffers_are_used_no_more(loaded: Loaded, invocation: int) -> None:
    content = np.zeros(int(np.prod(loaded.shapes[0])), np.int8)
    handle = loaded.dispatch.register(loaded.device, content)
    assert loaded.dispatch.attach("input", invocation, 0, handle) == OK
    detach = POINTER(invocation), 0, ctypes.c_uint64(handle)
    assert loaded.dispatch.status("detach_input", *detach) == OK
    assert loaded.dispatch.status("invoke", POINTER(invocation)) == standin.INVALID
    unregister = POINTER(loaded.device), ctypes.c_uint64(handle)
    assert loaded.dispatch.status("unregister_buffer", *unregister) == OK
    assert loaded.dispatch.status("unregister_buffer", *unregister) == standin.NOT_FOUND
    assert loaded.dispatch.attach("input", invocation, 0, handle) == standin.NOT_FOUND


def test_buffers_of_other_sizes_or_that_begin_elsewhere_are_refused(
    loaded: Loaded, invocation: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also larger ones: those of a model that was resized, whose second image would be nobody's."""
    right = np.zeros(int(np.prod(loaded.shapes[0])), np.int8)
    runtime = loaded.dispatch.runtime
    for size in (3, 2 * right.size):
        handle = loaded.dispatch.register(loaded.device, np.zeros(size, np.int8))
        assert loaded.dispatch.attach("input", invocation, 0, handle) == standin.INVALID
        assert f"is for {size} bytes" in capfd.readouterr().err
    runtime.tensor_bytes = right.size
    padded = loaded.dispatch.register(loaded.device, np.zeros(2 * right.size, np.int8))
    assert loaded.dispatch.attach("input", invocation, 0, padded) == OK
    small = loaded.dispatch.register(loaded.device, np.zeros(3, np.int8))
    assert loaded.dispatch.attach("input", invocation, 0, small) == standin.INVALID
    runtime.offset = 16
    assert loaded.dispatch.attach("input", invocation, 0, padded) == standin.UNSUPPORTED


def test_other_types_and_shapes_than_the_compiled_ones_are_refused(
    loaded: Loaded, invocation: int, capfd: pytest.CaptureFixture[str]
) -> None:
    shape, require = loaded.shapes[0], loaded.dispatch.require
    assert require("input", invocation, 0, FLOAT32, shape) == standin.INVALID
    assert require("input", invocation, 0, INT8, (2, *shape[1:])) == standin.INVALID
    assert require("input", invocation, 1, INT8, shape) == standin.INVALID
    assert "was compiled as int8 [1," in capfd.readouterr().err


def test_an_input_that_the_program_does_not_read_needs_no_buffer(loaded: Loaded) -> None:
    status, invocation = loaded.dispatch.create_invocation(loaded.device, loaded.program, 2, 1)
    assert status == OK
    assert invocation
    assert loaded.dispatch.require("input", invocation, 1, FLOAT32, (3, 5)) == OK
    assert loaded.dispatch.runtime.requirements == [60]
    loaded.dispatch.status("invocation_destroy", POINTER(invocation))


@pytest.mark.parametrize("ports", [(0, 1), (1, 0), (1, 2)])
def test_a_program_of_another_operator_is_refused(loaded: Loaded, ports: tuple[int, int]) -> None:
    status, _ = loaded.dispatch.create_invocation(loaded.device, loaded.program, *ports)
    assert status == standin.INVALID


def test_damage_and_other_kinds_of_byte_code_are_refused(
    loaded: Loaded, capfd: pytest.CaptureFixture[str]
) -> None:
    create = loaded.dispatch.create_invocation
    damaged = bytearray(loaded.program)
    damaged[len(damaged) // 2] ^= 1
    assert create(loaded.device, bytes(damaged), 1, 1) == (standin.FAILED, None)
    assert "checksum mismatch" in capfd.readouterr().err
    assert create(loaded.device, b"BYTECODE", 1, 1)[0] == standin.FAILED
    assert create(loaded.device, b"", 1, 1)[0] == standin.FAILED
    assert create(loaded.device, loaded.program, 1, 1, kind=3)[0] == standin.UNSUPPORTED


def test_options_come_from_the_folder_unless_the_model_brings_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rk3588.options"
    file.write_text("# of this folder\n\n device = null \nlog_level=error\n")
    program, *_ = compiled_digits()
    for opaque, name in ((None, "null"), (b"device=simulator\nlog_level=info", "simulator")):
        dispatch, device = with_device(Runtime(folder=str(tmp_path), opaque=opaque))
        status, invocation = dispatch.create_invocation(device, program, 1, 1)
        assert status == OK
        said = capfd.readouterr().err
        assert (f"{name}: program" in said) == (opaque is not None)
        dispatch.status("invocation_destroy", POINTER(invocation))
        dispatch.status("device_destroy", POINTER(device))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("device", "'device' is not key=value"),
        ("device=npu", "option 'device' is 'npu'; expected auto"),
        ("devise=null", "unknown option 'devise'; valid: device"),
        ("a" * 70_000, "is longer than options are"),
    ],
)
def test_bad_options_are_one_line_and_no_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    (tmp_path / "rk3588.options").write_text(text)
    dispatch = Dispatch(Runtime(folder=str(tmp_path)))
    assert dispatch.initialize() == OK
    capfd.readouterr()
    assert dispatch.create_device() == (standin.FAILED, None)
    said = capfd.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_programs_are_numbered_by_ports() -> None:
    result = compile_model(DIGITS, Options.from_mapping({}))
    (part,) = result.partitions
    inputs, outputs = part.partition.inputs, part.partition.outputs
    numbered = parse(with_ports(part.program, (99, *inputs), outputs))
    assert {binding.tensor for binding in numbered.inputs} == {1}
    assert {binding.tensor for binding in numbered.outputs} == {0}
    with pytest.raises(DelegateError, match="its operator has not"):
        with_ports(part.program, (), outputs)
    with pytest.raises(DelegateError, match="does not write all outputs"):
        with_ports(part.program, inputs, (*outputs, 99))
