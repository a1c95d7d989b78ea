"""The last two words of every segment: addressed like registers, but of no block."""

from __future__ import annotations

from delegate.chip.register_model import Access, Certainty, bit, block, reg

SYNC = block(
    "SYNC",
    0x0041,
    "A word with no content that must precede the start word.",
    reg(
        0x0000,
        "BARRIER",
        "Value 0; every correct program has it before the start word.",
        access=Access.STREAM,
        certainty=Certainty.OBSERVED,
    ),
)

ENABLE = block(
    "ENABLE",
    0x0081,
    "The start word.",
    reg(
        0x0008,
        "OPERATION_ENABLE",
        "Starts the blocks of a task together: 0x1d convolution, 0x18 element-wise, 0x60 pooling.",
        bit(6, "PPU_RDMA", "start"),
        bit(5, "PPU", "start"),
        bit(4, "DPU_RDMA", "start"),
        bit(3, "DPU", "start"),
        bit(2, "CORE", "start"),
        bit(0, "CNA", "start"),
        certainty=Certainty.OBSERVED,
    ),
)
