"""The emulated board's NPU, driven as the kernel drives it: registers, page tables, interrupts."""

import array
import mmap
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from delegate import _native
from delegate.insight.program_capture import capture_of_program
from delegate.npu.program import build_program
from delegate.npu.program import serialize as serialize_program
from tests.builds import build_npu
from tests.kernel.small_models import random_inputs
from tests.npu.sample_programs import chain_partition

RAM_BASE, PAGE = 0x4000_0000, 4096
RAM_BYTES = 16 << 20
DIRECTORY = RAM_BASE + (1 << 20)
CORE, RESETS = 0, 3  # windows
IOMMU = 0xA000
DPU_INTERRUPT = 0x300


@pytest.fixture(scope="session")
def npu_process() -> Path:
    return build_npu() / "npu_process"


class Kernel:
    """A stand-in for QEMU and the driver: guest RAM, registers, interrupt lines."""

    def __init__(self, program: Path, folder: Path):
        self.faults = folder / "faults"
        self.faults.touch()
        path = folder / "npu.sock"
        self.process = subprocess.Popen(
            [str(program), str(path), str(self.faults)], stderr=subprocess.PIPE, text=True
        )
        self.requests, self.lines = (self._connected(path) for _ in range(2))
        ram = os.memfd_create("ram")
        os.ftruncate(ram, RAM_BYTES)
        self.ram = mmap.mmap(ram, RAM_BYTES)
        rights = array.array("i", [ram])
        self.requests.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(ram)
        (count,) = struct.unpack("<Q", self.receive(8))
        self.windows = struct.unpack(f"<{2 * count}Q", self.receive(16 * count))
        self.used = DIRECTORY - RAM_BASE + PAGE

    def _connected(self, path: Path) -> socket.socket:
        """The socket's file is there a moment before the process listens."""
        found = socket.socket(socket.AF_UNIX)
        while True:
            assert self.process.poll() is None
            try:
                found.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.01)
            else:
                return found

    def receive(self, size: int) -> bytes:
        return self.requests.recv(size, socket.MSG_WAITALL)

    def ask(self, operation: int, window: int, offset: int, value: int = 0) -> int:
        self.requests.sendall(struct.pack("<IIQQ", operation, window, offset, value))
        value, _, self.levels, self.computes = struct.unpack("<QQII", self.receive(24))
        return value

    def read(self, offset: int, window: int = CORE) -> int:
        return self.ask(0, window, offset)

    def write(self, offset: int, value: int, window: int = CORE) -> None:
        self.ask(1, window, offset, value)

    def page(self) -> int:
        self.used += PAGE
        return RAM_BASE + self.used - PAGE

    def put(self, address: int, content: bytes) -> None:
        self.ram[address - RAM_BASE : address - RAM_BASE + len(content)] = content

    def map(self, iova: int, content: bytes) -> list[int]:
        """Maps pages that hold ``content``, out of order in RAM; returns their addresses."""
        size = -(-len(content) // PAGE)
        pages = [self.page() for _ in range(size)][::-1]
        for number, page in enumerate(pages):
            address = iova + number * PAGE
            entry = DIRECTORY + (address >> 22) * 4
            (table,) = struct.unpack_from("<I", self.ram, entry - RAM_BASE)
            if not table:
                table = self.page() | 1
                self.put(entry, struct.pack("<I", table))
            slot = (table & ~0xFFF) + (address >> 12 & 0x3FF) * 4
            self.put(slot, struct.pack("<I", page | 1))
            self.put(page, content[number * PAGE : (number + 1) * PAGE])
        return pages

    def start(self, iova: int, words: int, tasks: int = 1) -> None:
        """One kick, as rocket's job handling does it."""
        for offset, value in (
            (IOMMU, DIRECTORY), (IOMMU + 0x1C, 3), (IOMMU + 0x08, 0),
            (0x10, 1), (0x1004, 0xE), (0x3004, 0xE), (0x10, iova), (0x14, (words + 1) // 2 - 1),
            (0x20, DPU_INTERRUPT), (0x24, 0x1FFFF), (0x30, 0x7000 | tasks), (0x34, 0), (0x08, 1),
        ):  # fmt: skip
            self.write(offset, value)

    def wait(self, seconds: float = 20) -> int:
        """Raw interrupts of the core, 0 if there is none in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if status := self.read(0x2C):
                return status
            time.sleep(0.01)
        return 0

    def close(self) -> str:
        self.requests.close()
        self.lines.close()
        return self.process.communicate(timeout=20)[1]


@pytest.fixture
def kernel(npu_process: Path, tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(npu_process, tmp_path)
    yield kernel
    if kernel.process.poll() is None:
        kernel.close()


class Loaded:
    """A program of three tasks in the guest's memory."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        program = build_program(chain_partition(), "test")
        executable = _native.Executable(serialize_program(program), device="simulator")
        inputs = random_inputs(executable, 0)
        self.capture = capture_of_program(program, inputs, executable.run(inputs), "board")
        images = self.capture.memory()
        expected = {name: image.copy() for name, image in images.items()}
        jobs = [[(t.regcmd, t.regcmd_count, "") for t in job.tasks] for job in self.capture.jobs]
        regions = [(b.name, b.dma_address, expected[b.name]) for b in self.capture.buffers]
        _native.simulate(regions, jobs)
        self.expected = expected["output"].tobytes()
        self.pages = {
            b.name: kernel.map(b.dma_address, images[b.name].tobytes())
            for b in self.capture.buffers
        }
        self.tasks = [task for job in self.capture.jobs for task in job.tasks]

    def output(self) -> bytes:
        found = b"".join(
            self.kernel.ram[page - RAM_BASE : page - RAM_BASE + PAGE]
            for page in self.pages["output"]
        )
        return found[: len(self.expected)]

    def run(self) -> None:
        for number, task in enumerate(self.tasks):
            self.kernel.start(task.regcmd, task.regcmd_count)
            # The groups alternate from task to task.
            assert self.kernel.wait() in (0x100, 0x200), number
            assert self.kernel.read(0x28)
            assert self.kernel.levels == 1
            self.kernel.write(0x24, 0x1FFFF)
            assert self.kernel.levels == 0


def test_tasks_run_in_the_guests_memory_through_its_page_tables(kernel):
    loaded = Loaded(kernel)
    assert loaded.output() != loaded.expected
    loaded.run()
    assert loaded.output() == loaded.expected
    assert "VIOLATION" not in kernel.close()


def test_a_task_hangs_until_its_core_is_reset(kernel):
    loaded = Loaded(kernel)
    kernel.faults.write_text("hang 2\n")
    first, second = loaded.tasks[:2]
    kernel.start(first.regcmd, first.regcmd_count)
    assert kernel.wait()
    kernel.write(0x24, 0x1FFFF)
    kernel.start(second.regcmd, second.regcmd_count)
    assert kernel.wait(0.3) == 0
    kernel.write(0, 3, RESETS)
    kernel.write(0, 0, RESETS)
    assert kernel.read(0x14) == 0
    loaded.run()
    assert loaded.output() == loaded.expected


@pytest.mark.parametrize("fault", ["", "hang 1", "slow 1 5000", "page 1"])
def test_the_guests_clock_waits_for_the_simulator_and_for_nothing_else(kernel, fault):
    """The clock waits from the kick on, until the task is done or will never be."""
    loaded = Loaded(kernel)
    kernel.faults.write_text(fault + "\n")
    assert kernel.read(0x00)
    assert not kernel.computes
    kernel.start(loaded.tasks[0].regcmd, loaded.tasks[0].regcmd_count)
    assert kernel.computes
    end = time.monotonic() + 20
    while kernel.computes and time.monotonic() < end:
        kernel.read(0x00)
        time.sleep(0.01)
    assert not kernel.computes
    assert bool(kernel.read(0x2C)) == (fault == "")


def test_an_access_to_nothing_is_a_page_fault(kernel):
    loaded = Loaded(kernel)
    kernel.start(0x3000_0000, 130)
    end = time.monotonic() + 20
    while not kernel.read(IOMMU + 0x14) and time.monotonic() < end:
        time.sleep(0.01)
    assert kernel.read(IOMMU + 0x14) == 1
    assert kernel.read(IOMMU + 0x04) & 2
    assert kernel.read(IOMMU + 0x0C) == 0x3000_0000
    assert kernel.levels == 1
    assert loaded.output() != loaded.expected


@pytest.mark.parametrize(("fault", "raw"), [("silent 1", 0), ("ppu 1", 0x400), ("page 1", 0)])
def test_faults_that_are_asked_for(kernel, fault, raw):
    loaded = Loaded(kernel)
    kernel.faults.write_text(fault + "\n")
    kernel.start(loaded.tasks[0].regcmd, loaded.tasks[0].regcmd_count)
    assert kernel.wait(1 if raw == 0 else 20) == raw
    assert kernel.levels == (fault == "page 1")
    assert kernel.read(0x28) == 0


def test_a_chip_that_deviates_and_one_as_nobody_knows_it(kernel):
    loaded = Loaded(kernel)
    kernel.faults.write_text("deviate 1 dense:cbuf:kept_weights_lost\n")
    loaded.run()  # the program keeps no weights
    assert loaded.output() == loaded.expected
    kernel.faults.write_text("deviate 1 dense:nothing:at_all\n")
    kernel.start(loaded.tasks[0].regcmd, loaded.tasks[0].regcmd_count)
    assert kernel.wait(1) == 0
    kernel.write(0, 3, RESETS)
    kernel.write(0, 0, RESETS)
    assert "HANGS" in kernel.close()


def test_a_kick_of_several_tasks_follows_the_links(kernel):
    """As the vendor's driver starts them: one kick, one interrupt, and a count of what is done."""
    loaded = Loaded(kernel)
    assert len(loaded.tasks) > 1
    first = loaded.tasks[0]
    kernel.start(first.regcmd, first.regcmd_count, tasks=len(loaded.tasks))
    assert kernel.wait(20)
    assert loaded.output() == loaded.expected
    assert kernel.read(0x3C) == len(loaded.tasks)
    kernel.write(0x24, 0x1FFFF)
    kernel.start(first.regcmd, first.regcmd_count, tasks=len(loaded.tasks) + 1)
    assert kernel.wait(1) == 0
    assert "the tail has no link" in kernel.close()


def test_what_no_driver_should_do_is_said(kernel):
    loaded = Loaded(kernel)
    kernel.faults.write_text("hang 1\n")
    for _ in range(2):
        kernel.start(loaded.tasks[0].regcmd, loaded.tasks[0].regcmd_count)
        time.sleep(0.2)
    kernel.write(0x10, 0)
    kernel.write(0x1004, 0xE)
    kernel.write(0x50, 1)
    kernel.write(0, 3, RESETS)
    log = kernel.close()
    assert "VIOLATION: started while a task runs" in log
    assert "VIOLATION: CNA written without" in log
    assert "unknown register 0x50" in log


def test_the_first_words_are_those_of_boards(kernel):
    assert kernel.windows[0] == 0xFDAB0000
    assert kernel.read(0x00) == 0x46495245
    assert np.count_nonzero(kernel.windows) == 8
