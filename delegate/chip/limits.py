"""Limits and granularities of the RK3588 NPU that lowering obeys, each with its source.

Certainty: "documented" = register descriptions of the TRM; "observed" = read from programs that run
on silicon (the vendor's runtime, Mesa's driver); "assumed" = inferred.
"""

from __future__ import annotations

from typing import Final

# Feature atom: 16 bytes, so 16 int8 channels share a surface (C2 of NC1HWC2). Observed.
ATOM_BYTES: Final = 16
CHANNELS_PER_SURFACE: Final = 16

# The MAC array works on groups of output channels: 32 dense int8 kernels, 64 depthwise channels;
# the DPU writes whole groups. Observed.
DENSE_KERNEL_GROUP: Final = 32
DEPTHWISE_GROUP: Final = 64
# Input channels are sequenced in groups of 32 lanes in dense convolutions. Observed.
DENSE_INPUT_GROUP: Final = 32

# CBUF: 12 banks of 32 KiB; a bank holds 512 entries of 64 bytes. Observed.
CBUF_BANKS: Final = 12
CBUF_BANK_BYTES: Final = 32 * 1024
CBUF_ENTRY_BYTES: Final = 64
CBUF_ENTRIES_PER_BANK: Final = CBUF_BANK_BYTES // CBUF_ENTRY_BYTES
# CBUF_CON1.DATA_ENTRIES: the vendor's compiler refuses more ("DatainEntries ... limitation: 2048").
# Observed.
MAX_ENTRIES_PER_ROW: Final = 2048
# Up to this many banks the vendor keeps all weights resident; beyond, two kernel groups are
# double-buffered. Observed.
RESIDENT_WEIGHT_BANKS: Final = 3

# Field widths. Documented.
MAX_FEATURE_SIZE: Final = 2047  # DATAIN_WIDTH, DATAIN_HEIGHT: 11 bits
MAX_CUBE_SIZE: Final = (
    8191  # DPU cube width, height, channel: 13 bits of value - 1; the exact maximum is avoided
)
MAX_INPUT_CHANNELS: Final = 65535 // 16 * 16  # DATAIN_CHANNEL: 16 bits, in whole atoms
MAX_NOTCH: Final = 8191  # NOTCH_ADDR: pixels skipped between rows of a tile, 13 bits
MAX_KERNEL_SIZE: Final = 31  # WEIGHT_WIDTH, WEIGHT_HEIGHT: 5 bits
MAX_KERNELS: Final = 16383  # WEIGHT_KERNELS: 14 bits
MAX_STRIDE: Final = 7  # CONV_X_STRIDE, CONV_Y_STRIDE: 3 bits
MAX_PAD: Final = 15  # PAD_LEFT, PAD_TOP: 4 bits
MAX_DILATION: Final = 32  # ATROUS fields hold dilation - 1 in 5 bits
MAX_BYTES_PER_KERNEL: Final = (1 << 19) - 1  # WEIGHT_BYTES_PER_KERNEL: 19 bits
# Products of int8 reach 2^14: more of them than this could leave the array's int32 sum.
MAX_PRODUCTS: Final = (1 << 17) - 1
MAX_CHAIN_TASKS: Final = 4095  # PC_TASK_CON: tasks of a chain, 12 bits
MAX_SHIFT: Final = 63  # BS, BN and OUT_CVT shifts: 6 bits used

# Sizes of a program's buffers: far above real ones, and all of them within the 4 GiB that address
# registers reach.
MAX_BUFFER_BYTES: Final = 1 << 30
MAX_TOTAL_BYTES: Final = 3 << 30

# DMA addresses of tensors, weights and operands. 16 is documented (fields [31:4]); 64 keeps bursts
# whole.
DMA_ALIGN_BYTES: Final = 64


def align(value: int, granule: int) -> int:
    """``value`` rounded up to a multiple of ``granule``."""
    return -(-value // granule) * granule
