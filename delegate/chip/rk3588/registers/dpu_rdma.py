"""DPU_RDMA: readers of the DPU: MRDMA main, BRDMA for BS, NRDMA for BN, ERDMA for EW."""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers

DPU_RDMA = block(
    "DPU_RDMA",
    0x2001,
    "Readers of the DPU: MRDMA main, BRDMA for BS, NRDMA for BN, ERDMA for EW.",
    f"""
{control_registers(0x5000, "RDMA_")}
0x500c RDMA_DATA_CUBE_WIDTH: Width of the tile.
  12:0 WIDTH (m1): pixels
0x5010 RDMA_DATA_CUBE_HEIGHT: Height of the tile.
  28:16 EW_LINE_NOTCH_ADDR: ERDMA: pixels to skip after each row
  12:0 HEIGHT (m1): rows
0x5014 RDMA_DATA_CUBE_CHANNEL: Channels of the tile.
  12:0 CHANNEL (m1): channels, whole groups
0x5018 RDMA_SRC_BASE_ADDR (address): MRDMA: address of the main operand.
  31:0 SRC_BASE_ADDR: byte address
0x501c RDMA_BRDMA_CFG: BRDMA: which BS operands are read.
  4:1 BRDMA_DATA_USE (OperandData): operands
0x5020 RDMA_BS_BASE_ADDR (address): BRDMA: address of the BS operands.
  31:0 BS_BASE_ADDR: byte address
0x5028 RDMA_NRDMA_CFG: NRDMA: which BN operands are read.
  4:1 NRDMA_DATA_USE (OperandData): operands
0x502c RDMA_BN_BASE_ADDR (address): NRDMA: address of the BN operands.
  31:0 BN_BASE_ADDR: byte address
0x5034 RDMA_ERDMA_CFG: ERDMA: how the EW operand is read.
  31:30 ERDMA_DATA_MODE (EwDataMode): per channel or pixel
  29 ERDMA_SURF_MODE: two surfaces in series
  28 ERDMA_NONALIGN: unaligned
  3:2 ERDMA_DATA_SIZE (ElementSize): element
  1 OV4K_BYPASS: do not split bursts at 4 KiB
  0 ERDMA_DISABLE: reader off
0x5038 RDMA_EW_BASE_ADDR (address): ERDMA: address of the EW operand.
  31:0 EW_BASE_ADDR: byte address
0x5040 RDMA_EW_SURF_STRIDE: ERDMA: pitch of surfaces.
  31:4 EW_SURF_STRIDE (x16): bytes per surface
0x5044 RDMA_FEATURE_MODE_CFG: Mode of the whole block.
  17:15 IN_PRECISION (DpuPrecision): input
  14:11 BURST_LEN (BurstLength): read bursts
  10:8 COMB_USE (CombinedRead): readers that share a cube
  7:5 PROC_PRECISION (DpuPrecision): arithmetic
  4 MRDMA_DISABLE: reader of the main operand off
  3 MRDMA_FP16TOFP32_EN: widen fp16
  2:1 CONV_MODE (ConvMode): as CNA.CONV_CON1
  0 FLYING_MODE: MRDMA feeds the DPU
0x5048 RDMA_SRC_DMA_CFG: MRDMA: row notch and unpooling.
  31:19 LINE_NOTCH_ADDR: pixels to skip after each row
  13 POOLING_METHOD: 0: repeat
  12 UNPOOLING_EN: enlarge
  11:9 KERNEL_STRIDE_HEIGHT (m1): stride in h
  8:6 KERNEL_STRIDE_WIDTH (m1): stride in w
  5:3 KERNEL_HEIGHT (m1): kernel rows
  2:0 KERNEL_WIDTH (m1): kernel columns
0x504c RDMA_SURF_NOTCH: MRDMA: bytes to skip after the rows of a surface.
  31:4 SURF_NOTCH_ADDR (signed, x16): bytes
0x5064 RDMA_PAD_CFG: MRDMA: padding of unpooling.
  31:16 PAD_VALUE: value
  6:4 PAD_TOP: rows
  2:0 PAD_LEFT: columns
0x5068 RDMA_WEIGHT: Arbitration between the four readers.
  31:24 E_WEIGHT: share of ERDMA
  23:16 N_WEIGHT: share of NRDMA
  15:8 B_WEIGHT: share of BRDMA
  7:0 M_WEIGHT: share of MRDMA
0x506c RDMA_EW_SURF_NOTCH: ERDMA: bytes to skip after the rows of a surface.
  31:4 EW_SURF_NOTCH (signed, x16): bytes
""",
)
