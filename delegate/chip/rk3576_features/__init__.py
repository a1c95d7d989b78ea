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
    Feature(
        "element_wise_alone",
        "the DPU alone, fed from memory, with the numbers of its stages in a record there",
        Rank.VENDOR,
        "vendor: sums, products, functions and copies of whole maps",
        "operators without a convolution stay on the CPU",
        {_CNA: (0,)},
        ("a sum whose record was zeros gave nothing on a board, as times 0 does",),
    ),
    Feature(
        "ew_addition",
        "EW adds a map, converted by a summand, a multiplier and a shift",
        Rank.VENDOR,
        "vendor: sums and differences of two maps, with equal and with different scales",
        "additions stay on the CPU",
        {"DPU.EW_CFG.MODE": (0x8002_C0C0,)},
    ),
    Feature(
        "ew_product",
        "EW multiplies with a map whose zero point is taken off",
        Rank.VENDOR,
        "vendor: products of two maps",
        "products stay on the CPU",
        {"DPU.EW_CFG.MODE": (0x810F_4094,)},
    ),
    Feature(
        "table_load",
        "a task that copies an atom fills both lookup tables",
        Rank.VENDOR,
        "vendor: before every function",
        "functions stay on the CPU",
        {"DPU.LUT_ACCESS_CFG.LUT_ACCESS_TYPE": _ON},
    ),
    Feature(
        "table",
        "BN makes places in the lookup tables by a record: (x + summand) * multiplier >> shift",
        Rank.VENDOR,
        "vendor: functions, among them some whose table begins elsewhere than at the zero point",
        "functions stay on the CPU",
        {"DPU.EW_CFG.MODE": (0x100_4140,)},
    ),
)
