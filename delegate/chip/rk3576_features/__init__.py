"""The features of RK3576 that programs use, with their evidence.

"Vendor" are programs that the vendor's compiler made, replayed on a model of the registers;
"others" ran whole networks on boards and published what they found. What is not here is not used.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

FEATURES: Final = read_features("""
convolution: dense convolution of int8 cubes (NC1HWC2), sums of 32 bits, padding by one value
  measured: vendor: every convolution; others: whole networks on boards, in whole groups of kernels
  without: nothing runs on the NPU
  ENABLE.OPERATION_ENABLE: CNA=1
  CNA.CONV_CON1: CONV_MODE=0
  reported: non-square kernels: sources differ on which side is the height
depthwise_convolution: one kernel per channel, 64 channels at a time, two bytes per weight
  measured: vendor: every depthwise convolution; others: on boards, 8 to 256 channels
  without: depthwise convolutions stay on the CPU
  ENABLE.OPERATION_ENABLE: CNA=1
  CNA.CONV_CON1: CONV_MODE=1
  reported: surfaces of other than multiples of 4 pixels are in no program
dilated_columns: kernels whose columns are apart, and rows as much
  vendor: vendor: dilated convolutions
  without: dilated convolutions stay on the CPU
  CNA.CONV_CON3: ATROUS_X_DILATION=nonzero
dilated_rows: kernels whose rows are apart, and columns as much
  vendor: vendor: dilated convolutions
  without: dilated convolutions stay on the CPU
  CNA.CONV_CON3: ATROUS_Y_DILATION=nonzero
operand_blocks: BS adds, multiplies by and sums inputs with blocks of operands per channel from \
    memory
  measured: vendor: every convolution; others: on boards
  without: nothing runs on the NPU
  DPU_RDMA.RDMA_BRDMA_CFG: BRDMA_DATA_USE=5|7
shift_record: BS's shifts of values from 0 on and of others, from memory
  measured: vendor: every convolution; others: on boards
  without: nothing runs on the NPU
  DPU_RDMA.RDMA_BRDMA_CFG: SCALAR_SHIFT=1
activation_clamps: values are clamped between two numbers behind BN
  vendor: vendor: ReLU and ReLU6
  without: nodes that use it stay on the CPU
  DPU.BN_CFG: MODE=2306
element_wise_alone: the DPU alone, fed from memory, with the numbers of its stages in a record there
  vendor: vendor: sums, products, functions and copies of whole maps
  without: operators without a convolution stay on the CPU
  ENABLE.OPERATION_ENABLE: CNA=0
  reported: a sum whose record was zeros gave nothing on a board, as times 0 does
ew_addition: EW adds a map, converted by a summand, a multiplier and a shift
  vendor: vendor: sums and differences of two maps, with equal and with different scales
  without: additions stay on the CPU
  DPU.EW_CFG: MODE=2147664064
ew_product: EW multiplies with a map whose zero point is taken off
  vendor: vendor: products of two maps
  without: products stay on the CPU
  DPU.EW_CFG: MODE=2165260436
table_load: a task that copies an atom fills both lookup tables
  vendor: vendor: before every function
  without: functions stay on the CPU
  DPU.LUT_ACCESS_CFG: LUT_ACCESS_TYPE=1
table: BN makes places in the lookup tables by a record: (x + summand) * multiplier >> shift
  vendor: vendor: functions, among them some whose table begins elsewhere than at the zero point
  without: functions stay on the CPU
  DPU.EW_CFG: MODE=16793920
""")  # fmt: skip
