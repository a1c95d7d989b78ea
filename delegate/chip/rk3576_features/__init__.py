"""The features of RK3576 that programs use, with their evidence.

"Vendor" are programs that the vendor's compiler made, replayed on a model of the registers;
"others" ran whole networks on boards and published what they found. What is not here is not used.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank

_ON: Final = (1,)
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

FEATURES: Final = (
    Feature(
        "convolution",
        "dense convolution of int8 cubes (NC1HWC2), sums of 32 bits, padding by one value",
        Rank.MEASURED,
        "vendor: every convolution; others: whole networks on boards, in whole groups of kernels",
        "nothing runs on the NPU",
        {_CNA: _ON, "CNA.CONV_CON1.CONV_MODE": (0,)},
        ("non-square kernels: sources differ on which side is the height",),
    ),
    Feature(
        "depthwise_convolution",
        "one kernel per channel, 64 channels at a time, two bytes per weight",
        Rank.MEASURED,
        "vendor: every depthwise convolution; others: on boards, 8 to 256 channels",
        "depthwise convolutions stay on the CPU",
        {_CNA: _ON, "CNA.CONV_CON1.CONV_MODE": _ON},
        ("surfaces of other than multiples of 4 pixels are in no program",),
    ),
    Feature(
        "dilated_columns",
        "kernels whose columns are apart, and rows as much",
        Rank.VENDOR,
        "vendor: dilated convolutions",
        "dilated convolutions stay on the CPU",
        {"CNA.CONV_CON3.ATROUS_X_DILATION": NONZERO},
    ),
    Feature(
        "dilated_rows",
        "kernels whose rows are apart, and columns as much",
        Rank.VENDOR,
        "vendor: dilated convolutions",
        "dilated convolutions stay on the CPU",
        {"CNA.CONV_CON3.ATROUS_Y_DILATION": NONZERO},
    ),
    Feature(
        "operand_blocks",
        "BS adds, multiplies by and sums inputs with blocks of operands per channel from memory",
        Rank.MEASURED,
        "vendor: every convolution; others: on boards",
        "nothing runs on the NPU",
        {"DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE": (5, 7)},
    ),
    Feature(
        "shift_record",
        "BS's shifts of values from 0 on and of others, from memory",
        Rank.MEASURED,
        "vendor: every convolution; others: on boards",
        "nothing runs on the NPU",
        {"DPU_RDMA.RDMA_BRDMA_CFG.SCALAR_SHIFT": _ON},
    ),
    Feature(
        "activation_clamps",
        "values are clamped between two numbers behind BN",
        Rank.VENDOR,
        "vendor: ReLU and ReLU6",
        "nodes that use it stay on the CPU",
        {"DPU.BN_CFG.MODE": (0x902,)},
    ),
)
