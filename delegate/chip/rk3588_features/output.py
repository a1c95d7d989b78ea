"""How results of RK3588's DPU reach memory, and what reads them; and the cores."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank

_ON, _OFF = (1,), (0,)
_RESULTS: Final = (2, 3, 4)  # the buffers that tasks write: not commands, not constants

OUTPUT: Final = (
    Feature(
        "ties_away",
        "OUT_CVT rounds ties away from zero",
        Rank.MEASURED,
        "measured by others on 23.8 million elements",
        "a scale that is larger by 2^-14 moves ties: equal, or within one step",
        {"DPU.OUT_CVT_SHIFT.CVT_ROUND": _ON},
    ),
    Feature(
        "sums_written",
        "int32 leaves the DPU as it is",
        Rank.MEASURED,
        "measured by others, in matrix products",
        "convolutions of too many input channels stay on the CPU",
        {"DPU.DATA_FORMAT.OUT_PRECISION": (4,)},
    ),
    Feature(
        "results_as_summands",
        "BS reads as its summands what an earlier task of the job wrote",
        Rank.ASSUMED,
        "other readers do so in every program",
        "convolutions of too many input channels stay on the CPU",
        {"DPU_RDMA.RDMA_BS_BASE_ADDR": _RESULTS, "DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE": NONZERO},
    ),
    Feature(
        "results_as_weights",
        "the CNA fetches as weights what an earlier task of the job wrote",
        Rank.ASSUMED,
        "features, which it fetches too, are earlier results in every program",
        "products of two computed matrices stay on the CPU",
        {"ENABLE.OPERATION_ENABLE.CNA": _ON, "CNA.DCOMP_ADDR0": _RESULTS},
    ),
    Feature(
        "gap_between_rows",
        "the DPU skips pixels behind every row that it writes",
        Rank.VENDOR,
        "vendor: enlarging programs",
        "nodes that use it stay on the CPU",
        {"DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_0": NONZERO},
    ),
    Feature(
        "gap_between_rows_read",
        "the DPU's readers skip pixels behind every row of the main operand",
        Rank.VENDOR,
        "vendor: copies of borders",
        "pooling of columns stays on the CPU",
        {"DPU_RDMA.RDMA_SRC_DMA_CFG.LINE_NOTCH_ADDR": NONZERO},
    ),
    Feature(
        "gap_between_rows_of_operand",
        "the DPU's readers skip pixels behind every row of EW's operand",
        Rank.DOCUMENTED,
        "manual",
        "pooling of columns stays on the CPU",
        {"DPU_RDMA.RDMA_DATA_CUBE_HEIGHT.EW_LINE_NOTCH_ADDR": NONZERO},
    ),
    Feature(
        "several_cores",
        "cores compute jobs of one program at the same time",
        Rank.SILICON,
        "Mesa: jobs go to any core",
        "one core",
        {"task.core": NONZERO},
    ),
)
