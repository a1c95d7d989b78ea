"""Values of each pixel in fp16: means over its channels, and operands with one channel, which all
channels of a map meet. Imported for float models only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.half.curves import half_map_tasks
from delegate.lower.half.rounding import shares
from delegate.lower.half.stages import convolution_bound, half_conv_stages, moved_bound
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import NOWHERE, DeviceTensor, default_surfaces
from delegate.lower.operation import ConstantPool, Memory, Operation, Plan, Planning, plan_of
from delegate.lower.task import Ref, Stages, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Activation

Half = npt.NDArray[np.float16]


def map_of(chip: Chip, like: DeviceTensor, channels: int, place: Ref = NOWHERE) -> DeviceTensor:
    """Return a map of ``channels`` for the pixels of ``like``, with room for whatever tasks write
    beyond them.
    """
    view = replace(like.view, channels=channels * Element.FP16.bytes)
    room = default_surfaces(view.channels, chip.groups)
    return replace(like.alone(view, place), surfaces=room)


def dense(
    chip: Chip,
    node: int,
    source: DeviceTensor,
    target: DeviceTensor,
    weights: Half,
    bias: float = 0.0,
    activation: Activation = Activation.NONE,
) -> Convolution:
    """Return the convolution whose results are ``weights``, [outputs, inputs], times each pixel."""
    outputs = len(weights)
    return Convolution(
        chip=chip,
        node=node,
        weights=weights[:, np.newaxis, np.newaxis, :],
        weight_zero_point=0,
        bias=np.full(outputs, bias, np.float32),
        ratios=np.empty(0),
        per_channel=False,
        activation=activation,
        output_scale=target.scale,
        output_zero_point=target.zero_point,
        source=source,
        target=target,
        input_view=source.elements,
        output_view=target.elements,
        strides=(1, 1),
        dilations=(1, 1),
        padding=(0, 0),
        is_depthwise=False,
        spread=(1, 1),
        element=Element.FP16,
    )


def dense_tasks(conv: Convolution, constants: ConstantPool) -> Iterator[Task]:
    """Yield its tasks. Raises LoweringError."""
    stages = half_conv_stages(conv, constants)
    yield from tile_tasks(conv, stages, constants)


def first_lane(outputs: int, source: DeviceTensor, factors: Half | None = None) -> Half:
    """Return the weights that give every output the first channel, times its factor."""
    weights = np.zeros((outputs, source.elements.channels), np.float16)
    weights[:, 0] = 1.0 if factors is None else factors
    return weights


def plan_row_mean(planning: Planning, operation: Operation) -> Plan:
    """Plan the mean of every pixel's channels. Raises LoweringError."""
    from delegate.lower.convolution import tiled_convolution

    source, target = (planning.tensor(t) for t in (operation.operands[0], operation.result))
    count = source.elements.channels
    conv = dense(planning.chip, operation.node.index, source, target, shares(count)[np.newaxis])
    bound = convolution_bound(conv, np.full(conv.weights.shape, 1 / count))
    return tiled_convolution(planning, operation, conv).plan.within(bound)


def plan_outer(
    planning: Planning,
    operation: Operation,
    exact: npt.NDArray[np.generic],
    activation: Activation,
) -> Plan:
    """Plan the products of the operand, which has one channel, with each of some constants. Raises
    LoweringError.
    """
    from delegate.lower.convolution import tiled_convolution

    source, target = (planning.tensor(t) for t in (operation.operands[0], operation.result))
    factors = np.broadcast_to(exact.reshape(-1), (target.elements.channels,))
    weights = first_lane(len(factors), source, factors.astype(np.float16))
    conv = dense(
        planning.chip, operation.node.index, source, target, weights, activation=activation
    )
    return tiled_convolution(planning, operation, conv).plan.within(moved_bound(exact))


def plan_spread_pair(planning: Planning, operation: Operation, passes: Sequence[Stages]) -> Plan:
    """Plan ``passes``, each with EW and without its operand, of two operands: one has the result's
    shape, the other perhaps one channel, which is spread over all of them first. What a pass gives
    takes the place of both operands in the next. Raises LoweringError.
    """
    chip, node = planning.chip, operation.node
    given, result = operation.operands, planning.tensor(operation.result)
    channels = result.elements.channels
    narrow = [t for t in given if planning.tensor(t).elements.channels != channels]
    room = map_of(chip, result, channels)
    touched = surfaces_touched(chip, result.view.channels)
    reads = tuple(
        (t, surfaces_touched(chip, planning.tensor(t).view.channels)) for t in dict.fromkeys(given)
    )
    footprint = Footprint(
        *(node, reads, operation.result, touched),
        work_bytes=(len(narrow) + len(passes) - 1) * room.size_bytes,
    )

    def tasks(memory: Memory) -> Iterator[Task]:
        target, place = memory.tensors[operation.result], memory.work
        operands = {t: memory.tensors[t] for t in given}
        for t in narrow:
            wide = map_of(chip, target, channels, place)
            place = place.moved(room.size_bytes)
            weights = first_lane(channels, operands[t])
            yield from dense_tasks(
                dense(chip, node.index, operands[t], wide, weights), memory.constants
            )
            operands[t] = wide
        pair = [operands[t] for t in given]
        for stages in passes[:-1]:
            made = map_of(chip, target, channels, place)
            place = place.moved(room.size_bytes)
            yield from half_map_tasks(chip, stages, pair, made)
            pair = [made, made]
        yield from half_map_tasks(chip, passes[-1], pair, target)

    return plan_of(planning, operation, footprint, tasks)
