"""PPU_RDMA: reader of the PPU."""

from __future__ import annotations

from delegate.chip.register_model import ElementSize, address, bits, block, control_registers, reg
from delegate.chip.register_tables.ppu import cube_registers

PPU_RDMA = block(
    "PPU_RDMA",
    0x8001,
    "Reader of the PPU.",
    *control_registers(0x7000, "RDMA_"),
    *cube_registers(0x700C, "RDMA_", "IN", "input"),
    address(0x701C, "RDMA_SRC_BASE_ADDR", "Address of the input.", "SRC_BASE_ADDR"),
    reg(
        0x7024,
        "RDMA_SRC_LINE_STRIDE",
        "Pitch of rows.",
        bits(31, 4, "SRC_LINE_STRIDE", "bytes per row", unit=16),
    ),
    reg(
        0x7028,
        "RDMA_SRC_SURF_STRIDE",
        "Pitch of surfaces.",
        bits(31, 4, "SRC_SURF_STRIDE", "bytes per surface", unit=16),
    ),
    reg(
        0x7030,
        "RDMA_DATA_FORMAT",
        "Element size.",
        bits(1, 0, "IN_PRECISION", "element", ElementSize),
    ),
)
