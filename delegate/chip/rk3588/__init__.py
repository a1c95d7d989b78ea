"""RK3588: three cores with a CBUF each.

Certainty: "documented" = register descriptions of the TRM; "observed" = read from programs that run
on silicon (the vendor's runtime, Mesa's driver); "assumed" = inferred.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from delegate.chip.chip import (
    Cbuf,
    Chip,
    Driver,
    Groups,
    Limits,
    Measurement,
    Primitive,
    Rates,
    Span,
)
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.rk3588.registers import REGISTERS

_ACCUMULATOR_BITS: Final = 32  # documented
_INT8_LEAST: Final = -128


def _most(register_name: str, field: str) -> int:
    """Return the largest true value that a register's field takes."""
    return REGISTERS.by_name[register_name].field(field).limits[1]


def _field_limits() -> Limits:
    # Products of int8 reach 2^14: more of them than this could leave the array's sum.
    products = (1 << (_ACCUMULATOR_BITS - 1)) // (_INT8_LEAST * _INT8_LEAST) - 1
    return Limits(
        feature_size=_most("CNA.DATA_SIZE0", "DATAIN_WIDTH"),
        # The exact maximum of fields that hold value - 1 is avoided.
        cube_size=_most("DPU.DATA_CUBE_WIDTH", "WIDTH") - 1,
        input_channels=_most("CNA.DATA_SIZE1", "DATAIN_CHANNEL") // ATOM_BYTES * ATOM_BYTES,
        notch=_most("DPU.DATA_CUBE_NOTCH_ADDR", "NOTCH_ADDR_0"),
        kernel_size=_most("CNA.WEIGHT_SIZE2", "WEIGHT_WIDTH"),
        kernels=_most("CNA.WEIGHT_SIZE2", "WEIGHT_KERNELS"),
        stride=_most("CNA.CONV_CON3", "CONV_X_STRIDE"),
        pad=_most("CNA.PAD_CON0", "PAD_LEFT"),
        dilation=_most("CNA.CONV_CON3", "ATROUS_X_DILATION"),
        spread=_most("CNA.CONV_CON3", "DECONV_X_STRIDE"),
        spreads=(),
        spread_pad=0,
        bytes_per_kernel=_most("CNA.WEIGHT_SIZE1", "WEIGHT_BYTES_PER_KERNEL"),
        shift=_most("DPU.BS_MUL_CFG", "BS_MUL_SHIFT_VALUE"),
        chain_tasks=_most("PC.TASK_CON", "TASK_NUMBER"),
        products=products,
    )


FIELD_LIMITS: Final = _field_limits()
"""The limits of what the registers hold; nothing lies between pixels."""

_LIMITS: Final = replace(
    FIELD_LIMITS,
    # A task that wrote 8,192 channels was right, but the job after it did not end; 8,191 columns
    # of a table's results had 54 wrong ones; 4,096 of both are right. Measured by others.
    cube_size=4096,
    kernels=4096,
    # Other numbers of rows or columns act as 1, padding of 12 to 15 is wrong. Measured by others.
    spreads=(1, 2, 4, 8),
    spread_pad=11,
)


# Bytes per us. What others' attention, 16.8 MB of keys and values in 1.790, 0.941 and 0.763 ms, got
# from memory with one, two and three cores, at least: kicks and the host are in these times.
# Measured on the vendor's driver at 1 GHz; at 600 MHz it took 9 % longer.
_MEMORY_MEASURED: Final = (9_400.0, 17_800.0, 22_000.0)
# The board's 64-bit LPDDR4X at 2112 MHz. Documented.
_MEMORY_PEAK: Final = 33_800.0

_DRIVERS: Final = (
    Driver(
        "rocket",
        # A job of one small task takes 51 us, with its submit; one of four takes 274 us, their
        # computing included. Others' measurements at 600 MHz.
        kick_us=Span(50.0, 65.0),
        # Attaching the memory takes 15 to 20 us of a job; it is in the 51 us above.
        submit_us=Span(0.0, 20.0),
        # The clock after boot, which mainline leaves as it is, and the highest that others call
        # stable at the voltage after boot.
        clock_hz=Span(200e6, 600e6),
    ),
    Driver(
        "rknpu",
        # A task of a chain on a chip of the family (RV1103 at 420 MHz). Others' measurement.
        kick_us=Span(8.0, 8.0),
        # On the same chip, and a blocking submit on RK3588. Others' measurements.
        submit_us=Span(100.0, 167.0),
        clock_hz=Span(1e9, 1e9),  # its highest operating point, which it takes under load
    ),
)

_TEFLON: Final = "Teflon, each task kicked by itself, clock not stated"
_VENDOR: Final = "the vendor's runtime, one core"
_MEASURED: Final = (
    Measurement(
        "MobileNetV1 1.0 224", Span(10.8, 11.5), _TEFLON, "T. Vizoso 2024-03; allbilly/rk3588"
    ),
    Measurement("MobileNetV2 1.0 224", Span(15.0, 15.0), _TEFLON, "allbilly/rk3588"),
    Measurement("SSDLite MobileDet 320", Span(38.0, 38.0), _TEFLON, "allbilly/rk3588"),
    Measurement("YOLOv8n 640", Span(18.8, 18.8), f"{_VENDOR}, 53.1 per second", "Qengineering"),
    Measurement("YOLOv5n 640", Span(17.0, 17.0), f"{_VENDOR}, 58.8 per second", "Qengineering"),
    Measurement(
        "YOLOv5s 640",
        Span(18.8, 27.5),
        f"{_VENDOR}; 22.9 MB moved",
        "jas-hacks 2023; airockchip/rknn-toolkit2#129",
    ),
)

RK3588: Final = Chip(
    name="rk3588",
    target="rk3588",
    cores=3,
    atom_bytes=ATOM_BYTES,
    # Observed; CBUF_CON1.DATA_ENTRIES: "DatainEntries ... limitation: 2048" (vendor's compiler).
    cbuf=Cbuf(
        banks=12,
        bank_bytes=32 * 1024,
        entry_bytes=64,
        max_row_entries=2048,
        resident_weight_banks=3,
        # Of 1,494 shapes of one column those lost their last rows whose last bank was 97.6 % full
        # or more; others take a bank more from 95 % on.
        column_spare_entries=26,
    ),
    groups=Groups(dense_kernels=32, depthwise_channels=64, input_lanes=32),  # observed
    rates=Rates(
        # Agree with the vendor compiler's own table on every convolution compared (347 of 347).
        step_pixels=16,
        min_dense_steps=4,
        bus_decibytes_per_cycle=236,  # inferred from the same table
        memory_bytes_per_us=tuple(Span(least, _MEMORY_PEAK) for least in _MEMORY_MEASURED),
        # About a quarter of the memory bandwidth of one Cortex-A76. Assumed; only orders of
        # magnitude matter.
        host_bytes_per_cycle=4,
        # Between a task of a chain and a kick of rocket (``_DRIVERS``): one program serves both.
        # 22 us are what a chip of the family takes for tasks one by one on the vendor's driver.
        kick_cycles=22_000,
        clock_hz=1_000_000_000,  # nominal
        drivers=_DRIVERS,
        measured=_MEASURED,
    ),
    limits=_LIMITS,
    formats=(Element.INT8, Element.FP16),
    registers=REGISTERS,
    lacks=frozenset({Primitive.POOLING}),  # but with a driver that waits for it
)
