"""A process that has files of the NPU open, and what it finds of its keeper."""

import ctypes
import os
import platform
import struct
import sys
import time
from pathlib import Path
from typing import Any

import delegate
from delegate import _native
from delegate.host.runtimes import find_runtime
from delegate.npu.program import build_program, serialize
from tests.npu.sample_programs import chain_partition
from tools.board.keepers import descriptors, keepers, wait_for_end

DIGITS = Path(__file__).resolve().parents[2] / "models/digits/digits_int8.tflite"
CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
CLONE_VFORK = 0x4000
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_FAIL, _ALLOW = 0x0005_0000 | 1, 0x7FFF_0000  # EPERM


def forbid_starting() -> None:
    """Processes are not started any more, as some sandboxes have it; threads are."""
    rows = [
        (_LOAD, 0, 0, 0), (_EQUAL, 0, 3, CLONE),
        (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, CLONE_VFORK), (_RETURN, 0, 0, _FAIL),
        (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in rows))
    program = struct.pack("<HxxxxxxQ", len(rows), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libc.prctl(_SECCOMP, _FILTER, program) == 0, os.strerror(ctypes.get_errno())


def ours() -> set[int]:
    """The keepers of this test's board; other tests run beside it and have keepers, too."""
    return keepers(os.environ["RK3588_STANDIN_ROOT"])


class Files:
    """Open files, each of a program of its own, and the keepers that came with them."""

    def __init__(self, device: str) -> None:
        self._program = serialize(build_program(chain_partition(), "test"))
        self._device = device
        self._others = ours()
        self.open: list[Any] = []

    def add(self) -> None:
        self.open.append(_native.Executable(self._program, device=self._device))

    def keepers(self) -> list[int]:
        """Return the keepers that came with the files; a new program has its name soon."""
        for _ in range(50):
            found = ours() - self._others
            if found:
                break
            time.sleep(0.02)
        return sorted(found)

    def names(self) -> list[str]:
        """Return the names of the files that the only keeper has open, once it had time to act."""
        (keeper,) = self.keepers()
        names: list[str] = []
        for _ in range(100):
            names = sorted(name.split(":")[0] for name in descriptors(keeper).values())
            if len(names) == len(self.open) + 1:
                break
            time.sleep(0.02)
        return names


def one(files: Files) -> dict[str, Any]:
    """Return what the keeper of one file is like."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    files.add()
    names = files.names()
    (keeper,) = files.keepers()
    status = Path(f"/proc/{keeper}/status").read_text().splitlines()
    facts = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    os.close(writer)
    left_pipe = os.read(reader, 1) == b""
    try:
        os.wait()
        child = "waited for"
    except ChildProcessError:
        child = "none"
    return {
        "names": names,
        "parent": int(facts["PPid"]) == os.getpid(),
        "session": os.getsid(keeper) == os.getsid(0),
        "folder": os.readlink(f"/proc/{keeper}/cwd"),
        "resident_kb": int(facts["VmRSS"].split()[0]),
        "left_pipe": left_pipe,
        "child": child,
    }


def several(files: Files) -> list[list[str]]:
    """Return what the keeper has open as files come and go."""
    found = []
    for _ in range(3):
        files.add()
        found.append(files.names())
    while len(files.open) > 1:
        files.open.pop()
        found.append(files.names())
    keeper = set(files.keepers())
    files.open.clear()
    wait_for_end(keeper, 10)
    files.add()
    return [*found, files.names()]


def fork(files: Files) -> dict[str, Any]:
    """A forked child has a keeper of its own."""
    files.add()
    mine, keeper = files.names(), set(files.keepers())
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        theirs = Files(files._device)
        theirs.add()
        os.write(writer, repr(theirs.names()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    wait_for_end(set(files.keepers()) - keeper, 10)
    return {"child": os.read(reader, 1 << 12).decode(), "before": mine, "after": files.names()}


def delegates(options: dict[str, str], is_forbidden: bool) -> dict[str, Any]:
    """Through TensorFlow Lite, twice."""
    others = ours()
    if is_forbidden:
        forbid_starting()
    runtime = find_runtime()
    items = []
    for _ in range(2):
        plugin = runtime.load_delegate(delegate.library_path(), options)
        items.append(runtime.interpreter(DIGITS.read_bytes(), [plugin]))
        items[-1].invoke()
    return {"keepers": len(ours() - others)}


def work(what: str, device: str = "", **given: Any) -> Any:
    if what == "delegates":
        return delegates(**given)
    files = Files(device)
    if what == "hold":
        files.add()
        print(*files.keepers(), flush=True)
        sys.stdin.read()
        os._exit(0)
    return {"one": one, "several": several, "fork": fork}[what](files)
