"""Estimate the cost of a task by formulas that need no task: MAC cycles, bytes on the bus, kicks.

Estimates, not measurements. The cycle rules agree with the vendor compiler's own table on every
convolution that was compared (347 of 347); the bus rate is the one that table implies. The tiler
chooses by them, and ``delegate.npu.perf`` counts finished tasks with the same functions.
"""

from __future__ import annotations

from delegate.chip.chip import Chip


def ceil_div(value: int, group: int) -> int:
    """``value / group``, rounded up."""
    return -(-value // group)


def dense_cycles(
    chip: Chip, pixels: int, kernels: int, channels: int, taps: int, element_bytes: int = 1
) -> int:
    """Cycles of a dense convolution: ``pixels`` of output, ``taps`` = kh * kw."""
    steps = max(
        taps * ceil_div(channels, chip.groups.input_lanes),
        chip.rates.min_dense_steps // element_bytes,
    )
    groups = ceil_div(kernels, chip.groups.dense_kernels // element_bytes)
    return _whole_steps(chip, pixels) * groups * steps


def depthwise_cycles(
    chip: Chip, pixels: int, channels: int, taps: int, element_bytes: int = 1
) -> int:
    """Cycles of a depthwise convolution."""
    groups = ceil_div(channels, chip.groups.depthwise_channels // element_bytes)
    return _whole_steps(chip, pixels) * groups * taps


def ddr_cycles(chip: Chip, moved_bytes: int) -> int:
    """Cycles the memory port needs for ``moved_bytes``."""
    return ceil_div(moved_bytes * 10, chip.rates.bus_decibytes_per_cycle)


def _whole_steps(chip: Chip, pixels: int) -> int:
    return ceil_div(pixels, chip.rates.step_pixels) * chip.rates.step_pixels
