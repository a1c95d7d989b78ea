"""What RK3588's CNA and CORE do: convolutions, and what of a tensor they fetch."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

CONVOLUTION: Final = read_features("""
convolution: dense convolution of int8 cubes (NC1HWC2), sums of 32 bits, padding by one value
  silicon: Mesa: every convolution
  without: nothing runs on the NPU
  ENABLE.OPERATION_ENABLE: CNA=1
  CNA.CONV_CON1: CONV_MODE=0
  ENABLE.OPERATION_ENABLE: CORE=1
depthwise_convolution: one kernel per channel, 64 channels at a time
  silicon: Mesa: every depthwise convolution
  without: depthwise convolutions stay on the CPU
  ENABLE.OPERATION_ENABLE: CNA=1
  CNA.CONV_CON1: CONV_MODE=3
  CORE.MISC_CFG: DW_EN=1
  DPU.FEATURE_MODE_CFG: CONV_MODE=3
  DPU_RDMA.RDMA_FEATURE_MODE_CFG: CONV_MODE=3
dilated_columns: kernels whose columns are apart
  vendor: vendor: dilated convolutions
  without: dilated convolutions stay on the CPU
  CNA.CONV_CON3: ATROUS_X_DILATION=nonzero
dilated_rows: kernels whose rows are apart
  vendor: vendor: dilated convolutions
  without: dilated convolutions stay on the CPU
  CNA.CONV_CON3: ATROUS_Y_DILATION=nonzero
transposed_convolution: convolution of pixels that are apart, with zeros between them
  vendor: vendor: transposed convolutions of stride 2, dense and depthwise
  without: resizing stays on the CPU
  CNA.CONV_CON1: DECONV=1
window_of_columns: reading fewer columns than the tensor has: LINE_STRIDE counts pixels, rows one \
    at a time
  vendor: vendor: all 14 tasks that read a part of the columns; without it none does
  without: nodes that use it stay on the CPU
  CNA.CONV_CON1: GROUP_LINE_OFF=1 ARGB_IN=0
  reported: that rows are fetched right without the bit is not known
kept_weights: weights stay in CBUF for the next task of the job, also when every task is a kick
  silicon: Mesa: later tiles of a layer
  without: every task fetches its weights: slower, the same bytes
  CNA.CBUF_CON0: WEIGHT_REUSE=1
""")  # fmt: skip
