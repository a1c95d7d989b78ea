"""What RK3588 does in fp16: the array, the DPU alone, and the stages' operands."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import Feature, Rank, Settings

_ON, _OFF = (1,), (0,)
_FP16: Final = (2,)
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

_DPU: Final[Settings] = {
    "DPU.DATA_FORMAT.IN_PRECISION": _FP16,
    "DPU.DATA_FORMAT.PROC_PRECISION": _FP16,
    "DPU.DATA_FORMAT.OUT_PRECISION": _FP16,
    "DPU.OUT_CVT_SCALE.FP32TOFP16_EN": _ON,
    "DPU.BS_OW_CFG.OD_BYPASS": _ON,
}
_EW: Final[Settings] = {
    "DPU.DATA_FORMAT.PROC_PRECISION": _FP16,
    "DPU.EW_CFG.EW_BYPASS": _OFF,
    "DPU.EW_CFG.EW_OP_BYPASS": _OFF,
    "DPU.EW_CFG.EW_OP_SRC": _ON,
    "DPU.EW_CFG.EDATA_SIZE": _FP16,
    "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_SIZE": _FP16,
}

HALF: Final = (
    Feature(
        "fp16_convolution",
        "convolution of fp16 cubes: exact products, sums of 32 rounded to fp32, a summand of fp32",
        Rank.VENDOR,
        "vendor: 41 programs; measured by others on 217 shapes",
        "float models stay on the CPU",
        {
            **_DPU,
            _CNA: _ON,
            "CNA.CONV_CON1.IN_PRECISION": _FP16,
            "CNA.CONV_CON1.PROC_PRECISION": _FP16,
            "CORE.MISC_CFG.PROC_PRECISION": _FP16,
        },
        ("lane 0 of 16 shows rare deviations that depend on the core",),
    ),
    Feature(
        "fp16_element_wise",
        "the DPU works on an fp16 tensor from memory",
        Rank.VENDOR,
        "vendor: sums, products, maxima and activations, every element equal",
        "element-wise operators of float models stay on the CPU",
        {
            **_DPU,
            _CNA: _OFF,
        },
    ),
    Feature(
        "fp16_operand",
        "EW adds or subtracts a second tensor of fp16",
        Rank.VENDOR,
        "vendor: sums and differences",
        "sums of float models stay on the CPU",
        {**_EW, "DPU.EW_CFG.EW_OP_TYPE": (0,)},
    ),
    Feature(
        "ew_difference",
        "EW subtracts a second tensor",
        Rank.VENDOR,
        "vendor: differences",
        "differences of float models stay on the CPU",
        {**_EW, "DPU.EW_CFG.EW_OP_TYPE": (0,), "DPU.EW_CFG.EW_ALU_ALGO": (4,)},
    ),
    Feature(
        "fp16_slopes",
        "BN multiplies negative values only, by an fp16 per channel from memory",
        Rank.VENDOR,
        "vendor: PReLU",
        "such a PRELU stays on the CPU",
        {
            "DPU.DATA_FORMAT.PROC_PRECISION": _FP16,
            "DPU.BN_CFG.BN_BYPASS": _OFF,
            "DPU.BN_CFG.BN_MUL_BYPASS": _OFF,
            "DPU.BN_CFG.BN_MUL_PRELU": _ON,
            "DPU.BN_MUL_CFG.BN_MUL_SRC": _ON,
            "DPU_RDMA.RDMA_NRDMA_CFG.NRDMA_DATA_USE": (4,),
        },
    ),
    Feature(
        "fp16_table",
        "in fp16 a number selects a place between two entries of the tables; results are over 2^15",
        Rank.VENDOR,
        "vendor: sigmoid, tanh and exp, with another rounding of the last bit",
        "LOGISTIC and TANH of float models stay on the CPU",
        {
            **_DPU,
            "DPU.EW_CFG.EW_BYPASS": _OFF,
            "DPU.EW_CFG.EW_LUT_BYPASS": _OFF,
            "DPU.OUT_CVT_SHIFT.MINUS_EXP": (15,),
        },
        ("128 too much in runs of equal entries and near 0 (the proof has both)",),
    ),
    Feature(
        "fp16_factors",
        "BN multiplies by an fp16 per channel from memory",
        Rank.DOCUMENTED,
        "manual; vendor: slopes from memory, and products with a register",
        "products with one value per channel of float models stay on the CPU",
        {
            "DPU.DATA_FORMAT.PROC_PRECISION": _FP16,
            "DPU.BN_CFG.BN_BYPASS": _OFF,
            "DPU.BN_CFG.BN_MUL_BYPASS": _OFF,
            "DPU.BN_CFG.BN_MUL_PRELU": _OFF,
            "DPU.BN_MUL_CFG.BN_MUL_SRC": _ON,
            "DPU_RDMA.RDMA_NRDMA_CFG.NRDMA_DATA_USE": (4,),
        },
    ),
)
