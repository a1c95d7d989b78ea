"""The features of RK3588 that programs use, with their evidence.

"Mesa" is its driver for this chip, which runs on boards; "vendor" are programs that the vendor's
compiler made, replayed on the simulator; "others" measured on boards and published; "manual" is the
chip's register description. What nobody has run is ranked by the best of the rest.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.features import Settings
from delegate.chip.rk3588_features.convolution import CONVOLUTION
from delegate.chip.rk3588_features.element_wise import ELEMENT_WISE
from delegate.chip.rk3588_features.half import HALF
from delegate.chip.rk3588_features.output import OUTPUT
from delegate.chip.rk3588_features.scaling import SCALING
from delegate.chip.rk3588_features.tables import TABLES

_ON, _OFF = (1,), (0,)

FEATURES: Final = (*CONVOLUTION, *SCALING, *ELEMENT_WISE, *TABLES, *OUTPUT, *HALF)

EVERYWHERE: Final[Settings] = {
    "ENABLE.OPERATION_ENABLE.CORE": _ON,
    "ENABLE.OPERATION_ENABLE.DPU": _ON,
    "ENABLE.OPERATION_ENABLE.DPU_RDMA": _ON,
    "CNA.DMA_CON0.OV4K_BYPASS": _OFF,
    "CNA.DCOMP_CTRL.WT_DEC_BYPASS": _OFF,
    "DPU_RDMA.RDMA_ERDMA_CFG.OV4K_BYPASS": _OFF,
    "CNA.CVT_CON0.DATA_SIGN": _ON,
    "CNA.CVT_CON0.CVT_TYPE": _ON,
    "CNA.DMA_CON0.DATA_BURST_LEN": (15,),
    "CNA.DMA_CON0.WEIGHT_BURST_LEN": (15,),
    "CORE.MISC_CFG.QD_EN": _ON,
    "DPU.BS_OW_CFG.OD_BYPASS": _OFF,
    "DPU.FEATURE_MODE_CFG.BURST_LEN": (15,),
    "DPU.FEATURE_MODE_CFG.OUTPUT_MODE": (2,),
    "DPU.S_POINTER.POINTER_PP_MODE": _ON,
    "DPU.S_POINTER.POINTER_PP_EN": _ON,
    "DPU.S_POINTER.EXECUTER_PP_EN": _ON,
    "DPU_RDMA.RDMA_S_POINTER.POINTER_PP_MODE": _ON,
    "DPU_RDMA.RDMA_S_POINTER.POINTER_PP_EN": _ON,
    "DPU_RDMA.RDMA_S_POINTER.EXECUTER_PP_EN": _ON,
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.BURST_LEN": (15,),
    "DPU.EW_CFG.EDATA_SIZE": (1,),
    "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_SIZE": (1,),
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.IN_PRECISION": (2,),
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.PROC_PRECISION": (2,),
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.MRDMA_FP16TOFP32_EN": _ON,
    "DPU.EW_CFG.EW_OP_CVT_BYPASS": _OFF,
    "DPU.LUT_ACCESS_CFG.LUT_TABLE_ID": _ON,
}
"""What every program of the drivers in use sets, or what has no meaning of its own."""
