"""Look-up in the register table: by block and name, or by the target and offset of a command word.

One table serves the encoder, the disassembler, the simulator's generated header and the generated
documentation page, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from delegate.chip.register_model import Block, Register
from delegate.chip.register_tables.cna import CNA
from delegate.chip.register_tables.core import CORE
from delegate.chip.register_tables.dpu import DPU
from delegate.chip.register_tables.dpu_rdma import DPU_RDMA
from delegate.chip.register_tables.enable import ENABLE, SYNC
from delegate.chip.register_tables.pc import PC
from delegate.chip.register_tables.ppu import PPU
from delegate.chip.register_tables.ppu_rdma import PPU_RDMA

BLOCKS: tuple[Block, ...] = (PC, CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, SYNC, ENABLE)
"""Every block that a command word can address. Targets have 16 bits, so DDMA, SDMA and GLOBAL,
which only the kernel touches, are not among them."""

BY_NAME: Mapping[str, Register] = MappingProxyType(
    {register.full_name: register for block in BLOCKS for register in block.registers}
)
"""``"CNA.CONV_CON1"`` to its register."""

BY_ADDRESS: Mapping[tuple[int, int], Register] = MappingProxyType(
    {(r.target, r.offset): r for block in BLOCKS for r in block.registers}
)
"""(target, offset) of a command word to its register."""


def register(full_name: str) -> Register:
    """The register called ``BLOCK.NAME``. Raises KeyError naming it."""
    try:
        return BY_NAME[full_name]
    except KeyError:
        raise KeyError(f"no register {full_name} in the table") from None
