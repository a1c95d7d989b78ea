"""Estimates of what a task costs: cycles of the MAC array and bytes over the memory bus.

Estimates, not measurements. The cycle rule agrees with the vendor compiler's own table on every
int8 convolution that was compared; the bus rate is the one that table implies. Kicks,
synchronisation and layout conversion on the host are not included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delegate.lower.task import ConvTask, OutputCube, Task

PIXEL_GROUP = 16
"""Output pixels that are computed together."""

DENSE_KERNEL_GROUP = 32
DENSE_CHANNEL_GROUP = 32
DENSE_MIN_STEPS = 4
"""A group of kernels takes at least four cycles per pixel group and pixel."""

DEPTHWISE_CHANNEL_GROUP = 64
ATOM_CHANNELS = 16

BUS_DECIBYTES_PER_CYCLE = 236
"""23.6 bytes per cycle (inferred from the vendor's table), in tenths to stay in integers."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """``cycles`` counts max(npu, ddr) per task: both overlap within a task, tasks do not."""

    npu_cycles: int
    ddr_cycles: int
    cycles: int
    bytes: int


def estimate_task(task: Task) -> Estimate:
    """The estimate of one task."""
    moved = _bytes_moved(task)
    npu = _npu_cycles(task) if isinstance(task, ConvTask) else 0
    ddr = -(-moved * 10 // BUS_DECIBYTES_PER_CYCLE)
    return Estimate(npu, ddr, max(npu, ddr), moved)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum over tasks that run one after the other."""
    items = list(estimates)
    return Estimate(
        sum(item.npu_cycles for item in items),
        sum(item.ddr_cycles for item in items),
        sum(item.cycles for item in items),
        sum(item.bytes for item in items),
    )


def _ceil(value: int, group: int) -> int:
    return -(-value // group)


def _npu_cycles(task: ConvTask) -> int:
    pixels = _ceil(task.output.height * task.output.width, PIXEL_GROUP) * PIXEL_GROUP
    window = task.weights.kh * task.weights.kw
    channels = task.output.channels_real
    if task.is_depthwise:
        return pixels * window * _ceil(channels, DEPTHWISE_CHANNEL_GROUP)
    steps = window * _ceil(task.feature.channels_real, DENSE_CHANNEL_GROUP)
    return pixels * _ceil(channels, DENSE_KERNEL_GROUP) * max(steps, DENSE_MIN_STEPS)


def _cube_bytes(output: OutputCube) -> int:
    channels = _ceil(output.channels_real, ATOM_CHANNELS) * ATOM_CHANNELS
    return output.height * output.width * channels


def _bytes_moved(task: Task) -> int:
    moved = _cube_bytes(task.output)
    if isinstance(task, ConvTask):
        feature = task.feature
        moved += feature.height * feature.width * feature.channels
        if not task.cbuf.weight_reuse:
            moved += task.weights.total_bytes
    else:
        moved += _cube_bytes(task.output)
    if task.ew is not None and task.ew.operand is not None:
        moved += _cube_bytes(task.output)
    return moved
