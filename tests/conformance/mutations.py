"""Lowering with one number wrong, as a slip in the code would make it.

Each mutation changes a lowered partition in every task it concerns and leaves the rest alone.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from delegate.lower.lowered import LoweredPartition
from delegate.lower.task import ConvTask, Source, Task

Mutate = Callable[[LoweredPartition], LoweredPartition]

_BLOCK_CHANNELS, _BLOCK_BYTES = 8, 64


def _each_task(change: Callable[[Task], Task]) -> Mutate:
    def mutate(lowered: LoweredPartition) -> LoweredPartition:
        layers = tuple(
            replace(layer, tasks=tuple(change(task) for task in layer.tasks))
            for layer in lowered.layers
        )
        return replace(lowered, layers=layers)

    return mutate


def _in_memory(change: Callable[[np.ndarray], None]) -> Mutate:
    """Changes the BS operand blocks [blocks, 64 bytes] of every task that has such."""

    def mutate(lowered: LoweredPartition) -> LoweredPartition:
        content = np.frombuffer(lowered.constants, np.uint8).copy()
        done = set()
        for layer in lowered.layers:
            for task in layer.tasks:
                bs = task.bs
                if Source.MEMORY not in (bs.mul, bs.ow) or bs.operands in done:
                    continue
                done.add(bs.operands)
                start = bs.operands.offset
                count = -(-task.output.channels // _BLOCK_CHANNELS)
                blocks = content[start : start + count * _BLOCK_BYTES].reshape(count, _BLOCK_BYTES)
                change(blocks)
        return replace(lowered, constants=content.tobytes())

    return mutate


def _multiplier_of_bs(task: Task) -> Task:
    bs = task.bs
    if bs.mul is not Source.REGISTER:
        return task
    return replace(task, bs=replace(bs, mul_operand=bs.mul_operand + 1))


def _multiplier_of_out_convert(task: Task) -> Task:
    oc = task.out_convert
    step = 1 if oc.scale < 2**15 - 1 else -1
    return replace(task, out_convert=replace(oc, scale=oc.scale + step))


def _shift(task: Task) -> Task:
    return replace(task, out_convert=replace(task.out_convert, shift=task.out_convert.shift + 1))


def _shift_of_bs(task: Task) -> Task:
    bs = task.bs
    if bs.mul is Source.OFF:
        return task
    shifts = {"shift": bs.shift + 1, "shift_negative": bs.shift_negative + 1}
    return replace(task, bs=replace(bs, **shifts))


def _output_zero_point(task: Task) -> Task:
    return replace(task, out_convert=replace(task.out_convert, offset=task.out_convert.offset + 1))


def _pad_value(task: Task) -> Task:
    if not isinstance(task, ConvTask):
        return task
    value = task.feature.pad_value
    wrong = value + 1 if value < 127 else value - 1
    return replace(task, feature=replace(task.feature, pad_value=wrong))


def _weight_zero_point(task: Task) -> Task:
    bs = task.bs
    if bs.ow is not Source.REGISTER:
        return task
    return replace(task, bs=replace(bs, ow_operand=bs.ow_operand + 1))


def _swap_channels(blocks: np.ndarray) -> None:
    """The first two channels exchange bias, OW and multiplier."""
    for start, size in ((0, 4), (32, 2), (48, 2)):
        first = blocks[0, start : start + size].copy()
        blocks[0, start : start + size] = blocks[0, start + size : start + 2 * size]
        blocks[0, start + size : start + 2 * size] = first


def _add_to_multipliers(blocks: np.ndarray) -> None:
    multipliers = blocks[:, 48:].copy().view("<i2")
    multipliers[multipliers != 0] += 1
    blocks[:, 48:] = multipliers.view(np.uint8)


def _swap_dense_biases(lowered: LoweredPartition) -> LoweredPartition:
    """The first two int32 of biases that lie densely, as per-tensor layers have them."""
    content = np.frombuffer(lowered.constants, np.uint8).copy()
    for layer in lowered.layers:
        for task in layer.tasks:
            bs = task.bs
            if bs.operands is not None and Source.MEMORY not in (bs.mul, bs.ow):
                start = bs.operands.offset
                pair = content[start : start + 8].reshape(2, 4)
                content[start : start + 8] = pair[::-1].copy().ravel()
                break
    return replace(lowered, constants=content.tobytes())


MUTATIONS: dict[str, Mutate] = {
    "multiplier of BS + 1": _each_task(_multiplier_of_bs),
    "multipliers per channel + 1": _in_memory(_add_to_multipliers),
    "multiplier of OUT_CVT + 1": _each_task(_multiplier_of_out_convert),
    "shift of OUT_CVT + 1": _each_task(_shift),
    "shift of BS + 1": _each_task(_shift_of_bs),
    "output zero point + 1": _each_task(_output_zero_point),
    "padding's zero point + 1": _each_task(_pad_value),
    "weight zero point + 1": _each_task(_weight_zero_point),
    "two channels swapped": _in_memory(_swap_channels),
    "two biases swapped": _swap_dense_biases,
}
