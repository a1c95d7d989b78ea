"""RK3576: two cores that share one CBUF, with registers of their own.

Programs use what both kinds of evidence agree on: programs of the vendor's compiler, which a model
of the registers replays, and what others measured on boards. They are for core 0, which has banks 0
to 6 of CBUF; what runs on core 1 is moved to its banks, 7 to 13, when it is loaded
(``native/host/core_banks.h``). Every tile fetches all of its rows and weights.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.chip import Cbuf, Chip, Forms, Groups, Rates
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.rk3576_features import FEATURES
from delegate.chip.rk3576_tables import REGISTERS
from delegate.chip.rk3588 import RK3588

_TASK_NUMBER_LIMIT: Final = REGISTERS.register("PC.TASK_CON").field("TASK_NUMBER").limits[1]

RK3576: Final = Chip(
    name="rk3576",
    cores=2,
    atom_bytes=ATOM_BYTES,
    cbuf=Cbuf(
        banks=7,  # of the 16: core 0 has 0 to 6, core 1 has 7 to 13. Observed.
        bank_bytes=64 * 1024,
        entry_bytes=64,
        max_row_entries=2048,
        resident_weight_banks=0,
        # Observed; with 5, groups of kernels behind the first were lost below the vendor's own
        # limit of weights (measured by others).
        data_banks=4,
        weight_slice_bytes=144 * 1024,  # measured by others; the vendor splits at 180 KiB
        is_shared=True,
    ),
    groups=Groups(dense_kernels=32, depthwise_channels=64, input_lanes=32),  # observed
    rates=Rates(
        # Agree with the vendor compiler's own table on every convolution compared.
        step_pixels=16,
        min_dense_steps=4,
        bus_decibytes_per_cycle=75,  # 7.46 bytes in the same table
        shared_bus_decibytes_per_cycle=75,  # assumed: no table of both cores is known
        host_bytes_per_cycle=RK3588.rates.host_bytes_per_cycle,  # assumed
        synchronised_bytes_per_cycle=RK3588.rates.synchronised_bytes_per_cycle,  # assumed
        kick_cycles=RK3588.rates.kick_cycles,  # assumed
        submit_cycles=RK3588.rates.submit_cycles,  # assumed
        clock_hz=1_000_000_000,  # nominal; published figures were measured at 786 MHz
    ),
    # Fields are wider than RK3588's as far as their packing shows, but nobody has probed them.
    limits=RK3588.limits,
    formats=(Element.INT8,),
    forms=Forms(
        depthwise_pairs=True,
        operand_blocks=True,
        whole_kernel_groups=True,
        equal_sides=True,
        depthwise_surface_pixels=4,
        writes_sums=False,
        spreads_pixels=False,
    ),
    registers=REGISTERS,
    features=FEATURES,
)
"""``limits.chain_tasks`` stays RK3588's, too, although the counter of tasks has 16 bits here."""

assert RK3576.limits.chain_tasks <= _TASK_NUMBER_LIMIT
