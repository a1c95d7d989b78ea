"""What a task costs, by formulas that need no task: MAC cycles, bytes on the bus, kicks.

Estimates, not measurements. The cycle rules agree with the vendor compiler's own table on every
convolution that was compared (347 of 347); the bus rate is the one that table implies. The tiler
chooses by them, and ``delegate.npu.perf`` counts finished tasks with the same functions.
"""

from __future__ import annotations

from typing import Final

# Output pixels that are computed together. Observed.
PIXEL_GROUP: Final = 16
# Input channels one step of a dense convolution takes, whatever the element size. Observed.
STEP_CHANNELS: Final = 32
# Bytes one step multiplies per pixel and lane of the array: 32 int8 kernels, 16 of two bytes.
KERNELS_PER_STEP_BYTES: Final = 32
DEPTHWISE_PER_STEP_BYTES: Final = 64
# A group of kernels takes at least four steps per pixel (int8), two with 16-bit elements. Observed.
MIN_STEP_BYTES: Final = 4
# 23.6 bytes per cycle (inferred from the vendor's table), in tenths to stay in integers.
BUS_DECIBYTES_PER_CYCLE: Final = 236
# Launching a task: about 22 us on the stock rocket driver, which kicks every task by itself, at the
# nominal 1 GHz. Measured by others; a chain in one kick takes about 8 us per task.
KICK_CYCLES: Final = 22_000
# What the host converts at a partition's edge per cycle of the NPU: about a quarter of the memory
# bandwidth of one Cortex-A76. Assumed; only orders of magnitude matter.
HOST_BYTES_PER_CYCLE: Final = 4

# One submit, its wait and small synchronisations: 30 us. Assumed, the figure of
# delegate/partition/cost.py.
SUBMIT_CYCLES: Final = 30_000
# Bytes per cycle that all cores together get: 33.8 GB/s, the peak of the board's 64-bit LPDDR4X at
# 2112 MHz (documented), at 1 GHz. In tenths.
SHARED_BUS_DECIBYTES_PER_CYCLE: Final = 338
# Cleaning or invalidating a buffer in the CPU's caches, bytes per cycle of the NPU. Assumed.
SYNCHRONISED_BYTES_PER_CYCLE: Final = 8


def ceil_div(value: int, group: int) -> int:
    """``value / group``, rounded up."""
    return -(-value // group)


def dense_cycles(
    pixels: int, kernels: int, channels: int, taps: int, element_bytes: int = 1
) -> int:
    """Cycles of a dense convolution: ``pixels`` of output, ``taps`` = kh * kw."""
    steps = max(taps * ceil_div(channels, STEP_CHANNELS), MIN_STEP_BYTES // element_bytes)
    groups = ceil_div(kernels, KERNELS_PER_STEP_BYTES // element_bytes)
    return ceil_div(pixels, PIXEL_GROUP) * PIXEL_GROUP * groups * steps


def depthwise_cycles(pixels: int, channels: int, taps: int, element_bytes: int = 1) -> int:
    """Cycles of a depthwise convolution."""
    groups = ceil_div(channels, DEPTHWISE_PER_STEP_BYTES // element_bytes)
    return ceil_div(pixels, PIXEL_GROUP) * PIXEL_GROUP * groups * taps


def ddr_cycles(moved_bytes: int) -> int:
    """Cycles the memory port needs for ``moved_bytes``."""
    return ceil_div(moved_bytes * 10, BUS_DECIBYTES_PER_CYCLE)
