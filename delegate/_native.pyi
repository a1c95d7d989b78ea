"""The native part: executables on a device, the simulator, and the plugin that runtimes load."""

from collections.abc import Mapping, Sequence
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

class Executable:
    """A serialised Program made ready on a device.

    ``inputs`` and ``outputs`` are the partition's tensors in the order of the program's bindings:
    (tensor index of the model, name, shape, dtype). Raises ProgramError, DeviceError.
    """

    def __init__(
        self,
        program: bytes,
        device: str = "auto",
        timeout_ms: int = 0,
        cores: str = "auto",
        verify: bool = False,
        threads: int = 0,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def device_name(self) -> str: ...
    @property
    def inputs(self) -> tuple[tuple[int, str, tuple[int, ...], np.dtype[Any]], ...]: ...
    @property
    def outputs(self) -> tuple[tuple[int, str, tuple[int, ...], np.dtype[Any]], ...]: ...
    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Takes and returns dense arrays of the bindings' shapes and types; one submit, without
        the GIL. Raises UsageError for other arrays, DeviceError.
        """

def check_program(program: bytes | bytearray | mmap) -> None:
    """Raises ProgramError unless a device could take the serialised Program."""

def private_folder(folder: bytes) -> bytes:
    """Return the folder without links. Raises ValueError unless only this user and root can put,
    replace or rename files there.
    """

def check_private_file(descriptor: int, path: bytes) -> None:
    """Raises ValueError unless only this user and root can have written the open file."""

def release_memory(constants: Sequence[npt.NDArray[Any]]) -> None:
    """Gives memory that was freed back to the system, and the physical memory of those contiguous
    ``constants`` that lie in a mapped file.
    """

def submit_count() -> int:
    """Submits to devices by this process so far."""

def open_device_name(device: str = "auto", strict: bool = False) -> str:
    """Name of the device that ``device`` opens; ``strict``: auto is an NPU. Raises DeviceError."""

def run_stats() -> tuple[int, int, int, int, list[tuple[str, str, str, tuple[int, ...]]]]: ...
def prometheus_text() -> str: ...
def stats_line() -> str: ...
def start_run_log(capacity: int) -> None:
    """Times the phases of up to ``capacity`` runs of this process from now on."""

def take_run_log() -> list[tuple[str, int, int, int, int, int]]:
    """Stops timing. Per run, in the order in which they ended: the program's name (cut at 63
    bytes), and when it started, had converted and synchronised its inputs, had handed its jobs to
    the driver (0 where the device does not say), found them done, and had converted its outputs; in
    nanoseconds of CLOCK_MONOTONIC (``time.monotonic_ns``).
    """

def find_npu_node(root: str = "/") -> str:
    """Path of the device node that ``device=auto`` takes, or ""."""

class EdgeBox:
    """A tensor of so many ``elements``, one box on the device, of ``size`` (height, width,
    channels) there. ``fold`` (height, width, channels, window_h, window_w, step_h, step_w, top,
    left) and ``spread`` (first, image, row, pixel, channel): as in a Program (test hook).
    """

    def __init__(
        self,
        element: str,
        elements: int,
        size: tuple[int, int, int],
        surface_stride_bytes: int,
        fill: int,
        fold: tuple[int, ...] = (),
        spread: tuple[int, ...] = (),
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def element(self) -> str: ...
    @property
    def host_bytes(self) -> int: ...
    @property
    def device_bytes(self) -> int: ...
    def to_device(self, host: npt.NDArray[np.uint8], device: npt.NDArray[np.uint8]) -> None: ...
    def from_device(self, device: npt.NDArray[np.uint8], host: npt.NDArray[np.uint8]) -> None: ...

def program_edges(program: bytes) -> tuple[list[EdgeBox], list[EdgeBox]]:
    """Return a program's inputs and outputs."""

def to_half(host: npt.NDArray[np.uint8], portable: bool) -> npt.NDArray[np.uint8]:
    """Bytes of float32 as bytes of fp16; ``portable``: without the processor's instructions for it
    (test hook).
    """

def from_half(device: npt.NDArray[np.uint8], portable: bool) -> npt.NDArray[np.uint8]:
    """The inverse of ``to_half`` (test hook)."""

def quantize_rule() -> tuple[bool, bool]:
    """Whether this thread's runtime multiplies by reciprocals in QUANTIZE, and whether what has no
    int32 becomes the nearest (test hook).
    """

