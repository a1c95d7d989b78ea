"""DEPTH_TO_SPACE: a transposed convolution whose weights are a permutation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from delegate.lower.memory.tensors import memory_view
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.pixels_apart import PixelsApart
from delegate.lower.rows_as_surfaces import Repeat, lie_in_memory
from delegate.lower.selection import Selection
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Shape
from delegate.ops.shared import half_records
from delegate.ops.shared.blocks import GEOMETRY, RULES, BlockOptions, block_of
from delegate.ops.shared.moving import plan_rearranged


@dataclass(frozen=True, slots=True)
class DepthToSpaceOptions(BlockOptions):
    UNION_TYPE = 94


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Raises ValueError where blocks do not fit."""
    images, height, width, channels = graph.tensor(node.inputs[0]).shape
    block = block_of(node, DepthToSpaceOptions)
    if channels % block**2:
        raise ValueError(f"{channels} channels are no blocks of {block} x {block}")
    return ((images, height * block, width * block, channels // block**2),)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Pixels lie a block apart: the kernel sees one of them, the further to its end the nearer the
    result lies to the block's begin.
    """
    block = block_of(operation.node, DepthToSpaceOptions)
    channels = memory_view(planning.graph.tensor(operation.result)).channels
    weights = np.zeros((channels, block, block, block, block, channels), np.int8)
    unit = np.eye(channels, dtype=np.int8)
    for row in range(block):
        for column in range(block):
            weights[:, block - 1 - row, block - 1 - column, row, column] = unit
    dense = weights.reshape(channels, block, block, -1)
    size = (block, block)
    selection = Selection(padding=(block - 1, block - 1), spread=size)
    if block == 1 or not lie_in_memory(planning.chip, size, selection.padding):
        return plan_rearranged(planning, operation, dense, selection)
    source = planning.tensor(operation.operands[0])
    close = plan_rearranged(planning, operation, dense, replace(selection, spread=(1, 1)))
    repeat = Repeat(planning.chip, source.view, size, between=0, is_staged=True)
    return PixelsApart(operation, source, repeat, close)


OPERATOR = Operator(
    name="DEPTH_TO_SPACE",
    options=DepthToSpaceOptions,
    inputs=(Role.FEATURE,),
    plan=plan,
    shapes=shapes,
    rules=RULES,
    half=half_records.moving(GEOMETRY),
)
