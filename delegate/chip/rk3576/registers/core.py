"""CORE of RK3576: MAC array and accumulator."""

from __future__ import annotations

from delegate.chip.register_model import Certainty, block, control_registers

CORE = block(
    "CORE",
    0x0801,
    "MAC array and accumulator.",
    f"""
{control_registers(0x3000)}
0x3018 MISC_CFG: Mode and element type of the MAC array.
  28 CORE_EN: 1 in every known program
  10:8 PROC_PRECISION (Precision): arithmetic
  7 PIXELS: packed pixels
  3:0 MODE: 1 dense int8, 10 depthwise int8, 0 fp16
0x301c DATAOUT_SIZE_0: Height and width of the output tile.
  31:16 DATAOUT_HEIGHT (m1): rows
  15:0 DATAOUT_WIDTH (m1): pixels
0x3020 DATAOUT_SIZE_1: Channels of the output tile.
  15:0 DATAOUT_CHANNEL (m1): channels
0x3024 CLIP_TRUNCATE: Right shift of the accumulator before the DPU; 0 in every known program.
  4:0 CLIP_TRUNCATE: bits
""",
    Certainty.OBSERVED,
)
