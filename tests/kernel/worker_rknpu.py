"""The vendor's driver: hangs among streams, and its answers to requests that no program makes."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import delegate
from delegate.host.runtimes import find_runtime
from rk3588_conformance.builder.single_op import conv_model
from tests.kernel.small_models import MODELS
from tests.kernel.standin_calls import calls, live, set_faults, submits_by_mask, take_violations
from tests.kernel.worker_life import Life
from tests.shared_tensors import Host, take_turns

ACTION, MEM_CREATE, MEM_MAP, MEM_DESTROY, MEM_SYNC = (
    0xC0086440, 0xC0306442, 0xC0106443, 0xC0106444, 0xC0206445,
)  # fmt: skip
UNKNOWN = 0xC008647F
CACHED, COMBINED = 0x403, 0x405
PAGE = 4096


def streams(given: dict[str, Any]) -> dict[str, Any]:
    """Runs in threads of their own, ``pause_s`` seconds apart, with faults by number of the submit;
    then others run until the last of the first is done.
    """
    program = Life("rknpu")
    cores = given.get("cores", "auto")
    own = [program.load(timeout_ms=limit, cores=cores) for limit in given["timeouts_ms"]]
    others = [program.load(timeout_ms=20_000, cores=cores) for _ in range(given.get("others", 0))]
    if given.get("warm_up", True):
        # Three at once, so that every core has run a job.
        set_faults(f"SUBMIT@1=long:100*{len(own)}")
        threads = [threading.Thread(target=program.run, args=(each,)) for each in own]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    take_violations()
    set_faults(given["faults"])
    outcomes = [""] * len(own)
    rest: list[str] = []

    def first(i: int) -> None:
        outcomes[i] = program.run(own[i])

    threads = [threading.Thread(target=first, args=(i,)) for i in range(len(own))]
    for thread in threads:
        thread.start()
        time.sleep(given.get("pause_s", 0.02))  # their submits in this order

    def other(i: int) -> None:
        while any(thread.is_alive() for thread in threads):
            rest.append(program.run(others[i]))

    more = [threading.Thread(target=other, args=(i,)) for i in range(len(others))]
    for thread in more:
        thread.start()
    for thread in [*threads, *more]:
        thread.join()
    return {"outcomes": outcomes, "others": sorted(set(rest)), "ran": len(rest)}


class Asked:
    """A file of the driver, asked by hand: errno and the argument afterwards."""

    def __init__(self, node: str) -> None:
        self.file = os.open(node, os.O_RDWR)

    def ask(self, code: int, layout: str, *values: int) -> tuple[int, tuple[int, ...]]:
        argument = bytearray(struct.pack(layout, *values))
        try:
            fcntl.ioctl(self.file, code, argument)
        except OSError as error:
            return error.errno or -1, ()
        return 0, struct.unpack(layout, argument)

    def create(self, flags: int, size: int, handle: int = 0) -> tuple[int, ...]:
        number, answer = self.ask(MEM_CREATE, "<IIQQQQiI", handle, flags, size, 0, 0, 0, 0, 0)
        return (number, *answer)

    def map_privately(self, offset: int) -> int:
        """errno. Python's own mmap would ask for the size of the file."""
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        memory = library.mmap(
            None, ctypes.c_size_t(PAGE), mmap.PROT_READ, mmap.MAP_PRIVATE, self.file,
            ctypes.c_long(offset),
        )  # fmt: skip
        return ctypes.get_errno() if memory == ctypes.c_void_p(-1).value else 0

    def sync(self, object_: int, flags: int, offset: int, size: int) -> int:
        return self.ask(MEM_SYNC, "<IIQQQ", flags, 0, object_, offset, size)[0]


def answers(node: str) -> dict[str, Any]:
    kernel = Asked(node)
    first, second = kernel.create(CACHED, 2 * PAGE), kernel.create(COMBINED, PAGE)
    handle, object_ = first[1], first[4]
    found: dict[str, Any] = {
        "unknown request": kernel.ask(UNKNOWN, "<II", 0, 0)[0],
        "create of no bytes": kernel.create(CACHED, 0)[0],
        "create of an old handle": kernel.create(CACHED, PAGE, handle)[4] == object_,
        "create with unknown flags": kernel.create(CACHED | 0x80000, PAGE)[0],
        "create in SRAM": kernel.create(CACHED | 0x300, PAGE)[0],
        "map of no handle": kernel.ask(MEM_MAP, "<IIQ", 99, 0, 0)[0],
        "map with reserved set": kernel.ask(MEM_MAP, "<IIQ", handle, 7, 0)[0],
        "sync outside": kernel.sync(object_, 1, 0, 3 * PAGE),
        "sync of no bytes": kernel.sync(object_, 1, 0, 0),
        "sync in no direction": kernel.sync(object_, 0, 0, PAGE),
        "sync in both": kernel.sync(object_, 3, 0, PAGE),
        "sync without cache": kernel.sync(second[4], 1, 0, PAGE),
        "sync of no object": kernel.sync(0, 1, 0, PAGE),
        "destroy of no handle": kernel.ask(MEM_DESTROY, "<IIQ", 99, 0, 0)[0],
        "actions": [kernel.ask(ACTION, "<II", request, 0)[0] for request in (0, 22, 24)],
        "unknown action": kernel.ask(ACTION, "<II", 99, 0)[0],
    }
    offset = kernel.ask(MEM_MAP, "<IIQ", handle, 0, 0)[1][2]
    found["private mapping"] = kernel.map_privately(offset)
    kernel.ask(MEM_DESTROY, "<IIQ", handle, 0, object_)
    found["freed handle again"] = kernel.create(CACHED, PAGE)[1] == handle
    found["address space full"] = kernel.create(CACHED, 1 << 30)[0]
    take_violations()  # some of these questions are
    return found


