"""The lookup tables of RK3588's DPU."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import read_features

TABLES: Final = read_features("""
table_load: a task writes the two tables of 513 entries
  vendor: vendor: activations
  without: functions of one value stay on the CPU
  DPU.LUT_ACCESS_CFG: LUT_ACCESS_TYPE=1
table: values select an entry of the tables, exactly where they fall on one
  vendor: vendor: activations, with interpolation between entries
  without: functions of one value stay on the CPU
  DPU.EW_CFG: EW_BYPASS=0 EW_LUT_BYPASS=0
  DPU.LUT_CFG: LUT_HYBRID_PRIORITY=1 LUT_OFLOW_PRIORITY=1
  DPU.S_POINTER: POINTER_PP_CLEAR=1 EXECUTER_PP_CLEAR=1
  DPU_RDMA.RDMA_S_POINTER: POINTER_PP_CLEAR=1 EXECUTER_PP_CLEAR=1
  reported: 128 too much in runs of equal entries and near 0, in fp16 (entries here bear that)
  reported: a quotient of 0 read as 4
table_behind_convolution: the tables are looked up in a convolution's own task, between entries too
  vendor: vendor: activations behind convolutions
  without: numerics=fast makes tasks of their own of functions
  ENABLE.OPERATION_ENABLE: CNA=1
  DPU.EW_CFG: EW_BYPASS=0 EW_LUT_BYPASS=0
sum_behind_table: EW adds to what was found in the tables
  documented: manual; vendor: EW's operation behind the table, with a register as operand
  without: numerics=fast makes tasks of their own of functions
  DPU.EW_CFG: EW_BYPASS=0 EW_LUT_BYPASS=0 EW_OP_BYPASS=0
table_elsewhere: the tables' ranges begin at any value, not with LO at 0
  documented: manual
  without: one function per load, or none in a convolution's own task
  DPU.EW_CFG: EW_LUT_BYPASS=0
  DPU.LUT_LE_END: LUT_LE_END=nonzero
kept_table: the tables stay for later tasks of the job, also when every task is a kick
  vendor: vendor: tiles of a layer, in one kick; over kicks assumed
  without: every task loads its tables
  task: keeps_table=1
""")  # fmt: skip
