"""What RK3588's DPU does with tensors from memory, and EW with its operand."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank, Settings

_ON, _OFF = (1,), (0,)
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

_EW_ON: Settings = {"DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_OP_BYPASS": _OFF}
_EW_MEMORY: Settings = {
    **_EW_ON,
    "DPU.EW_CFG.EW_OP_SRC": _ON,
    "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DISABLE": _OFF,
}
_PER_PIXEL: Settings = {"DPU.EW_CFG.EW_DATA_MODE": (1,)}
_PER_CHANNEL: Settings = {"DPU.EW_CFG.EW_DATA_MODE": (0,)}
ELEMENT_WISE: Final = (
    Feature(
        "element_wise_alone",
        "the DPU works on a tensor from memory, without a convolution",
        Rank.VENDOR,
        "vendor: element-wise operators and copies; measured by others at 8, 16 and 32 bits",
        "element-wise operators stay on the CPU",
        {
            "ENABLE.OPERATION_ENABLE.DPU": _ON,
            "DPU.FEATURE_MODE_CFG.FLYING_MODE": _ON,
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG.FLYING_MODE": _ON,
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG.MRDMA_DISABLE": _OFF,
            "DPU.BS_OW_CFG.OD_BYPASS": _ON,
        },
    ),
    Feature(
        "operand_conversion",
        "EW's operand is shifted in value, scaled by 16 bits and rounded before the operation",
        Rank.SILICON,
        "Mesa: additions",
        "element-wise operators of two tensors stay on the CPU",
        {**_EW_MEMORY, "DPU.EW_CFG.EW_OP_CVT_BYPASS": _OFF, "DPU.EW_CFG.EW_CVT_TYPE": _ON},
    ),
    Feature(
        "ew_addition",
        "EW adds a second tensor",
        Rank.SILICON,
        "Mesa: additions, behind a convolution; vendor: alone",
        "additions stay on the CPU",
        {
            **_EW_MEMORY,
            **_PER_PIXEL,
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (2,),
            "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_MODE": (1,),
        },
    ),
    Feature(
        "ew_addition_behind_convolution",
        "the same in a convolution's own task: two readers take turns with the tensor's surfaces",
        Rank.SILICON,
        "Mesa: additions, behind a convolution",
        "additions are tasks of their own",
        {
            **_EW_MEMORY,
            **_PER_PIXEL,
            _CNA: _ON,
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG.COMB_USE": (5,),
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG.MRDMA_DISABLE": _OFF,
        },
    ),
    Feature(
        "ew_addition_per_channel",
        "EW adds a number per channel from memory",
        Rank.VENDOR,
        "vendor: operands that are broadcast",
        "nodes that use it stay on the CPU",
        {
            **_EW_MEMORY,
            **_PER_CHANNEL,
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (2,),
        },
    ),
    Feature(
        "ew_maximum",
        "EW takes the greater of two tensors",
        Rank.MEASURED,
        "measured by others; vendor: behind scales",
        "pooling and maxima stay on the CPU",
        {
            **_EW_MEMORY,
            **_PER_PIXEL,
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (0,),
            "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_MODE": (1,),
        },
    ),
    Feature(
        "ew_minimum",
        "EW takes the smaller of two tensors",
        Rank.MEASURED,
        "measured by others; vendor: behind scales",
        "minima stay on the CPU",
        {
            **_EW_MEMORY,
            **_PER_PIXEL,
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (1,),
            "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_MODE": (1,),
        },
    ),
    Feature(
        "ew_maximum_per_channel",
        "EW takes the greater of a tensor and a number per channel from memory",
        Rank.DOCUMENTED,
        "manual; vendor: maximum of two tensors, and other operations per channel",
        "such a MAXIMUM stays on the CPU",
        {
            **_EW_MEMORY,
            **_PER_CHANNEL,
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (0,),
        },
    ),
    Feature(
        "ew_minimum_per_channel",
        "EW takes the smaller of a tensor and a number per channel from memory",
        Rank.DOCUMENTED,
        "manual; vendor: minimum of two tensors, and other operations per channel",
        "such a MINIMUM stays on the CPU",
        {
            **_EW_MEMORY,
            **_PER_CHANNEL,
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (1,),
        },
    ),
    Feature(
        "ew_product",
        "EW multiplies two tensors",
        Rank.VENDOR,
        "vendor: products",
        "products stay on the CPU",
        {
            **_EW_MEMORY,
            **_PER_PIXEL,
            "DPU.EW_CFG.EW_OP_TYPE": (1,),
            "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_MODE": (1,),
        },
    ),
    Feature(
        "ew_product_per_channel",
        "EW multiplies by a number per channel from memory",
        Rank.VENDOR,
        "vendor: in element-wise tasks",
        "one rounding per channel, within one step",
        {**_EW_MEMORY, **_PER_CHANNEL, "DPU.EW_CFG.EW_OP_TYPE": (1,)},
    ),
    Feature(
        "ew_product_behind_convolution",
        "the same in a convolution's own task",
        Rank.DOCUMENTED,
        "manual; vendor: EW behind convolutions, and per channel alone, never both",
        "one rounding per channel, within one step",
        {**_EW_MEMORY, **_PER_CHANNEL, _CNA: _ON, "DPU.EW_CFG.EW_OP_TYPE": (1,)},
    ),
    Feature(
        "wide_ew_operand",
        "EW's operand of 16 bits, an integer",
        Rank.DOCUMENTED,
        "manual; measured by others in tasks of 16 bits altogether",
        "one rounding per channel, within one step",
        {
            **_EW_MEMORY,
            "DPU.OUT_CVT_SCALE.FP32TOFP16_EN": (0,),
            "DPU.EW_CFG.EDATA_SIZE": (2,),
            "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_SIZE": (2,),
        },
    ),
    Feature(
        "ew_register_operand",
        "EW adds a number from registers",
        Rank.VENDOR,
        "vendor: clamps between two limits",
        "nodes that are clamped so stay on the CPU",
        {
            **_EW_ON,
            "DPU.EW_CFG.EW_OP_SRC": (0,),
            "DPU.EW_CFG.EW_OP_TYPE": (0,),
            "DPU.EW_CFG.EW_ALU_ALGO": (2,),
            "DPU.EW_CFG.EW_DATA_MODE": (1,),
        },
    ),
    Feature(
        "ew_truncation",
        "EW shifts its product to the right, rounded, before the output is scaled",
        Rank.DOCUMENTED,
        "manual",
        "products that need two roundings stay on the CPU",
        {"DPU.EW_CVT_SCALE_VALUE.EW_TRUNCATE": NONZERO},
    ),
    Feature(
        "ew_relu",
        "EW makes values below 0 to 0, behind its operation",
        Rank.VENDOR,
        "vendor: additions with ReLU",
        "nodes that use it stay on the CPU",
        {"DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_RELU_BYPASS": _OFF},
    ),
    Feature(
        "ew_upper_limit",
        "EW clamps above, behind its operation",
        Rank.DOCUMENTED,
        "manual",
        "nodes that use it stay on the CPU",
        {"DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_RELUX_EN": _ON},
    ),
)
