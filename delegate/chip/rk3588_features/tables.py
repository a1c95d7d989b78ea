"""The lookup tables of RK3588's DPU."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank

_ON, _OFF = (1,), (0,)
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

TABLES: Final = (
    Feature(
        "table_load",
        "a task writes the two tables of 513 entries",
        Rank.VENDOR,
        "vendor: activations",
        "functions of one value stay on the CPU",
        {"DPU.LUT_ACCESS_CFG.LUT_ACCESS_TYPE": _ON},
    ),
    Feature(
        "table",
        "values select an entry of the tables, exactly where they fall on one",
        Rank.VENDOR,
        "vendor: activations, with interpolation between entries",
        "functions of one value stay on the CPU",
        {
            "DPU.EW_CFG.EW_BYPASS": _OFF,
            "DPU.EW_CFG.EW_LUT_BYPASS": _OFF,
            "DPU.LUT_CFG.LUT_HYBRID_PRIORITY": _ON,
            "DPU.LUT_CFG.LUT_OFLOW_PRIORITY": _ON,
            "DPU.S_POINTER.POINTER_PP_CLEAR": _ON,
            "DPU.S_POINTER.EXECUTER_PP_CLEAR": _ON,
            "DPU_RDMA.RDMA_S_POINTER.POINTER_PP_CLEAR": _ON,
            "DPU_RDMA.RDMA_S_POINTER.EXECUTER_PP_CLEAR": _ON,
        },
        (
            "128 too much in runs of equal entries and near 0, in fp16 (entries here bear that)",
            "a quotient of 0 read as 4",
        ),
    ),
    Feature(
        "table_behind_convolution",
        "the tables are looked up in a convolution's own task, between entries too",
        Rank.VENDOR,
        "vendor: activations behind convolutions",
        "numerics=fast makes tasks of their own of functions",
        {_CNA: _ON, "DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_LUT_BYPASS": _OFF},
    ),
    Feature(
        "sum_behind_table",
        "EW adds to what was found in the tables",
        Rank.DOCUMENTED,
        "manual; vendor: EW's operation behind the table, with a register as operand",
        "numerics=fast makes tasks of their own of functions",
        {
            "DPU.EW_CFG.EW_BYPASS": _OFF,
            "DPU.EW_CFG.EW_LUT_BYPASS": _OFF,
            "DPU.EW_CFG.EW_OP_BYPASS": _OFF,
        },
    ),
    Feature(
        "table_elsewhere",
        "the tables' ranges begin at any value, not with LO at 0",
        Rank.DOCUMENTED,
        "manual",
        "one function per load, or none in a convolution's own task",
        {"DPU.EW_CFG.EW_LUT_BYPASS": _OFF, "DPU.LUT_LE_END.LUT_LE_END": NONZERO},
    ),
    Feature(
        "kept_table",
        "the tables stay for later tasks of the job, also when every task is a kick",
        Rank.VENDOR,
        "vendor: tiles of a layer, in one kick; over kicks assumed",
        "every task loads its tables",
        {"task.keeps_table": _ON},
    ),
)
