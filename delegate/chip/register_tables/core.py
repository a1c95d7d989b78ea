"""CORE: MAC array and accumulator."""

from __future__ import annotations

from delegate.chip.register_model import (
    Access,
    Certainty,
    Precision,
    bit,
    bits,
    block,
    control_registers,
    reg,
)

CORE = block(
    "CORE",
    0x0801,
    "MAC array and accumulator.",
    *control_registers(0x3000, pointer_access=Access.HOST),
    reg(
        0x300C,
        "MAC_GATING",
        "Clock gating of the MAC array.",
        bits(26, 0, "SLCG_OP_EN", "gating signals"),
        access=Access.HOST,
    ),
    reg(
        0x3010,
        "MISC_CFG",
        "Mode and element type of the MAC array.",
        bits(19, 14, "SOFT_GATING", "accumulator gating"),
        bits(10, 8, "PROC_PRECISION", "arithmetic", Precision),
        bit(1, "DW_EN", "depthwise"),
        bit(0, "QD_EN", "also sum the inputs, for the OW term of the DPU"),
    ),
    reg(
        0x3014,
        "DATAOUT_SIZE_0",
        "Height and width of the output tile.",
        bits(31, 16, "DATAOUT_HEIGHT", "rows", minus_one=True),
        bits(15, 0, "DATAOUT_WIDTH", "pixels", minus_one=True),
    ),
    reg(
        0x3018,
        "DATAOUT_SIZE_1",
        "Channels of the output tile.",
        bits(15, 0, "DATAOUT_CHANNEL", "channels, whole groups", minus_one=True),
    ),
    reg(
        0x301C,
        "CLIP_TRUNCATE",
        "Right shift of the accumulator before the DPU (0: none; its exact rule is unproven).",
        bit(6, "ROUND_TYPE", "0: half to even"),
        bits(4, 0, "CLIP_TRUNCATE", "bits"),
    ),
    reg(
        0x3030,
        "UNDOCUMENTED_3030",
        "Not in the manual; correct programs write 0 and no effect was seen.",
        bits(31, 0, "VALUE", "must be 0"),
        certainty=Certainty.OBSERVED,
    ),
)
