"""PPU: pooling."""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.register_model import (
    BurstLength,
    DpuPrecision,
    PoolMethod,
    RegisterSpec,
    bit,
    bits,
    block,
    control_registers,
    reg,
)


def cube_registers(offset: int, prefix: str, name: str, meaning: str) -> Iterator[RegisterSpec]:
    """Width, height and channels of the cube called ``name``; of the PPU and its reader."""
    units = {"WIDTH": "pixels", "HEIGHT": "rows", "CHANNEL": "channels"}
    for number, (side, unit) in enumerate(units.items()):
        field = f"CUBE_{name}_{side}"
        text = f"{side.capitalize()} of the {meaning}."
        size = bits(12, 0, field, unit, minus_one=True)
        yield reg(offset + 4 * number, prefix + field, text, size)


PPU = block(
    "PPU",
    0x4001,
    "Pooling.",
    *control_registers(0x6000),
    *cube_registers(0x600C, "DATA_", "IN", "input"),
    *cube_registers(0x6018, "DATA_", "OUT", "output"),
    reg(
        0x6024,
        "OPERATION_MODE_CFG",
        "Pooling method.",
        bit(30, "INDEX_EN", "write positions"),
        bits(28, 16, "NOTCH_ADDR", "pixels to skip after each row"),
        bits(7, 5, "USE_CNT", "use count"),
        bit(4, "FLYING_MODE", "1: input from PPU_RDMA, 0: from DPU"),
        bits(1, 0, "POOLING_METHOD", "method", PoolMethod),
    ),
    reg(
        0x6034,
        "POOLING_KERNEL_CFG",
        "Kernel and strides.",
        bits(23, 20, "KERNEL_STRIDE_HEIGHT", "stride in h", minus_one=True),
        bits(19, 16, "KERNEL_STRIDE_WIDTH", "stride in w", minus_one=True),
        bits(11, 8, "KERNEL_HEIGHT", "kh", minus_one=True),
        bits(3, 0, "KERNEL_WIDTH", "kw", minus_one=True),
    ),
    reg(
        0x6038,
        "RECIP_KERNEL_WIDTH",
        "Average pooling: 65536 / kw.",
        bits(16, 0, "RECIP_KERNEL_WIDTH", "reciprocal"),
    ),
    reg(
        0x603C,
        "RECIP_KERNEL_HEIGHT",
        "Average pooling: 65536 / kh.",
        bits(16, 0, "RECIP_KERNEL_HEIGHT", "reciprocal"),
    ),
    reg(
        0x6040,
        "POOLING_PADDING_CFG",
        "Padding.",
        bits(14, 12, "PAD_BOTTOM", "rows"),
        bits(10, 8, "PAD_RIGHT", "columns"),
        bits(6, 4, "PAD_TOP", "rows"),
        bits(2, 0, "PAD_LEFT", "columns"),
    ),
    reg(
        0x6044,
        "PADDING_VALUE_1_CFG",
        "Padding value, low 32 of 35 bits.",
        bits(31, 0, "PAD_VALUE_0", "low bits"),
    ),
    reg(
        0x6048,
        "PADDING_VALUE_2_CFG",
        "Padding value, high 3 of 35 bits.",
        bits(2, 0, "PAD_VALUE_1", "high bits"),
    ),
    reg(
        0x6070,
        "DST_BASE_ADDR",
        "Address of the output.",
        bits(31, 4, "DST_BASE_ADDR", "byte address", unit=16),
        is_address=True,
    ),
    reg(
        0x607C,
        "DST_SURF_STRIDE",
        "Pitch of output surfaces.",
        bits(31, 4, "DST_SURF_STRIDE", "bytes per surface", unit=16),
    ),
    reg(
        0x6084,
        "DATA_FORMAT",
        "Element type and source.",
        bits(31, 4, "INDEX_ADD", "bytes, as DST_SURF_STRIDE", unit=16),
        bit(3, "DPU_FLYIN", "the DPU reads from memory"),
        bits(2, 0, "PROC_PRECISION", "arithmetic", DpuPrecision),
    ),
    reg(
        0x60DC,
        "MISC_CTRL",
        "Output mode.",
        bits(31, 16, "SURF_LEN", "surface length"),
        bit(8, "MC_SURF_OUT", "several surfaces out"),
        bit(7, "NONALIGN", "unaligned"),
        bits(3, 0, "BURST_LEN", "write bursts", BurstLength),
    ),
)
