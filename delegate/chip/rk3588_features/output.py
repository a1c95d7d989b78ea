"""How results of RK3588's DPU reach memory, and what reads them; and the cores."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

_RESULTS = "2|3|4"  # the buffers that tasks write: not commands, not constants

OUTPUT: Final = read_features(f"""
ties_away: OUT_CVT rounds ties away from zero
  measured: measured by others on 23.8 million elements
  without: a scale that is larger by 2^-14 moves ties: equal, or within one step
  DPU.OUT_CVT_SHIFT: CVT_ROUND=1
sums_written: int32 leaves the DPU as it is
  measured: measured by others, in matrix products
  without: convolutions of too many input channels stay on the CPU
  DPU.DATA_FORMAT: OUT_PRECISION=4
results_as_summands: BS reads as its summands what an earlier task of the job wrote
  assumed: other readers do so in every program
  without: convolutions of too many input channels stay on the CPU
  DPU_RDMA: RDMA_BS_BASE_ADDR={_RESULTS}
  DPU_RDMA.RDMA_BRDMA_CFG: BRDMA_DATA_USE=nonzero
results_as_weights: the CNA fetches as weights what an earlier task of the job wrote
  assumed: features, which it fetches too, are earlier results in every program
  without: products of two computed matrices stay on the CPU
  ENABLE.OPERATION_ENABLE: CNA=1
  CNA: DCOMP_ADDR0={_RESULTS}
gap_between_rows: the DPU skips pixels behind every row that it writes
  vendor: vendor: enlarging programs
  without: nodes that use it stay on the CPU
  DPU.DATA_CUBE_NOTCH_ADDR: NOTCH_ADDR_0=nonzero
gap_between_rows_read: the DPU's readers skip pixels behind every row of the main operand
  vendor: vendor: copies of borders
  without: pooling of columns stays on the CPU
  DPU_RDMA.RDMA_SRC_DMA_CFG: LINE_NOTCH_ADDR=nonzero
gap_between_rows_of_operand: the DPU's readers skip pixels behind every row of EW's operand
  documented: manual
  without: pooling of columns stays on the CPU
  DPU_RDMA.RDMA_DATA_CUBE_HEIGHT: EW_LINE_NOTCH_ADDR=nonzero
several_cores: cores compute jobs of one program at the same time
  silicon: Mesa: jobs go to any core
  without: one core
  task: core=nonzero
""")  # fmt: skip
