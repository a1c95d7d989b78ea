"""RK3588: three cores with a CBUF each.

Certainty: "documented" = register descriptions of the TRM; "observed" = read from programs that run
on silicon (the vendor's runtime, Mesa's driver); "assumed" = inferred.
"""

from __future__ import annotations

from typing import Final

from delegate.chip.chip import Cbuf, Chip, Groups, Limits, Rates
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.registers import REGISTERS, register
from delegate.chip.rk3588_features import FEATURES

_ACCUMULATOR_BITS: Final = 32  # documented
_INT8_LEAST: Final = -128


def _most(register_name: str, field: str) -> int:
    """The largest true value that a register's field takes."""
    return register(register_name).field(field).limits[1]


def _limits() -> Limits:
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
        bytes_per_kernel=_most("CNA.WEIGHT_SIZE1", "WEIGHT_BYTES_PER_KERNEL"),
        shift=_most("DPU.BS_MUL_CFG", "BS_MUL_SHIFT_VALUE"),
        chain_tasks=_most("PC.TASK_CON", "TASK_NUMBER"),
        products=products,
    )


RK3588: Final = Chip(
    name="rk3588",
    cores=3,
    atom_bytes=ATOM_BYTES,
    # Observed; CBUF_CON1.DATA_ENTRIES: "DatainEntries ... limitation: 2048" (vendor's compiler).
    cbuf=Cbuf(
        banks=12,
        bank_bytes=32 * 1024,
        entry_bytes=64,
        max_row_entries=2048,
        resident_weight_banks=3,
    ),
    groups=Groups(dense_kernels=32, depthwise_channels=64, input_lanes=32),  # observed
    rates=Rates(
        # Agree with the vendor compiler's own table on every convolution compared (347 of 347).
        step_pixels=16,
        min_dense_steps=4,
        bus_decibytes_per_cycle=236,  # inferred from the same table
        # 33.8 GB/s, the peak of the board's 64-bit LPDDR4X at 2112 MHz. Documented.
        shared_bus_decibytes_per_cycle=338,
        # About a quarter of the memory bandwidth of one Cortex-A76. Assumed; only orders of
        # magnitude matter.
        host_bytes_per_cycle=4,
        synchronised_bytes_per_cycle=8,  # assumed
        # 22 us on the stock rocket driver, which kicks every task by itself. Measured by others; a
        # chain in one kick takes about 8 us per task.
        kick_cycles=22_000,
        submit_cycles=30_000,  # assumed
        clock_hz=1_000_000_000,  # nominal
    ),
    limits=_limits(),
    formats=(Element.INT8, Element.FP16),
    registers=REGISTERS,
    features=FEATURES,
)
