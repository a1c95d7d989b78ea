"""The features of RK3588 that programs use, with their evidence.

"Mesa" is its driver for this chip, which runs on boards; "vendor" are programs that the vendor's
compiler made, replayed on the simulator; "others" measured on boards and published; "manual" is the
chip's register description. What nobody has run is ranked by the best of the rest.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank, Settings

_ON, _OFF = (1,), (0,)
_RESULTS: Final = (2, 3, 4)  # the buffers that tasks write: not commands, not constants
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

_CONVOLUTION = (
    Feature(
        "convolution",
        "dense convolution of int8 cubes (NC1HWC2), sums of 32 bits, padding by one value",
        Rank.SILICON,
        "Mesa: every convolution",
        "nothing runs on the NPU",
        {_CNA: _ON, "CNA.CONV_CON1.CONV_MODE": (0,), "ENABLE.OPERATION_ENABLE.CORE": _ON},
    ),
    Feature(
        "depthwise_convolution",
        "one kernel per channel, 64 channels at a time",
        Rank.SILICON,
        "Mesa: every depthwise convolution",
        "depthwise convolutions stay on the CPU",
        {
            _CNA: _ON,
            "CNA.CONV_CON1.CONV_MODE": (3,),
            "CORE.MISC_CFG.DW_EN": _ON,
            "DPU.FEATURE_MODE_CFG.CONV_MODE": (3,),
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG.CONV_MODE": (3,),
        },
    ),
    Feature(
        "dilated_columns",
        "kernels whose columns are apart",
        Rank.VENDOR,
        "vendor: dilated convolutions",
        "dilated convolutions stay on the CPU",
        {"CNA.CONV_CON3.ATROUS_X_DILATION": NONZERO},
    ),
    Feature(
        "dilated_rows",
        "kernels whose rows are apart",
        Rank.VENDOR,
        "vendor: dilated convolutions",
        "dilated convolutions stay on the CPU",
        {"CNA.CONV_CON3.ATROUS_Y_DILATION": NONZERO},
    ),
    Feature(
        "transposed_convolution",
        "convolution of pixels that are apart, with zeros between them",
        Rank.VENDOR,
        "vendor: transposed convolutions of stride 2, dense and depthwise",
        "resizing stays on the CPU",
        {"CNA.CONV_CON1.DECONV": _ON},
    ),
    Feature(
        "window_of_columns",
        "reading fewer columns than the tensor has: LINE_STRIDE counts pixels, rows one at a time",
        Rank.VENDOR,
        "vendor: all 14 tasks that read a part of the columns; without it none does",
        "whole rows are fetched, in more tasks",
        {"CNA.CONV_CON1.GROUP_LINE_OFF": _ON, "CNA.CONV_CON1.ARGB_IN": (0,)},
        ("that rows are fetched right without the bit is not known",),
    ),
    Feature(
        "kept_weights",
        "weights stay in CBUF for the next task of the job, also when every task is a kick",
        Rank.SILICON,
        "Mesa: later tiles of a layer",
        "every task fetches its weights: slower, the same bytes",
        {"CNA.CBUF_CON0.WEIGHT_REUSE": _ON},
    ),
)

_BS = (
    Feature(
        "summand_per_channel",
        "BS adds an int32 per channel from memory",
        Rank.SILICON,
        "Mesa: biases",
        "nothing runs on the NPU",
        {
            "DPU.BS_CFG.BS_BYPASS": _OFF,
            "DPU.BS_CFG.BS_ALU_BYPASS": _OFF,
            "DPU.BS_CFG.BS_ALU_SRC": _ON,
            "DPU.BS_CFG.BS_ALU_ALGO": (2,),
            "DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE": (1, 7),
        },
    ),
    Feature(
        "summand",
        "BS adds a number from a register",
        Rank.VENDOR,
        "vendor: element-wise operators",
        "element-wise operators stay on the CPU",
        {
            "DPU.BS_CFG.BS_BYPASS": _OFF,
            "DPU.BS_CFG.BS_ALU_BYPASS": _OFF,
            "DPU.BS_CFG.BS_ALU_SRC": (0,),
            "DPU.BS_CFG.BS_ALU_ALGO": (2,),
        },
    ),
    Feature(
        "input_sums",
        "BS adds a multiple of the sum of inputs under the window (weights with a zero point)",
        Rank.SILICON,
        "Mesa: weights of uint8 models",
        "nodes whose weights have a zero point stay on the CPU",
        {
            _CNA: _ON,
            "CORE.MISC_CFG.QD_EN": _ON,
            "DPU.BS_OW_CFG.OD_BYPASS": _OFF,
            "DPU.BS_OW_OP.OW_OP": NONZERO,
        },
    ),
    Feature(
        "input_sums_per_channel",
        "the multiple of the sum of inputs per channel, from memory",
        Rank.VENDOR,
        "vendor: per-channel convolutions",
        "nodes with a zero point per channel stay on the CPU",
        {"DPU.BS_OW_CFG.OW_SRC": _ON, "DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE": (7,)},
    ),
    Feature(
        "multiplier",
        "BS multiplies by 16 bits of a register; shifts to the right, ties to even",
        Rank.VENDOR,
        "vendor: element-wise operators; rounding measured by others",
        "one rounding by OUT_CVT",
        {
            "DPU.BS_CFG.BS_BYPASS": _OFF,
            "DPU.BS_CFG.BS_MUL_BYPASS": _OFF,
            "DPU.BS_MUL_CFG.BS_MUL_SRC": (0,),
        },
    ),
    Feature(
        "multiplier_per_channel",
        "BS multiplies by 16 bits per channel from memory",
        Rank.VENDOR,
        "vendor: every per-channel convolution",
        "nodes with scales per channel stay on the CPU",
        {
            "DPU.BS_CFG.BS_BYPASS": _OFF,
            "DPU.BS_CFG.BS_MUL_BYPASS": _OFF,
            "DPU.BS_MUL_CFG.BS_MUL_SRC": _ON,
            "DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE": (7,),
        },
    ),
    Feature(
        "shift_of_negatives",
        "values below 0 are shifted by a field of their own, in BS and BN",
        Rank.VENDOR,
        "vendor: every per-channel convolution and leaky ReLU",
        "one rounding by OUT_CVT",
        {"DPU.DATA_FORMAT.BS_MUL_SHIFT_VALUE_NEG": NONZERO},
    ),
)

_BN_ON: Settings = {"DPU.BN_CFG.BN_BYPASS": _OFF}
_BN = (
    Feature(
        "bn_multiplier",
        "BN multiplies by 16 bits of a register, then shifts",
        Rank.VENDOR,
        "vendor: lookup tables",
        "one rounding by OUT_CVT",
        {
            **_BN_ON,
            "DPU.BN_CFG.BN_MUL_BYPASS": _OFF,
            "DPU.BN_MUL_CFG.BN_MUL_SRC": (0,),
            "DPU.BN_CFG.BN_MUL_PRELU": (0,),
        },
    ),
    Feature(
        "bn_multiplier_per_channel",
        "BN multiplies every value by 16 bits per channel from memory",
        Rank.DOCUMENTED,
        "manual; vendor: with the bit that multiplies negative values only",
        "one rounding per channel, within one step",
        {
            **_BN_ON,
            "DPU.BN_CFG.BN_MUL_BYPASS": _OFF,
            "DPU.BN_MUL_CFG.BN_MUL_SRC": _ON,
            "DPU.BN_CFG.BN_MUL_PRELU": (0,),
            "DPU_RDMA.RDMA_NRDMA_CFG.NRDMA_DATA_USE": (4,),
        },
        ("a task of others that read BN operands from memory hung",),
    ),
    Feature(
        "bn_summand",
        "BN adds a number from a register, behind its multiplication",
        Rank.VENDOR,
        "vendor: activations",
        "clamps elsewhere",
        {**_BN_ON, "DPU.BN_CFG.BN_ALU_BYPASS": _OFF, "DPU.BN_CFG.BN_ALU_ALGO": (2,)},
    ),
    Feature(
        "bn_relu",
        "BN makes values below 0 to 0",
        Rank.VENDOR,
        "vendor: ReLU, 201 tasks",
        "the range of the result clamps",
        {**_BN_ON, "DPU.BN_CFG.BN_RELU_BYPASS": _OFF},
    ),
    Feature(
        "bn_upper_limit",
        "BN clamps above",
        Rank.VENDOR,
        "vendor: ReLU6",
        "the range of the result clamps; else the node stays on the CPU",
        {**_BN_ON, "DPU.BN_CFG.BN_RELUX_EN": _ON},
    ),
)

_EW_ON: Settings = {"DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_OP_BYPASS": _OFF}
_EW_MEMORY: Settings = {
    **_EW_ON,
    "DPU.EW_CFG.EW_OP_SRC": _ON,
    "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DISABLE": _OFF,
}
_PER_PIXEL: Settings = {"DPU.EW_CFG.EW_DATA_MODE": (1,)}
_PER_CHANNEL: Settings = {"DPU.EW_CFG.EW_DATA_MODE": (0,)}
_EW = (
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
        "ew_addition_per_channel",
        "EW adds a number per channel from memory",
        Rank.VENDOR,
        "vendor: operands that are broadcast",
        "a constant as large as the tensor is added",
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
        "EW's operand of 16 bits",
        Rank.DOCUMENTED,
        "manual; measured by others in tasks of 16 bits altogether",
        "one rounding per channel, within one step",
        {
            **_EW_MEMORY,
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
        "the range of the result clamps",
        {"DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_RELU_BYPASS": _OFF},
    ),
    Feature(
        "ew_upper_limit",
        "EW clamps above, behind its operation",
        Rank.DOCUMENTED,
        "manual",
        "the range of the result clamps; else the node stays on the CPU",
        {"DPU.EW_CFG.EW_BYPASS": _OFF, "DPU.EW_CFG.EW_RELUX_EN": _ON},
    ),
)

_TABLES = (
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
        "kept_table",
        "the tables stay for later tasks of the job, also when every task is a kick",
        Rank.VENDOR,
        "vendor: tiles of a layer, in one kick; over kicks assumed",
        "every task loads its tables",
        {"task.keeps_table": _ON},
    ),
)

_OUTPUT = (
    Feature(
        "ties_away",
        "OUT_CVT rounds ties away from zero",
        Rank.MEASURED,
        "measured by others on 23.8 million elements",
        "ties to even, within one step",
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
        "gap_between_rows",
        "the DPU skips pixels behind every row that it writes",
        Rank.VENDOR,
        "vendor: enlarging programs",
        "tiles have whole rows",
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

FEATURES: Final = (*_CONVOLUTION, *_BS, *_BN, *_EW, *_TABLES, *_OUTPUT)

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
    "DPU.LUT_ACCESS_CFG.LUT_TABLE_ID": _ON,
}
"""What every program of the drivers in use sets, or what has no meaning of its own."""
