"""PC: program controller; fetches command segments and starts the blocks."""

from __future__ import annotations

from delegate.chip.register_model import (
    Access,
    Certainty,
    bit,
    bits,
    block,
    reg,
)

_INTERRUPTS = (
    bit(13, "DMA_WRITE_ERROR", "dma write error"),
    bit(12, "DMA_READ_ERROR", "dma read error"),
    bit(11, "PPU_1", "PPU finished, register group 1"),
    bit(10, "PPU_0", "PPU finished, register group 0"),
    bit(9, "DPU_1", "DPU finished, register group 1"),
    bit(8, "DPU_0", "DPU finished, register group 0"),
    bit(7, "CORE_1", "CORE finished, register group 1"),
    bit(6, "CORE_0", "CORE finished, register group 0"),
    bit(5, "CNA_CSC_1", "CNA CSC finished, register group 1"),
    bit(4, "CNA_CSC_0", "CNA CSC finished, register group 0"),
    bit(3, "CNA_WEIGHT_1", "CNA WEIGHT finished, register group 1"),
    bit(2, "CNA_WEIGHT_0", "CNA WEIGHT finished, register group 0"),
    bit(1, "CNA_FEATURE_1", "CNA FEATURE finished, register group 1"),
    bit(0, "CNA_FEATURE_0", "CNA FEATURE finished, register group 0"),
)

PC = block(
    "PC",
    0x0101,
    "Program controller; fetches command segments and starts the blocks.",
    reg(
        0x0000,
        "VERSION",
        "Hardware version.",
        bits(31, 0, "VERSION", "version"),
        access=Access.STATUS,
    ),
    reg(
        0x0004,
        "VERSION_NUM",
        "Hardware version number.",
        bits(31, 0, "VERSION_NUM", "number"),
        access=Access.STATUS,
    ),
    reg(
        0x0008,
        "OPERATION_ENABLE",
        "Starts the program controller.",
        bit(0, "OP_EN", "start fetching"),
        access=Access.HOST,
    ),
    reg(
        0x0010,
        "BASE_ADDRESS",
        "Address of the next command segment; in a tail it links to the next task.",
        bits(31, 4, "PC_SOURCE_ADDR", "segment address / 16", unit=16),
        bit(0, "PC_SEL", "1: registers are written by the CPU, not by the PC"),
        is_address=True,
    ),
    reg(
        0x0014,
        "REGISTER_AMOUNTS",
        "Length of the next segment: (body words + 3) // 2; 0 in the last tail.",
        bits(31, 28, "TAG", "set by some compilers, without effect", certainty=Certainty.OBSERVED),
        bits(17, 16, "WAIT_CORES", "other cores to wait for", certainty=Certainty.OBSERVED),
        bits(15, 0, "PC_DATA_AMOUNT", "fetch amount in pairs of words"),
    ),
    reg(
        0x0020,
        "INTERRUPT_MASK",
        "Enabled interrupts: 0x300 after a DPU task, 0xc00 after a PPU task.",
        *_INTERRUPTS,
        access=Access.HOST,
    ),
    reg(
        0x0024,
        "INTERRUPT_CLEAR",
        "Acknowledges interrupts.",
        *_INTERRUPTS,
        access=Access.HOST,
    ),
    reg(
        0x0028,
        "INTERRUPT_STATUS",
        "Masked interrupts.",
        *_INTERRUPTS,
        access=Access.STATUS,
    ),
    reg(
        0x002C,
        "INTERRUPT_RAW_STATUS",
        "Interrupts before masking.",
        *_INTERRUPTS,
        access=Access.STATUS,
    ),
    reg(
        0x0030,
        "TASK_CON",
        "Number of tasks in one kick and task ping-pong.",
        bits(14, 14, "TASK_CON_14", "kernels set it", certainty=Certainty.OBSERVED),
        bit(13, "TASK_COUNT_CLEAR", "reset the task counter"),
        bit(12, "TASK_PP_EN", "prefetch the next task"),
        bits(11, 0, "TASK_NUMBER", "tasks until the completion interrupt"),
        access=Access.HOST,
    ),
    reg(
        0x0034,
        "TASK_DMA_BASE_ADDR",
        "Added to the DMA addresses of every block; must be 0.",
        bits(31, 4, "DMA_BASE_ADDR", "base address / 16", unit=16),
        access=Access.HOST,
    ),
    reg(
        0x003C,
        "TASK_STATUS",
        "Progress of the running chain.",
        bits(27, 0, "TASK_STATUS", "bits 11:0: completed tasks"),
        access=Access.STATUS,
    ),
)
