"""Asks a node of the vendor's driver right and wrong requests: one line per question, for the real
driver and for the stand-in.

    python probe_rknpu.py NODE CAPTURE.npz

``CAPTURE``: a program of one task (``delegate compile --dump``). Nothing is asked that is known to
crash kernels (docs/reliability.md says what).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import struct
import sys
import time

import numpy as np

# Python's own mmap duplicates the descriptor, which the stand-in does not know.
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
NODE, CAPTURE = sys.argv[1:3]
VERSION, ACTION, SUBMIT, CREATE, MAP, DESTROY, SYNC = (
    0xC0406400, 0xC0086440, 0xC0686441, 0xC0306442, 0xC0106443, 0xC0106444, 0xC0206445,
)  # fmt: skip
CACHED, TABLE, COMBINED = 0x403, 0x40B, 0x405
SRAM, UNKNOWN_FLAG = 0x300, 0x80000
MAP_PRIVATE = 2
TO_DEVICE, FROM_DEVICE = 1, 2
PAGE = 4096
TAIL_WORDS = 4
_ENABLE = 0x81


def name(number: int) -> str:
    return "ok" if number == 0 else errno.errorcode.get(number, str(number))


def say(question: str, answer: object) -> None:
    print(f"{question}: {answer}", flush=True)


class File:
    def __init__(self) -> None:
        self.fd = os.open(NODE, os.O_RDWR)

    def ask(self, code: int, layout: str, *values: int) -> tuple[int, tuple[int, ...]]:
        data = bytearray(struct.pack(layout, *values))
        try:
            fcntl.ioctl(self.fd, code, data)
        except OSError as error:
            return int(error.errno or 0), struct.unpack(layout, data)
        return 0, struct.unpack(layout, data)

    def create(self, size: int, flags: int, handle: int = 0) -> tuple[int, Buffer | None]:
        error, found = self.ask(CREATE, "<IIQQQQiI", handle, flags, size, 0, 0, 0, 0, 0)
        return error, None if error else Buffer(self, found)

    def action(self, request: int, value: int = 0) -> tuple[int, int]:
        error, found = self.ask(ACTION, "<II", request, value)
        return error, found[1]

    def close(self) -> None:
        os.close(self.fd)


class Buffer:
    def __init__(self, file: File, found: tuple[int, ...]) -> None:
        self.file = file
        self.handle, _, self.size, self.object, self.address = found[:5]
        self._bytes: np.ndarray | None = None

    def map(self, reserved: int = 0) -> tuple[int, int]:
        error, found = self.file.ask(MAP, "<IIQ", self.handle, reserved, 0)
        return error, found[2]

    @property
    def bytes(self) -> np.ndarray:
        if self._bytes is None:
            place = LIBC.mmap(None, self.size, 3, 1, self.file.fd, self.map()[1])
            assert place not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
            self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(place))
        return self._bytes

    def sync(self, flags: int, offset: int = 0, size: int = -1) -> int:
        size = self.size if size < 0 else size
        return self.file.ask(SYNC, "<IIQQQ", flags, 0, self.object, offset, size)[0]

    def destroy(self) -> int:
        return self.file.ask(DESTROY, "<IIQ", self.handle, 0, self.object)[0]


class Program:
    """The capture's program in buffers of one file."""

    def __init__(self, file: File) -> None:
        self.file = file
        archive = np.load(CAPTURE)
        manifest = json.loads(bytes(archive["manifest"]).decode())
        self.buffers: dict[str, Buffer] = {}
        places = []
        for entry in manifest["buffers"]:
            error, buffer = file.create((entry["size"] + PAGE - 1) // PAGE * PAGE, CACHED)
            assert buffer is not None, name(error)
            content = archive["buffer_" + entry["name"]]
            buffer.bytes[: len(content)] = content
            self.buffers[entry["name"]] = buffer
            places.append((entry["dma_address"], entry["size"], buffer.address))
        self.count = manifest["jobs"][0]["tasks"][0]["regcmd_count"]
        self.words = self.buffers["regcmd"].bytes.view("<u8")
        for k in range(self.count):
            value = int(self.words[k]) >> 16 & 0xFFFFFFFF
            for base, size, address in places:
                if base <= value < base + size:
                    self.set_value(k, address + value - base)
        for buffer in self.buffers.values():
            buffer.sync(TO_DEVICE)
        _, table = file.create(PAGE, TABLE)
        assert table is not None
        self.table = table
        words = map(int, self.words[: self.count])
        enable = next(word >> 16 & 0xFFFFFFFF for word in words if word >> 48 == _ENABLE)
        self.table.bytes[:40] = np.frombuffer(
            struct.pack("<IIIIIIIIQ", 0, 0, enable, 0x300, 0x1FFFF, 0, self.count - TAIL_WORDS, 0,
                        self.buffers["regcmd"].address), np.uint8)  # fmt: skip
        self.table.sync(TO_DEVICE)

    def set_value(self, k: int, value: int) -> None:
        self.words[k] = int(self.words[k]) & ~(0xFFFFFFFF << 16) | value << 16

    def submit(self, *, flags: int = 5, timeout: int = 2000, tasks: int = 1, mask: int = 1,
               base: int = 0) -> tuple[int, int]:  # fmt: skip
        """(errno, tasks that the driver counted)"""
        cores = [i for i in range(3) if mask >> i & 1 or mask == 0]
        slots = [number for i in range(5) for number in ((0, tasks) if i in cores else (0, 0))]
        error, found = self.file.ask(
            SUBMIT, "<IIIIIiQIIQqIi10I", flags, timeout, 0, tasks, 0, 0, self.table.object, 0, 0,
            base, 0, mask, 0, *slots,
        )  # fmt: skip
        return error, found[4]

    def mark(self) -> None:
        self.buffers["output"].bytes[:] = 0xA5
        self.buffers["output"].sync(TO_DEVICE)

    def state(self) -> str:
        self.buffers["output"].sync(FROM_DEVICE)
        data = self.buffers["output"].bytes
        if (data == 0xA5).all():
            return "output untouched"
        return f"output {hashlib.sha1(data[:2304].tobytes()).hexdigest()[:8]}"

    def run(self, **how: int) -> str:
        self.mark()
        error, count = self.submit(**how)
        return f"{name(error)}, {count} tasks, {self.state()}"


def ask_actions() -> None:
    file = File()
    say("driver version", file.action(1))
    for request in (0, 18, 22, 23, 24):
        say(f"action {request}", f"{name(file.action(request)[0])}")
    say("action 99", name(file.action(99)[0]))
    say("unknown driver request", name(file.ask(0xC008647F, "<II", 0, 0)[0]))
    say("request of another type", name(file.ask(0xC0087840, "<II", 0, 0)[0]))
    file.close()


def ask_memory() -> None:
    file = File()
    for size in (0, 1, PAGE, 5000):
        error, buffer = file.create(size, CACHED)
        text = "" if buffer is None else f" handle {buffer.handle} size {buffer.size}"
        say(f"create {size}", name(error) + text)
    _, first = file.create(PAGE, CACHED)
    _, second = file.create(2 * PAGE, CACHED)
    assert first
    assert second
    say("content of a new buffer is zero", bool((second.bytes == 0).all()))
    error, again = file.create(PAGE, CACHED, handle=second.handle)
    same = again is not None and again.object == second.object
    say("create with a handle that exists", f"{name(error)}, the old buffer: {same}")
    for what, flags in {"unknown flags": CACHED | UNKNOWN_FLAG, "SRAM": CACHED | SRAM}.items():
        say(f"create with {what}", name(file.create(PAGE, flags)[0]))
    say("map", name(first.map()[0]))
    say("map, reserved field set", name(first.map(reserved=1)[0]))
    say("map of an unknown handle", name(file.ask(MAP, "<IIQ", 9999, 0, 0)[0]))
    private = LIBC.mmap(None, PAGE, 3, MAP_PRIVATE, file.fd, first.map()[1])
    mapped = private != ctypes.c_void_p(-1).value
    say("private mapping", "ok" if mapped else name(ctypes.get_errno()))
    say("destroy of an unknown handle", name(file.ask(DESTROY, "<IIQ", 9999, 0, 0)[0]))
    for what, arguments in {
        "to the device": (TO_DEVICE,), "from the device": (FROM_DEVICE,),
        "in no direction": (0,), "in both directions": (3,), "of no bytes": (1, 0, 0),
        "behind the end": (1, PAGE, PAGE), "of more than there is": (1, 0, 2 * PAGE),
    }.items():  # fmt: skip
        say(f"sync {what}", name(first.sync(*arguments)))
    say("sync of no buffer", name(file.ask(SYNC, "<IIQQQ", 1, 0, 0, 0, PAGE)[0]))
    _, combined = file.create(PAGE, COMBINED)
    assert combined
    say("sync of a buffer without a cache", name(combined.sync(TO_DEVICE)))
    handle = first.handle
    say("destroy", name(first.destroy()))
    _, new = file.create(PAGE, CACHED)
    say("the next handle is the freed one", new is not None and new.handle == handle)
    file.close()


def ask_submits() -> None:
    file = File()
    program = Program(file)
    say("a good job", program.run())
    for mask in (2, 4):
        say(f"a good job on mask {mask}", program.run(mask=mask))
    say("a core that is none", program.run(mask=8))
    say("no tasks", name(program.submit(tasks=0)[0]))
    file.close()


def ask_hangs() -> None:
    file = File()
    program = Program(file)
    say("before", program.run())
    saved = program.words[: program.count].copy()
    program.words[program.count - 1] = 0
    program.buffers["regcmd"].sync(TO_DEVICE)
    start = time.monotonic()
    program.mark()
    error, count = program.submit(timeout=500)
    took = time.monotonic() - start
    about = "about 500" if 0.4 < took < 1.5 else str(round(took * 1000))
    say("a stream that never ends", f"{name(error)}, {count} tasks, {about} ms")
    say("its output", program.state())
    program.words[: program.count] = saved
    program.buffers["regcmd"].sync(TO_DEVICE)
    # The driver powers the NPU off 3 s after its last job or reset, which may come late here.
    time.sleep(8)
    say("the next job, after a rest", program.run())
    file.close()


for title, group in (("actions", ask_actions), ("memory", ask_memory), ("submit", ask_submits),
                     ("hang", ask_hangs)):  # fmt: skip
    print(f"# {title}", flush=True)
    group()