def two_nodes() -> dict[str, Any]:
    """Both nodes of the device in one process: one file, one address space."""
    program = Life("rknpu")
    loaded = [program.load(f"/dev/dri/{name}") for name in ("renderD128", "card0")]
    return {"runs": [program.run(each) for each in loaded], "files": live()[0]}


def several_runs(given: dict[str, Any]) -> dict[str, Any]:
    program = Life("rknpu")
    executable = program.load(cores=given.get("cores", "auto"))
    set_faults(given.get("faults", ""))
    outcomes = [program.run(executable) for _ in range(given.get("runs", 3))]
    return {"outcomes": outcomes, "calls": calls()}


def counted(given: dict[str, Any]) -> dict[str, Any]:
    """Return what ``delegate.stats()`` says of inferences that met ``faults``."""
    runtime = find_runtime()
    plugin = runtime.load_delegate(delegate.library_path(), {"device": "rknpu", "verify": "off"})
    interpreter = runtime.interpreter(MODELS["add"](), [plugin])
    set_faults(given["faults"])
    for _ in range(given["runs"]):
        interpreter.invoke()
    stats = delegate.stats()
    names = [program.device for program in stats.programs]
    return {"runs": stats.runs, "errors": stats.errors, "repeats": stats.repeats, "devices": names}


def reopened(given: dict[str, Any]) -> dict[str, Any]:
    """A hang, the device closed right after it, opened again and run by another thread at once.
    With ``exits`` the process ends after the hang instead, by exit handlers only.
    """
    program = Life("rknpu")
    executable = program.load(timeout_ms=300)
    set_faults("SUBMIT@1=hang:0")
    outcomes = [program.run(executable)]
    set_faults("")
    if given.get("exits"):
        print(outcomes[0], flush=True)
        ctypes.CDLL(None).exit(0)

    def again() -> None:
        time.sleep(0.1)  # the other one is being closed by now
        outcomes.append(program.run(program.load()))

    thread = threading.Thread(target=again)
    thread.start()
    del executable
    thread.join()
    return {"outcomes": outcomes}


def powered(given: dict[str, Any]) -> dict[str, Any]:
    """A hang, then a run; the power is off so many seconds after the hang."""
    program = Life("rknpu")
    executable = program.load(timeout_ms=300)
    set_faults("SUBMIT@1=hang:0")
    outcomes = [program.run(executable)]
    set_faults("")
    start = time.monotonic()

    def switch_off() -> None:
        Path(given["status"]).write_text("suspended\n")

    timer = threading.Timer(given["off_after_s"], switch_off)
    timer.daemon = True
    timer.start()
    outcomes.append(program.run(executable))
    return {"outcomes": outcomes, "rested_s": time.monotonic() - start}


def shared(given: dict[str, Any]) -> dict[str, Any]:
    """Tensors in memory that others share, and what of the driver is in use before and after."""
    runtime = find_runtime()
    device = given.get("device", "rknpu")
    model = conv_model(np.random.default_rng(3), 9, 5, 16, 16, 3, 3)
    held = [Host(runtime.module, model, device=device, numerics="exact") for _ in range(2)]
    before = live()
    set_faults(given.get("faults", ""))
    in_place = [take_turns(host, 7) for host in held]
    made = calls()
    for host in held:
        host.give(host.input, None)
        host.give(host.output, None)
        host.made.invoke()
    held[0].made.set_tensor(held[0].input["index"], held[0].draw(1))
    held[0].made.invoke()
    return {
        "in_place": in_place, "imports": made.get("PRIME_FD_TO_HANDLE", 0),
        "right": bool(np.array_equal(held[0].result(), held[0].expected(held[0].draw(1)))),
        "grown": [after - now for after, now in zip(live(), before, strict=True)],
    }  # fmt: skip


def work(what: str, **given: Any) -> dict[str, Any]:
    start = time.monotonic()
    ways = {"streams": streams, "runs": several_runs, "powered": powered, "reopened": reopened,
            "shared": shared, "counted": counted}  # fmt: skip
    if what == "answers":
        answer = answers("/dev/dri/renderD128")
    else:
        answer = two_nodes() if what == "nodes" else ways[what](given)
    return {**answer, "masks": submits_by_mask(), "seconds": time.monotonic() - start}
