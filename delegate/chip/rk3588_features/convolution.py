"""What RK3588's CNA and CORE do: convolutions, and what of a tensor they fetch."""

from __future__ import annotations

from typing import Final

from delegate.chip.features import NONZERO, Feature, Rank

_ON, _OFF = (1,), (0,)
_CNA: Final = "ENABLE.OPERATION_ENABLE.CNA"

CONVOLUTION: Final = (
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
        "nodes that use it stay on the CPU",
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
