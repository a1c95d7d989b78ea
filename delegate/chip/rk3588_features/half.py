"""What RK3588 does in fp16: the array, the DPU alone, and the stages' operands.

2 is fp16 in fields of element types and sizes.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

_DPU = """
  DPU.DATA_FORMAT: IN_PRECISION=2 PROC_PRECISION=2 OUT_PRECISION=2
  DPU.OUT_CVT_SCALE: FP32TOFP16_EN=1
  DPU.BS_OW_CFG: OD_BYPASS=1
"""
_EW = """
  DPU.DATA_FORMAT: PROC_PRECISION=2
  DPU.EW_CFG: EW_BYPASS=0 EW_OP_BYPASS=0 EW_OP_SRC=1 EDATA_SIZE=2
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DATA_SIZE=2
"""

HALF: Final = read_features(f"""
fp16_convolution: convolution of fp16 cubes: exact products, sums of 32 rounded to fp32, a \
    summand of fp32
  vendor: vendor: 41 programs; measured by others on 217 shapes
  without: float models stay on the CPU
{_DPU}
  ENABLE.OPERATION_ENABLE: CNA=1
  CNA.CONV_CON1: IN_PRECISION=2 PROC_PRECISION=2
  CORE.MISC_CFG: PROC_PRECISION=2
  reported: lane 0 of 16 shows rare deviations that depend on the core
fp16_element_wise: the DPU works on an fp16 tensor from memory
  vendor: vendor: sums, products, maxima and activations, every element equal
  without: element-wise operators of float models stay on the CPU
{_DPU}
  ENABLE.OPERATION_ENABLE: CNA=0
fp16_operand: EW adds or subtracts a second tensor of fp16
  vendor: vendor: sums and differences
  without: sums of float models stay on the CPU
{_EW}
  DPU.EW_CFG: EW_OP_TYPE=0
ew_difference: EW subtracts a second tensor
  vendor: vendor: differences
  without: differences of float models stay on the CPU
{_EW}
  DPU.EW_CFG: EW_OP_TYPE=0 EW_ALU_ALGO=4
fp16_slopes: BN multiplies negative values only, by an fp16 per channel from memory
  vendor: vendor: PReLU
  without: such a PRELU stays on the CPU
  DPU.DATA_FORMAT: PROC_PRECISION=2
  DPU.BN_CFG: BN_BYPASS=0 BN_MUL_BYPASS=0 BN_MUL_PRELU=1
  DPU.BN_MUL_CFG: BN_MUL_SRC=1
  DPU_RDMA.RDMA_NRDMA_CFG: NRDMA_DATA_USE=4
fp16_table: in fp16 a number selects a place between two entries of the tables; results are over \
    2^15
  vendor: vendor: sigmoid, tanh and exp, with another rounding of the last bit
  without: LOGISTIC and TANH of float models stay on the CPU
{_DPU}
  DPU.EW_CFG: EW_BYPASS=0 EW_LUT_BYPASS=0
  DPU.OUT_CVT_SHIFT: MINUS_EXP=15
  reported: 128 too much in runs of equal entries and near 0 (the proof has both)
fp16_factors: BN multiplies by an fp16 per channel from memory
  documented: manual; vendor: slopes from memory, and products with a register
  without: products with one value per channel of float models stay on the CPU
  DPU.DATA_FORMAT: PROC_PRECISION=2
  DPU.BN_CFG: BN_BYPASS=0 BN_MUL_BYPASS=0 BN_MUL_PRELU=0
  DPU.BN_MUL_CFG: BN_MUL_SRC=1
  DPU_RDMA.RDMA_NRDMA_CFG: NRDMA_DATA_USE=4
""")  # fmt: skip
