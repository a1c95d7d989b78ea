"""CORE: MAC array and accumulator."""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers

CORE = block(
    "CORE",
    0x0801,
    "MAC array and accumulator.",
    f"""
{control_registers(0x3000, pointer="host")}
0x300c MAC_GATING (host): Clock gating of the MAC array.
  26:0 SLCG_OP_EN: gating signals
0x3010 MISC_CFG: Mode and element type of the MAC array.
  19:14 SOFT_GATING: accumulator gating
  10:8 PROC_PRECISION (Precision): arithmetic
  1 DW_EN: depthwise
  0 QD_EN: also sum the inputs, for the OW term of the DPU
0x3014 DATAOUT_SIZE_0: Height and width of the output tile.
  31:16 DATAOUT_HEIGHT (m1): rows
  15:0 DATAOUT_WIDTH (m1): pixels
0x3018 DATAOUT_SIZE_1: Channels of the output tile.
  15:0 DATAOUT_CHANNEL (m1): channels, whole groups
0x301c CLIP_TRUNCATE: Right shift of the accumulator before the DPU (0: none; its exact rule is \
      unproven).
  6 ROUND_TYPE: 0: half to even
  4:0 CLIP_TRUNCATE: bits
0x3030 UNDOCUMENTED_3030 (observed): Not in the manual; correct programs write 0 and no effect \
      was seen.
  31:0 VALUE: must be 0
""",
)
