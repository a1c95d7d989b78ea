"""RK3576: two cores that share one CBUF, with registers of their own.

Programs use what both kinds of evidence agree on: programs of the vendor's compiler, which a model
of the registers replays, and what others measured on boards. They are for core 0, which has banks 0
to 6 of CBUF; what runs on core 1 is moved to its banks, 7 to 13, when it is loaded
(``native/host/core_banks.h``). Every tile fetches all of its rows and weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from delegate.chip.chip import Cbuf, Chip, Groups, Measurement, Primitive, Rates, Span
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.rk3576.registers import REGISTERS
from delegate.chip.rk3588 import FIELD_LIMITS, RK3588

_TASK_NUMBER_LIMIT: Final = REGISTERS.by_name["PC.TASK_CON"].field("TASK_NUMBER").limits[1]

_CLOCK: Final = Span(786e6, 786e6)
"""The clock of published figures; 1 GHz is nominal."""

_MEMORY: Final = Span(2_600.0, 3_200.0)
"""Bytes per us. By the vendor's table a core gets 5,900 at that clock, and both MobileNets, which
wait for memory almost throughout, would take 1 / 1.7 of what others measured in one kick: 5.0 and
6.8 ms. Our programs of them move 14.5 and 18.0 MB: 2,600 if all of the time is memory, 3,200 if
launches (8 us a task) and the host are not. Inferred: their programs are not ours.
"""

_ONE_KICK: Final = "modified rocket, one kick, 786 MHz"
_SOURCE: Final = "gregordinary/tflite-rocket, 2026-08"
_MEASURED: Final = (
    Measurement("MobileNetV1 1.0 224", Span(5.0, 5.0), _ONE_KICK, _SOURCE),
    Measurement(
        "MobileNetV1 1.0 224", Span(10.4, 10.4), "rocket, a kick per task, 786 MHz", _SOURCE
    ),
    Measurement("MobileNetV2 1.0 224", Span(6.8, 6.8), _ONE_KICK, _SOURCE),
    Measurement("ResNet-18 224", Span(8.8, 8.8), _ONE_KICK, _SOURCE),
)

RK3576: Final = Chip(
    name="rk3576",
    target="rk3576",
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
    groups=Groups(
        # Observed, and that surfaces are multiples of 4 pixels; on whole groups of kernels, and as
        # many input channels, all sources agree.
        dense_kernels=32,
        depthwise_channels=64,
        input_lanes=32,
        kernel_unit=32,
        fills_inputs=True,
        depthwise_weight_bytes=2,
        depthwise_surface_pixels=4,
    ),
    rates=Rates(
        # Agree with the vendor compiler's own table on every convolution compared.
        step_pixels=16,
        min_dense_steps=4,
        bus_decibytes_per_cycle=75,  # 7.46 bytes in the same table
        # One rate for both cores: nobody has measured two.
        memory_bytes_per_us=(_MEMORY, _MEMORY),
        host_bytes_per_cycle=RK3588.rates.host_bytes_per_cycle,  # assumed
        kick_cycles=RK3588.rates.kick_cycles,  # assumed
        clock_hz=1_000_000_000,  # nominal
        drivers=tuple(replace(one, clock_hz=_CLOCK) for one in RK3588.rates.drivers),  # assumed
        measured=_MEASURED,
    ),
    # Fields are wider than RK3588's as far as their packing shows, but nobody has probed them.
    limits=FIELD_LIMITS,
    formats=(Element.INT8,),
    lacks=frozenset(Primitive),  # programs of the vendor for one core show none of them
    registers=REGISTERS,
)
"""``limits.chain_tasks`` stays RK3588's, too, although the counter of tasks has 16 bits here."""

assert RK3576.limits.chain_tasks <= _TASK_NUMBER_LIMIT
