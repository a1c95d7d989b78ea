"""A small assembler of command streams, written from the register description only.

It knows offsets and bit positions itself, so that neither the project's register table nor its
encoder can hide a mistake of the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate import _native

TARGETS = {0x1: 0x0201, 0x3: 0x0801, 0x4: 0x1001, 0x5: 0x2001, 0x6: 0x4001, 0x7: 0x8001}
PC_BASE = (0x0101, 0x10)
PC_AMOUNTS = (0x0101, 0x14)
CONV, CONV_NO_RDMA, FLYING, POOL = 0x1D, 0x0D, 0x18, 0x60
REARM, CLEAR = 0xE, 0x30

# Registers by name where tests speak of them.
CONV_CON1, CONV_CON2, CONV_CON3 = 0x100C, 0x1010, 0x1014
DATA_SIZE0, DATA_SIZE1, DATA_SIZE2, DATA_SIZE3 = 0x1020, 0x1024, 0x1028, 0x102C
WEIGHT_SIZE0, WEIGHT_SIZE1, WEIGHT_SIZE2 = 0x1030, 0x1034, 0x1038
CBUF_CON0, CBUF_CON1, CVT_CON0, PAD_CON0 = 0x1040, 0x1044, 0x104C, 0x1068
FEATURE_DATA_ADDR, DMA_CON0, DMA_CON1, DMA_CON2 = 0x1070, 0x1078, 0x107C, 0x1080
FC_DATA_SIZE0, FC_DATA_SIZE1, DCOMP_ADDR0, PAD_CON1 = 0x1084, 0x1088, 0x1110, 0x1184
CORE_MISC_CFG, DATAOUT_SIZE_0, DATAOUT_SIZE_1, CLIP_TRUNCATE = 0x3010, 0x3014, 0x3018, 0x301C
DPU_S_POINTER, FEATURE_MODE_CFG, DATA_FORMAT, OFFSET_PEND = 0x4004, 0x400C, 0x4010, 0x4014
DST_BASE_ADDR, DST_SURF_STRIDE, CUBE_WIDTH, CUBE_HEIGHT = 0x4020, 0x4024, 0x4030, 0x4034
CUBE_NOTCH, CUBE_CHANNEL, BS_CFG, BS_ALU_CFG = 0x4038, 0x403C, 0x4040, 0x4044
BS_MUL_CFG, BS_RELUX, BS_OW_CFG, BS_OW_OP = 0x4048, 0x404C, 0x4050, 0x4054
WDMA_SIZE_0, WDMA_SIZE_1, BN_CFG, BN_ALU_CFG = 0x4058, 0x405C, 0x4060, 0x4064
BN_MUL_CFG, BN_RELUX, EW_CFG, EW_CVT_OFFSET = 0x4068, 0x406C, 0x4070, 0x4074
EW_CVT_SCALE, EW_RELUX, OUT_OFFSET, OUT_SCALE, OUT_SHIFT = 0x4078, 0x407C, 0x4080, 0x4084, 0x4088
EW_OP_VALUE_0, SURFACE_ADD = 0x4090, 0x40C0
RDMA_S_POINTER, RDMA_WIDTH, RDMA_HEIGHT, RDMA_CHANNEL = 0x5004, 0x500C, 0x5010, 0x5014
RDMA_SRC_BASE, BRDMA_CFG, BS_BASE, NRDMA_CFG, BN_BASE = 0x5018, 0x501C, 0x5020, 0x5028, 0x502C
ERDMA_CFG, EW_BASE, EW_SURF_STRIDE, RDMA_FEATURE_MODE = 0x5034, 0x5038, 0x5040, 0x5044
RDMA_SRC_DMA, SURF_NOTCH, EW_SURF_NOTCH = 0x5048, 0x504C, 0x506C

Registers = dict[int, int]


def word(target: int, offset: int, value: int) -> int:
    return target << 48 | (value & 0xFFFFFFFF) << 16 | offset


@dataclass
class Memory:
    """Buffers at page-aligned device addresses, with guard pages between them."""

    regions: list[tuple[str, int, npt.NDArray[np.uint8]]] = field(default_factory=list)
    next_address: int = 0x1000_0000

    def add(self, name: str, content: npt.NDArray[np.generic] | int) -> int:
        """Maps ``content`` (or that many bytes of 0xa5) and returns its device address."""
        if isinstance(content, int):
            image = np.full(content, 0xA5, np.uint8)
        else:
            image = np.frombuffer(content.tobytes(), np.uint8).copy()
        address = self.next_address
        self.next_address += -(-image.size // 4096) * 4096 + 4096
        self.regions.append((name, address, image))
        return address

    def bytes(self, name: str) -> npt.NDArray[np.uint8]:
        return next(image for region, _, image in self.regions if region == name)

    def copy(self) -> Memory:
        return Memory([(n, a, b.copy()) for n, a, b in self.regions], self.next_address)


def body(registers: Registers, mask: int, rearm: bool = True, pointer: int = REARM) -> list[int]:
    """The register writes of a task. S_POINTERs come first, as programs have them."""
    words = []
    if rearm:
        for bit, offset in ((0x8, 0x4004), (0x10, 0x5004), (0x20, 0x6004), (0x40, 0x7004)):
            if mask & bit:
                words.append(word(TARGETS[offset >> 12], offset, pointer))
    return words + [
        word(TARGETS[offset >> 12], offset, value) for offset, value in registers.items()
    ]


def tail(mask: int, next_address: int = 0, next_body_words: int = 0) -> list[int]:
    amount = (next_body_words + 3) // 2 if next_address else 0
    return [
        word(*PC_BASE, next_address) if next_address else 0,
        word(*PC_AMOUNTS, amount),
        word(0x0041, 0, 0),
        word(0x0081, 8, mask),
    ]


@dataclass
class Program:
    """Tasks as bodies; ``place`` links them into one command buffer."""

    bodies: list[list[int]] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)

    def add(
        self,
        registers: Registers,
        mask: int = CONV,
        rearm: bool = True,
        pointer: int = REARM,
        extra: list[int] | None = None,
    ) -> None:
        self.bodies.append(body(registers, mask, rearm, pointer) + (extra or []))
        self.masks.append(mask)

    def place(self, memory: Memory, name: str = "regcmd") -> list[tuple[int, int, str]]:
        """Writes the linked segments and returns the tasks (address, words, layer)."""
        sizes = [-(-(len(words) + 4) // 8) * 8 for words in self.bodies]
        address = memory.next_address
        starts = [address + 8 * sum(sizes[:i]) for i in range(len(sizes))]
        image = np.zeros(sum(sizes), np.uint64)
        tasks = []
        for i, words in enumerate(self.bodies):
            last = i + 1 == len(self.bodies)
            link = (0, 0) if last else (starts[i + 1], len(self.bodies[i + 1]))
            segment = words + tail(self.masks[i], *link)
            first = (starts[i] - address) // 8
            image[first : first + len(segment)] = segment
            tasks.append((starts[i], len(segment), f"layer{i}"))
        placed = memory.add(name, image)
        assert placed == address
        return tasks


def run(
    memory: Memory,
    tasks: Iterable[tuple[int, int, str]],
    *,
    chained: bool = False,
    plain: bool = False,
    threads: int = 1,
    isa: str = "auto",
    kernel: str = "",
    lenient: bool = False,
    deviations: str = "",
) -> dict[str, Any]:
    return _native.simulate(
        memory.regions, [list(tasks)], chained=chained, plain=plain, threads=threads, isa=isa,
        kernel=kernel, lenient=lenient, deviations=deviations,
    )  # fmt: skip


def run_one(memory: Memory, registers: Registers, mask: int = CONV, **how: Any) -> None:
    """Run one task; ``how``: as ``run`` has it, by all ways without."""
    program = Program()
    program.add(registers, mask)
    tasks = program.place(memory)
    run(memory, tasks, **how) if how else run_all_ways(memory, tasks)


def available_isas() -> list[str]:
    """The instruction sets that this processor and build have."""
    found = []
    for isa in ("portable", "avx2", "avx512vnni", "neon", "neondot"):
        try:
            _native.simulate([], [], isa=isa)
        except ValueError:
            continue
        found.append(isa)
    return found


def run_all_ways(memory: Memory, tasks: list[tuple[int, int, str]], **how: Any) -> None:
    """Run by the literal path; check that every instruction set, and threads, leave the same."""
    copies = [memory.copy() for _ in (*ISAS, "threads")]
    run(memory, tasks, plain=True, **how)
    for copy, way in zip(copies, (*({"isa": isa} for isa in ISAS), {"threads": 3}), strict=True):
        run(copy, tasks, **way, **how)
        for (name, _, wanted), (_, _, found) in zip(memory.regions, copy.regions, strict=True):
            np.testing.assert_array_equal(found, wanted, f"{name} {way}")


ISAS = available_isas()
