"""DEPTH_TO_SPACE: a transposed convolution whose weights are a permutation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from delegate.lower.memory.tensors import memory_view
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.selection import Selection
from delegate.lower.upsample import Repeat, lie_in_memory, zeros_inserted_first
from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap
from delegate.ops.operator import Operator, Role, Shape
from delegate.ops.shared import half_records
from delegate.ops.shared.maps import in_blocks
from delegate.ops.shared.moving import GEOMETRY, RULES, BlockOptions, block_of, plan_rearranged


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


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    shape = graph.tensor(node.outputs[0]).shape
    back = in_blocks(shape, block_of(node, DepthToSpaceOptions)).invert(0, math.prod(shape))
    assert back is not None
    return (back,)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Plan kernels that see one pixel of those that lie a block apart: the further to a kernel's
    end, the nearer the result lies to the block's begin.
    """
    block = block_of(operation.node, DepthToSpaceOptions)
    channels = memory_view(planning.graph.tensor(operation.result)).channels
    gathering = np.eye(block**2 * channels, dtype=np.int8).reshape(-1, block, block, channels)
    dense = gathering.transpose(3, 1, 2, 0)[:, ::-1, ::-1]
    size = (block, block)
    selection = Selection(padding=(block - 1, block - 1), spread=size)
    if block == 1 or not lie_in_memory(planning.chip, size, selection.padding):
        return plan_rearranged(planning, operation, dense, selection)
    source = planning.tensor(operation.operands[0])
    close = plan_rearranged(planning, operation, dense, replace(selection, spread=(1, 1)))
    repeat = Repeat(planning.chip, source.view, size, between=0, is_staged=True)
    return zeros_inserted_first(operation, source, repeat, close)


OPERATOR = Operator(
    name="DEPTH_TO_SPACE",
    options=DepthToSpaceOptions,
    inputs=(Role.FEATURE,),
    maps=maps,
    plan=plan,
    shapes=shapes,
    rules=RULES,
    half=half_records.moving(GEOMETRY),
)
