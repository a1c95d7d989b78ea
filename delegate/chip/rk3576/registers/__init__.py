"""The registers of RK3576.

What is marked as observed is read from programs of the vendor's compiler, which a model of these
registers replays; widths of fields are what the packing leaves room for and nobody has probed them,
so that a chip's limits stay those of RK3588. Registers without a known meaning hold one number in
every known program.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.register_model import RegisterMap
from delegate.chip.rk3576.registers.cna import CNA, CORE
from delegate.chip.rk3576.registers.dpu import DPU
from delegate.chip.rk3576.registers.dpu_rdma import DPU_RDMA
from delegate.chip.rk3576.registers.pc import PC
from delegate.chip.rk3588.registers.pc import ENABLE, SYNC

REGISTERS: Final = RegisterMap(
    *(PC, CNA, CORE, DPU, DPU_RDMA, SYNC, ENABLE),
    number=1,
    facts="There is no public manual: facts are *observed* in programs of the vendor's compiler "
    "and on boards; how wide fields are nobody has probed.",
)
"""The map has no PPU, which no program for this chip uses."""
