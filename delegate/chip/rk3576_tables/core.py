"""CORE of RK3576: MAC array and accumulator."""

from __future__ import annotations

from delegate.chip.register_model import (
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
    *control_registers(0x3000),
    reg(
        0x3018,
        "MISC_CFG",
        "Mode and element type of the MAC array.",
        bit(28, "CORE_EN", "1 in every known program"),
        bits(10, 8, "PROC_PRECISION", "arithmetic", Precision),
        bit(7, "PIXELS", "packed pixels"),
        bits(3, 0, "MODE", "1 dense int8, 10 depthwise int8, 0 fp16"),
    ),
    reg(
        0x301C,
        "DATAOUT_SIZE_0",
        "Height and width of the output tile.",
        bits(31, 16, "DATAOUT_HEIGHT", "rows", minus_one=True),
        bits(15, 0, "DATAOUT_WIDTH", "pixels", minus_one=True),
    ),
    reg(
        0x3020,
        "DATAOUT_SIZE_1",
        "Channels of the output tile.",
        bits(15, 0, "DATAOUT_CHANNEL", "channels", minus_one=True),
    ),
    reg(
        0x3024,
        "CLIP_TRUNCATE",
        "Right shift of the accumulator before the DPU; 0 in every known program.",
        bits(4, 0, "CLIP_TRUNCATE", "bits"),
    ),
    certainty=Certainty.OBSERVED,
)
