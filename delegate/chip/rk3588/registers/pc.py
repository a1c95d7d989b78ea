"""PC: program controller; fetches command segments and starts the blocks.

The last two words of every segment: addressed like registers, but of no block.
"""

from __future__ import annotations

from delegate.chip.register_model import block

_INTERRUPTS = """
  13 DMA_WRITE_ERROR: dma write error
  12 DMA_READ_ERROR: dma read error
  11 PPU_1: PPU finished, register group 1
  10 PPU_0: PPU finished, register group 0
  9 DPU_1: DPU finished, register group 1
  8 DPU_0: DPU finished, register group 0
  7 CORE_1: CORE finished, register group 1
  6 CORE_0: CORE finished, register group 0
  5 CNA_CSC_1: CNA CSC finished, register group 1
  4 CNA_CSC_0: CNA CSC finished, register group 0
  3 CNA_WEIGHT_1: CNA WEIGHT finished, register group 1
  2 CNA_WEIGHT_0: CNA WEIGHT finished, register group 0
  1 CNA_FEATURE_1: CNA FEATURE finished, register group 1
  0 CNA_FEATURE_0: CNA FEATURE finished, register group 0
"""

PC = block(
    "PC",
    0x0101,
    "Program controller; fetches command segments and starts the blocks.",
    f"""
0x0000 VERSION (status): Hardware version.
  31:0 VERSION: version
0x0004 VERSION_NUM (status): Hardware version number.
  31:0 VERSION_NUM: number
0x0008 OPERATION_ENABLE (host): Starts the program controller.
  0 OP_EN: start fetching
0x0010 BASE_ADDRESS (address): Address of the next command segment; in a tail it links to the \
      next task.
  31:4 PC_SOURCE_ADDR (x16): segment address / 16
  0 PC_SEL: 1: registers are written by the CPU, not by the PC
0x0014 REGISTER_AMOUNTS: Length of the next segment: (body words + 3) // 2; 0 in the last tail.
  31:28 TAG (observed): set by some compilers, without effect
  17:16 WAIT_CORES (observed): other cores to wait for
  15:0 PC_DATA_AMOUNT: fetch amount in pairs of words
0x0020 INTERRUPT_MASK (host): Enabled interrupts: 0x300 after a DPU task, 0xc00 after a PPU task.
{_INTERRUPTS}
0x0024 INTERRUPT_CLEAR (host): Acknowledges interrupts.
{_INTERRUPTS}
0x0028 INTERRUPT_STATUS (status): Masked interrupts.
{_INTERRUPTS}
0x002c INTERRUPT_RAW_STATUS (status): Interrupts before masking.
{_INTERRUPTS}
0x0030 TASK_CON (host): Number of tasks in one kick and task ping-pong.
  14 TASK_CON_14 (observed): kernels set it
  13 TASK_COUNT_CLEAR: reset the task counter
  12 TASK_PP_EN: prefetch the next task
  11:0 TASK_NUMBER: tasks until the completion interrupt
0x0034 TASK_DMA_BASE_ADDR (host): Added to the DMA addresses of every block; must be 0.
  31:4 DMA_BASE_ADDR (x16): base address / 16
0x003c TASK_STATUS (status): Progress of the running chain.
  27:0 TASK_STATUS: bits 11:0: completed tasks
""",
)


SYNC = block(
    "SYNC",
    0x0041,
    "A word with no content that must precede the start word.",
    """
0x0000 BARRIER (observed): Value 0; every correct program has it before the start word.
""",
)

ENABLE = block(
    "ENABLE",
    0x0081,
    "The start word.",
    """
0x0008 OPERATION_ENABLE (observed): Starts the blocks of a task together: 0x1d convolution, 0x18 \
      element-wise, 0x60 pooling.
  6 PPU_RDMA: start
  5 PPU: start
  4 DPU_RDMA: start
  3 DPU: start
  2 CORE: start
  0 CNA: start
""",
)
