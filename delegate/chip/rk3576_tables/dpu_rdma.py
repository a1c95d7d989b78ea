"""DPU_RDMA of RK3576: reader of the DPU's operands."""

from __future__ import annotations

from delegate.chip.register_model import (
    Certainty,
    OperandData,
    RegisterSpec,
    address,
    bit,
    bits,
    block,
    control_registers,
    reg,
)
from delegate.chip.rk3576_tables.dpu import mode


def _operands(offset: int, name: str, prefix: str, stage: str) -> RegisterSpec:
    return reg(
        offset,
        name,
        f"Operands of {stage} in memory: per channel, and scalars.",
        bits(10, 8, f"{prefix}_DATA_USE", "per channel", OperandData),
        bit(4, "SCALAR_SHIFT", "a word of shifts: 5:0 of values >= 0, 13:8 of others"),
        bit(3, "SCALAR_MUL", "a multiplier"),
        bit(1, "SCALAR_ALU", "a summand"),
    )


DPU_RDMA = block(
    "DPU_RDMA",
    0x2001,
    "Reader of the DPU's operands.",
    *control_registers(0x5000, "RDMA_"),
    reg(
        0x500C,
        "RDMA_DATA_CUBE_WIDTH",
        "Width of the tile.",
        bits(15, 0, "WIDTH", "pixels", minus_one=True),
    ),
    reg(
        0x5010,
        "RDMA_DATA_CUBE_HEIGHT",
        "Height of the tile.",
        bits(15, 0, "HEIGHT", "rows", minus_one=True),
    ),
    reg(
        0x5014,
        "RDMA_DATA_CUBE_CHANNEL",
        "Channels of the tile.",
        bits(15, 0, "CHANNEL", "channels", minus_one=True),
    ),
    address(0x5018, "RDMA_SRC_BASE_ADDR", "Address of the main operand.", "ADDRESS"),
    _operands(0x501C, "RDMA_BRDMA_CFG", "BRDMA", "BS"),
    address(0x5020, "RDMA_BS_BASE_ADDR", "Address of BS's operands per channel.", "ADDRESS"),
    address(0x5024, "RDMA_BS_SCALAR_ADDR", "Address of BS's scalars.", "ADDRESS"),
    _operands(0x5028, "RDMA_NRDMA_CFG", "NRDMA", "BN"),
    address(0x502C, "RDMA_BN_BASE_ADDR", "Address of BN's operands per channel.", "ADDRESS"),
    address(0x5030, "RDMA_BN_SCALAR_ADDR", "Address of BN's scalars.", "ADDRESS"),
    mode(0x5034, "RDMA_ERDMA_CFG", "Reader of EW's operand: 0x41 off."),
    address(0x5038, "RDMA_EW_BASE_ADDR", "Address of EW's operand.", "ADDRESS"),
    reg(
        0x5040,
        "RDMA_EW_SURF_STRIDE",
        "Pitch of the surfaces of EW's operand.",
        bits(27, 0, "EW_SURF_STRIDE", "bytes per surface", unit=16),
    ),
    mode(0x5044, "RDMA_FEATURE_MODE_CFG", "Which readers run."),
    *(
        mode(offset, f"UNDOCUMENTED_{offset:04X}", "0 in every known convolution.")
        for offset in (0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C)
    ),
    certainty=Certainty.OBSERVED,
)
