"""What RK3588's DPU does with tensors from memory, and EW with its operand."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

_EW_MEMORY = """
  DPU.EW_CFG: EW_BYPASS=0 EW_OP_BYPASS=0 EW_OP_SRC=1
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DISABLE=0
"""

ELEMENT_WISE: Final = read_features(f"""
element_wise_alone: the DPU works on a tensor from memory, without a convolution
  vendor: vendor: element-wise operators and copies; measured by others at 8, 16 and 32 bits
  without: element-wise operators stay on the CPU
  ENABLE.OPERATION_ENABLE: DPU=1
  DPU.FEATURE_MODE_CFG: FLYING_MODE=1
  DPU_RDMA.RDMA_FEATURE_MODE_CFG: FLYING_MODE=1 MRDMA_DISABLE=0
  DPU.BS_OW_CFG: OD_BYPASS=1
operand_conversion: EW's operand is shifted in value, scaled by 16 bits and rounded before the \
    operation
  silicon: Mesa: additions
  without: element-wise operators of two tensors stay on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_OP_CVT_BYPASS=0 EW_CVT_TYPE=1
ew_addition: EW adds a second tensor
  silicon: Mesa: additions, behind a convolution; vendor: alone
  without: additions stay on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=1 EW_OP_TYPE=0 EW_ALU_ALGO=2
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DATA_MODE=1
ew_addition_behind_convolution: the same in a convolution's own task: two readers take turns with \
    the tensor's surfaces
  silicon: Mesa: additions, behind a convolution
  without: additions are tasks of their own
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=1
  ENABLE.OPERATION_ENABLE: CNA=1
  DPU_RDMA.RDMA_FEATURE_MODE_CFG: COMB_USE=5 MRDMA_DISABLE=0
ew_addition_per_channel: EW adds a number per channel from memory
  vendor: vendor: operands that are broadcast
  without: nodes that use it stay on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=0 EW_OP_TYPE=0 EW_ALU_ALGO=2
ew_maximum: EW takes the greater of two tensors
  measured: measured by others; vendor: behind scales
  without: pooling and maxima stay on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=1 EW_OP_TYPE=0 EW_ALU_ALGO=0
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DATA_MODE=1
ew_minimum: EW takes the smaller of two tensors
  measured: measured by others; vendor: behind scales
  without: minima stay on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=1 EW_OP_TYPE=0 EW_ALU_ALGO=1
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DATA_MODE=1
ew_maximum_per_channel: EW takes the greater of a tensor and a number per channel from memory
  documented: manual; vendor: maximum of two tensors, and other operations per channel
  without: such a MAXIMUM stays on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=0 EW_OP_TYPE=0 EW_ALU_ALGO=0
ew_minimum_per_channel: EW takes the smaller of a tensor and a number per channel from memory
  documented: manual; vendor: minimum of two tensors, and other operations per channel
  without: such a MINIMUM stays on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=0 EW_OP_TYPE=0 EW_ALU_ALGO=1
ew_product: EW multiplies two tensors
  vendor: vendor: products
  without: products stay on the CPU
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=1 EW_OP_TYPE=1
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DATA_MODE=1
ew_product_per_channel: EW multiplies by a number per channel from memory
  vendor: vendor: in element-wise tasks
  without: one rounding per channel, within one step
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=0 EW_OP_TYPE=1
ew_product_behind_convolution: the same in a convolution's own task
  documented: manual; vendor: EW behind convolutions, and per channel alone, never both
  without: one rounding per channel, within one step
{_EW_MEMORY}
  DPU.EW_CFG: EW_DATA_MODE=0
  ENABLE.OPERATION_ENABLE: CNA=1
  DPU.EW_CFG: EW_OP_TYPE=1
wide_ew_operand: EW's operand of 16 bits, an integer
  documented: manual; measured by others in tasks of 16 bits altogether
  without: one rounding per channel, within one step
{_EW_MEMORY}
  DPU.OUT_CVT_SCALE: FP32TOFP16_EN=0
  DPU.EW_CFG: EDATA_SIZE=2
  DPU_RDMA.RDMA_ERDMA_CFG: ERDMA_DATA_SIZE=2
ew_register_operand: EW adds a number from registers
  vendor: vendor: clamps between two limits
  without: nodes that are clamped so stay on the CPU
  DPU.EW_CFG: EW_BYPASS=0 EW_OP_BYPASS=0 EW_OP_SRC=0 EW_OP_TYPE=0 EW_ALU_ALGO=2 EW_DATA_MODE=1
ew_truncation: EW shifts its product to the right, rounded, before the output is scaled
  documented: manual
  without: products that need two roundings stay on the CPU
  DPU.EW_CVT_SCALE_VALUE: EW_TRUNCATE=nonzero
ew_relu: EW makes values below 0 to 0, behind its operation
  vendor: vendor: additions with ReLU
  without: nodes that use it stay on the CPU
  DPU.EW_CFG: EW_BYPASS=0 EW_RELU_BYPASS=0
ew_upper_limit: EW clamps above, behind its operation
  documented: manual
  without: nodes that use it stay on the CPU
  DPU.EW_CFG: EW_BYPASS=0 EW_RELUX_EN=1
""")  # fmt: skip