def quantize(
    host: npt.NDArray[np.uint8],
    scale: float,
    zero_point: int,
    element: str,
    rule: tuple[bool, bool],
    portable: bool,
) -> npt.NDArray[np.uint8]:
    """Bytes of float32 as the device's bytes, as ``quantize_rule`` says; ``portable``: without the
    processor's instructions for it (test hook).
    """

def simulate(
    regions: Sequence[
        tuple[str, int, npt.NDArray[np.uint8]] | tuple[str, int, npt.NDArray[np.uint8], int]
    ],
    jobs: Sequence[Sequence[tuple[int, int, str]]],
    chained: bool = False,
    threads: int = 0,
    plain: bool = False,
    isa: str = "auto",
    kernel: str = "",
    lenient: bool = False,
    counters: bool = False,
    probe: int | None = None,
    chip: dict[str, str | int] | None = None,
    deviations: str = "",
) -> dict[str, Any]:
    """Runs jobs of register commands on the simulated NPU.

    ``kernel``: "rocket" or "rknpu" to keep to that driver's limits, instead of ``chained``. The
    result's "complaints" are the deviations that ``lenient`` passed over, one line each, its
    "tasks" what every task moved and computed (with ``counters``), and its "writes" how the
    element at device address ``probe`` got its value, one for every task that writes it.
    delegate/insight/simulated_run.py makes types of them. ``chip``: as
    delegate.chip.chip.native_chip gives it; RK3588 without. ``deviations``: of a worse chip, as
    in RK3588_SIM_BREAK (docs/simulator.md).

    ``regions``: name, device address, writable contiguous bytes and, optionally, how many of them
    hold content. ``jobs``: tasks as (address of the commands, 64-bit words, layer name). Raises
    SimulatorFault, UnsupportedByDevice.
    """

def deviations() -> list[tuple[str, str, str, str]]:
    """Ways in which a simulated chip can be worse (test hook): name, kind of task, stage, and what
    such a task does. Names joined by commas make a chip with all of them.
    """

def run_on_device(
    buffers: Sequence[tuple[str, int, npt.NDArray[np.uint8]]],
    jobs: Sequence[Sequence[tuple[int, int, str]]],
    device: str,
    timeout_ms: int = 0,
    cores: str = "auto",
    chip: str = "rk3588",
) -> list[str]:
    """Runs recorded jobs on a device, addresses moved to where its buffers are there.

    ``buffers``: name, recorded address, writable contiguous bytes. ``jobs``: tasks as (address of
    the commands, 64-bit words, layer name). ``chip``: the chip that the commands are for, which
    the device must be. Returns the names of the buffers that tasks write,
    whose arrays hold the results. Raises DeviceError.
    """

def missing_forms(
    program: bytes,
    device: str,
    cache_dir: str = "off",
    timeout_ms: int = 0,
    cores: str = "auto",
) -> list[tuple[str, str]]:
    """Name and reason of all that a serialised Program uses and this board must not be given:
    forms, relations between tasks, or the program by its id. Runs a program that is unknown, and
    keeps what came of it. Raises DeviceError.
    """

def board_evidence(
    device: str,
    cache_dir: str = "auto",
    cores: str = "auto",
    forgets: bool = False,
    proved: Mapping[str, str] = ...,
) -> tuple[str, str, dict[str, str]]:
    """The path of the file of what this board has shown ("" if none is kept), why it is not used
    ("" if it is), and by name: of a program "ran" or "verified"; of all "failed: ...",
    "hung: ..." or "suspected: ..."; of a form "proved ..." with its settings. Keeps the states of
    ``proved`` before, but of what is switched off. ``forgets`` all of it. Raises DeviceError.
    """

def program_id(program: bytes | bytearray) -> str:
    """The name under which evidence of a serialised Program is kept. Raises ProgramError."""

def npu_chip(root: str = "/") -> tuple[str, bool, bool]:
    """The chip of this machine's NPU by name, "" if nothing says; whether programs can be
    compiled for it; whether the NPU's cores are called after it and after no other.
    """

def find_npu_nodes(root: str = "/") -> list[tuple[str, str, str, str, str]]:
    """Path, driver ("" if nobody could be asked), its version ("" likewise), state and problem of
    every device node that is an NPU's or may be one; ``root`` holds dev/ and sys/.

    State: usable, missing (the kernel has the device, /dev no node), denied, failed, foreign (of
    another driver). Opens nodes to ask their drivers. Never raises for what it finds.
    """
