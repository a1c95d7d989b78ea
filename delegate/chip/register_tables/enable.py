"""The last two words of every segment: addressed like registers, but of no block."""

from __future__ import annotations

from delegate.chip.register_model import block

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
