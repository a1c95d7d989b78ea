"""What BS and BN of RK3588's DPU do: summands, multipliers, clamps."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

SCALING: Final = read_features("""
summand_per_channel: BS adds an int32 per channel from memory
  silicon: Mesa: biases
  without: nothing runs on the NPU
  DPU.BS_CFG: BS_BYPASS=0 BS_ALU_BYPASS=0 BS_ALU_SRC=1 BS_ALU_ALGO=2
  DPU_RDMA.RDMA_BRDMA_CFG: BRDMA_DATA_USE=1|7
summand: BS adds a number from a register
  vendor: vendor: element-wise operators
  without: element-wise operators stay on the CPU
  DPU.BS_CFG: BS_BYPASS=0 BS_ALU_BYPASS=0 BS_ALU_SRC=0 BS_ALU_ALGO=2
input_sums: BS adds a multiple of the sum of inputs under the window (weights with a zero point)
  silicon: Mesa: weights of uint8 models
  without: nodes whose weights have a zero point stay on the CPU
  ENABLE.OPERATION_ENABLE: CNA=1
  CORE.MISC_CFG: QD_EN=1
  DPU.BS_OW_CFG: OD_BYPASS=0
  DPU.BS_OW_OP: OW_OP=nonzero
input_sums_per_channel: the multiple of the sum of inputs per channel, from memory
  vendor: vendor: per-channel convolutions
  without: nodes with a zero point per channel stay on the CPU
  DPU.BS_OW_CFG: OW_SRC=1
  DPU_RDMA.RDMA_BRDMA_CFG: BRDMA_DATA_USE=7
multiplier: BS multiplies by 16 bits of a register; shifts to the right, ties to even
  vendor: vendor: element-wise operators; rounding measured by others
  without: nodes that use it stay on the CPU
  DPU.BS_CFG: BS_BYPASS=0 BS_MUL_BYPASS=0
  DPU.BS_MUL_CFG: BS_MUL_SRC=0
multiplier_per_channel: BS multiplies by 16 bits per channel from memory
  vendor: vendor: every per-channel convolution
  without: nodes with scales per channel stay on the CPU
  DPU.BS_CFG: BS_BYPASS=0 BS_MUL_BYPASS=0
  DPU.BS_MUL_CFG: BS_MUL_SRC=1
  DPU_RDMA.RDMA_BRDMA_CFG: BRDMA_DATA_USE=7
shift_of_negatives: values below 0 are shifted by a field of their own, in BS and BN
  vendor: vendor: every per-channel convolution and leaky ReLU
  without: nodes that use it stay on the CPU
  DPU.DATA_FORMAT: BS_MUL_SHIFT_VALUE_NEG=nonzero
bs_clamp: BS clamps at 0 and above, behind its multiplication
  documented: manual; vendor: the same in BN
  without: numerics=fast clamps in BN
  DPU.BS_CFG: BS_BYPASS=0 BS_RELU_BYPASS=0 BS_RELUX_EN=1
bn_multiplier: BN multiplies by 16 bits of a register, then shifts
  vendor: vendor: lookup tables
  without: one rounding, within one step
  DPU.BN_CFG: BN_BYPASS=0 BN_MUL_BYPASS=0
  DPU.BN_MUL_CFG: BN_MUL_SRC=0
  DPU.BN_CFG: BN_MUL_PRELU=0
bn_multiplier_per_channel: BN multiplies every value by 16 bits per channel from memory
  documented: manual; vendor: with the bit that multiplies negative values only
  without: one rounding per channel, within one step
  DPU.BN_CFG: BN_BYPASS=0 BN_MUL_BYPASS=0
  DPU.BN_MUL_CFG: BN_MUL_SRC=1
  DPU.BN_CFG: BN_MUL_PRELU=0
  DPU_RDMA.RDMA_NRDMA_CFG: NRDMA_DATA_USE=4
  reported: a task of others that read BN operands from memory hung
bn_summand: BN adds a number from a register, behind its multiplication
  vendor: vendor: activations
  without: nodes that use it stay on the CPU
  DPU.BN_CFG: BN_BYPASS=0 BN_ALU_BYPASS=0 BN_ALU_ALGO=2
bn_relu: BN makes values below 0 to 0
  vendor: vendor: ReLU, 201 tasks
  without: nodes that use it stay on the CPU
  DPU.BN_CFG: BN_BYPASS=0 BN_RELU_BYPASS=0
bn_upper_limit: BN clamps above
  vendor: vendor: ReLU6
  without: nodes that use it stay on the CPU
  DPU.BN_CFG: BN_BYPASS=0 BN_RELUX_EN=1
""")  # fmt: skip
