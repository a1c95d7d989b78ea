"""The registers of RK3588: by block and name, or by the target and offset of a command word.

One table serves the encoder, the disassembler, the simulator's generated header and the generated
documentation page, so that they cannot disagree.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.register_model import RegisterMap
from delegate.chip.rk3588.registers.cna import CNA, CORE
from delegate.chip.rk3588.registers.dpu import DPU
from delegate.chip.rk3588.registers.dpu_rdma import DPU_RDMA
from delegate.chip.rk3588.registers.pc import ENABLE, PC, SYNC
from delegate.chip.rk3588.registers.ppu import PPU, PPU_RDMA

REGISTERS: Final = RegisterMap(
    *(PC, CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, SYNC, ENABLE),
    number=0,
    facts="Facts are from the chip's manual unless marked *observed* or *assumed*.",
)
"""Every block that a command word can address. Targets have 16 bits, so DDMA, SDMA and GLOBAL,
which only the kernel touches, are not among them."""
