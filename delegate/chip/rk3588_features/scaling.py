"""What BS and BN of RK3588's DPU do: summands, multipliers, clamps."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank, Settings

_ON, _OFF = (1,), (0,)
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

_BS: Final = (
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
        "nodes that use it stay on the CPU",
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
        "nodes that use it stay on the CPU",
        {"DPU.DATA_FORMAT.BS_MUL_SHIFT_VALUE_NEG": NONZERO},
    ),
    Feature(
        "bs_clamp",
        "BS clamps at 0 and above, behind its multiplication",
        Rank.DOCUMENTED,
        "manual; vendor: the same in BN",
        "numerics=fast clamps in BN",
        {
            "DPU.BS_CFG.BS_BYPASS": _OFF,
            "DPU.BS_CFG.BS_RELU_BYPASS": _OFF,
            "DPU.BS_CFG.BS_RELUX_EN": _ON,
        },
    ),
)

_BN_ON: Settings = {"DPU.BN_CFG.BN_BYPASS": _OFF}
_BN: Final = (
    Feature(
        "bn_multiplier",
        "BN multiplies by 16 bits of a register, then shifts",
        Rank.VENDOR,
        "vendor: lookup tables",
        "one rounding, within one step",
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
        "nodes that use it stay on the CPU",
        {**_BN_ON, "DPU.BN_CFG.BN_ALU_BYPASS": _OFF, "DPU.BN_CFG.BN_ALU_ALGO": (2,)},
    ),
    Feature(
        "bn_relu",
        "BN makes values below 0 to 0",
        Rank.VENDOR,
        "vendor: ReLU, 201 tasks",
        "nodes that use it stay on the CPU",
        {**_BN_ON, "DPU.BN_CFG.BN_RELU_BYPASS": _OFF},
    ),
    Feature(
        "bn_upper_limit",
        "BN clamps above",
        Rank.VENDOR,
        "vendor: ReLU6",
        "nodes that use it stay on the CPU",
        {**_BN_ON, "DPU.BN_CFG.BN_RELUX_EN": _ON},
    ),
)

SCALING: Final = (*_BS, *_BN)
