"""PPU: pooling.

PPU_RDMA: reader of the PPU.
"""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers


def cube_registers(base: int, prefix: str, name: str, meaning: str) -> str:
    """Width, height and channels of the cube called ``name``; of the PPU and its reader."""
    return f"""
{base:#06x} {prefix}CUBE_{name}_WIDTH: Width of the {meaning}.
  12:0 CUBE_{name}_WIDTH (m1): pixels
{base + 4:#06x} {prefix}CUBE_{name}_HEIGHT: Height of the {meaning}.
  12:0 CUBE_{name}_HEIGHT (m1): rows
{base + 8:#06x} {prefix}CUBE_{name}_CHANNEL: Channel of the {meaning}.
  12:0 CUBE_{name}_CHANNEL (m1): channels
"""


PPU = block(
    "PPU",
    0x4001,
    "Pooling.",
    f"""
{control_registers(0x6000)}
{cube_registers(0x600C, "DATA_", "IN", "input")}
{cube_registers(0x6018, "DATA_", "OUT", "output")}
0x6024 OPERATION_MODE_CFG: Pooling method.
  30 INDEX_EN: write positions
  28:16 NOTCH_ADDR: pixels to skip after each row
  7:5 USE_CNT: use count
  4 FLYING_MODE: 1: input from PPU_RDMA, 0: from DPU
  1:0 POOLING_METHOD (PoolMethod): method
0x6034 POOLING_KERNEL_CFG: Kernel and strides.
  23:20 KERNEL_STRIDE_HEIGHT (m1): stride in h
  19:16 KERNEL_STRIDE_WIDTH (m1): stride in w
  11:8 KERNEL_HEIGHT (m1): kh
  3:0 KERNEL_WIDTH (m1): kw
0x6038 RECIP_KERNEL_WIDTH: Average pooling: 65536 / kw.
  16:0 RECIP_KERNEL_WIDTH: reciprocal
0x603c RECIP_KERNEL_HEIGHT: Average pooling: 65536 / kh.
  16:0 RECIP_KERNEL_HEIGHT: reciprocal
0x6040 POOLING_PADDING_CFG: Padding.
  14:12 PAD_BOTTOM: rows
  10:8 PAD_RIGHT: columns
  6:4 PAD_TOP: rows
  2:0 PAD_LEFT: columns
0x6044 PADDING_VALUE_1_CFG: Padding value, low 32 of 35 bits.
  31:0 PAD_VALUE_0: low bits
0x6048 PADDING_VALUE_2_CFG: Padding value, high 3 of 35 bits.
  2:0 PAD_VALUE_1: high bits
0x6070 DST_BASE_ADDR (address): Address of the output.
  31:4 DST_BASE_ADDR (x16): byte address
0x607c DST_SURF_STRIDE: Pitch of output surfaces.
  31:4 DST_SURF_STRIDE (x16): bytes per surface
0x6084 DATA_FORMAT: Element type and source.
  31:4 INDEX_ADD (x16): bytes, as DST_SURF_STRIDE
  3 DPU_FLYIN: the DPU reads from memory
  2:0 PROC_PRECISION (DpuPrecision): arithmetic
0x60dc MISC_CTRL: Output mode.
  31:16 SURF_LEN: surface length
  8 MC_SURF_OUT: several surfaces out
  7 NONALIGN: unaligned
  3:0 BURST_LEN (BurstLength): write bursts
""",
)


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
