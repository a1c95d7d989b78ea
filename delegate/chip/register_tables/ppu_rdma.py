"""PPU_RDMA: reader of the PPU."""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers
from delegate.chip.register_tables.ppu import cube_registers

PPU_RDMA = block(
    "PPU_RDMA",
    0x8001,
    "Reader of the PPU.",
    f"""
{control_registers(0x7000, "RDMA_")}
{cube_registers(0x700C, "RDMA_", "IN", "input")}
0x701c RDMA_SRC_BASE_ADDR (address): Address of the input.
  31:0 SRC_BASE_ADDR: byte address
0x7024 RDMA_SRC_LINE_STRIDE: Pitch of rows.
  31:4 SRC_LINE_STRIDE (x16): bytes per row
0x7028 RDMA_SRC_SURF_STRIDE: Pitch of surfaces.
  31:4 SRC_SURF_STRIDE (x16): bytes per surface
0x7030 RDMA_DATA_FORMAT: Element size.
  1:0 IN_PRECISION (ElementSize): element
""",
)
