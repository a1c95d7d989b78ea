"""DPU_RDMA of RK3576: reader of the DPU's operands."""

from __future__ import annotations

from delegate.chip.register_model import Certainty, block, control_registers


def _operands(base: int, reader: str, stage: str) -> str:
    return f"""
{base:#06x} RDMA_{reader}_CFG: Operands of {stage} in memory: per channel, and scalars.
  10:8 {reader}_DATA_USE (OperandData): per channel
  4 SCALAR_SHIFT: a word of shifts: 5:0 of values >= 0, 13:8 of others
  3 SCALAR_MUL: a multiplier
  1 SCALAR_ALU: a summand
"""


DPU_RDMA = block(
    "DPU_RDMA",
    0x2001,
    "Reader of the DPU's operands.",
    f"""
{control_registers(0x5000, "RDMA_")}
0x500c RDMA_DATA_CUBE_WIDTH: Width of the tile.
  15:0 WIDTH (m1): pixels
0x5010 RDMA_DATA_CUBE_HEIGHT: Height of the tile.
  15:0 HEIGHT (m1): rows
0x5014 RDMA_DATA_CUBE_CHANNEL: Channels of the tile.
  15:0 CHANNEL (m1): channels
0x5018 RDMA_SRC_BASE_ADDR (address): Address of the main operand.
  31:0 ADDRESS: byte address
{_operands(0x501C, "BRDMA", "BS")}
0x5020 RDMA_BS_BASE_ADDR (address): Address of BS's operands per channel.
  31:0 ADDRESS: byte address
0x5024 RDMA_BS_SCALAR_ADDR (address): Address of BS's scalars.
  31:0 ADDRESS: byte address
{_operands(0x5028, "NRDMA", "BN")}
0x502c RDMA_BN_BASE_ADDR (address): Address of BN's operands per channel.
  31:0 ADDRESS: byte address
0x5030 RDMA_BN_SCALAR_ADDR (address): Address of BN's scalars.
  31:0 ADDRESS: byte address
0x5034 RDMA_ERDMA_CFG (switches): Reader of EW's operand: 0x41 off.
0x5038 RDMA_EW_BASE_ADDR (address): Address of EW's operand.
  31:0 ADDRESS: byte address
0x5040 RDMA_EW_SURF_STRIDE: Pitch of the surfaces of EW's operand.
  27:0 EW_SURF_STRIDE (x16): bytes per surface
0x5044 RDMA_FEATURE_MODE_CFG (switches): Which readers run.
0x5048 UNDOCUMENTED_5048 (switches): 0 in every known convolution.
0x504c UNDOCUMENTED_504C (switches): 0 in every known convolution.
0x5064 UNDOCUMENTED_5064 (switches): 0 in every known convolution.
0x506c UNDOCUMENTED_506C (switches): 0 in every known convolution.
0x5078 UNDOCUMENTED_5078 (switches): 0 in every known convolution.
0x507c UNDOCUMENTED_507C (switches): 0 in every known convolution.
""",
    Certainty.OBSERVED,
)
