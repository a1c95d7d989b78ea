"""SPACE_TO_DEPTH: a convolution with strides whose weights are a permutation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delegate.lower.memory.tensors import memory_view
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.selection import Selection
from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap
from delegate.ops.operator import Operator, Role, Shape
from delegate.ops.shared import half_records
from delegate.ops.shared.maps import in_blocks
from delegate.ops.shared.moving import GEOMETRY, RULES, BlockOptions, block_of, plan_rearranged


@dataclass(frozen=True, slots=True)
class SpaceToDepthOptions(BlockOptions):
    UNION_TYPE = 19


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Raises ValueError where blocks do not fit."""
    images, height, width, channels = graph.tensor(node.inputs[0]).shape
    block = block_of(node, SpaceToDepthOptions)
    if height % block or width % block:
        raise ValueError(f"{height} x {width} pixels are no blocks of {block}")
    return ((images, height // block, width // block, channels * block**2),)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    return (in_blocks(graph.tensor(node.inputs[0]).shape, block_of(node, SpaceToDepthOptions)),)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Plan kernels of which each gathers one channel of one pixel of the block, row by row."""
    block = block_of(operation.node, SpaceToDepthOptions)
    channels = memory_view(planning.graph.tensor(operation.operands[0])).channels
    dense = np.eye(block**2 * channels, dtype=np.int8).reshape(-1, block, block, channels)
    return plan_rearranged(planning, operation, dense, Selection(strides=(block, block)))


OPERATOR = Operator(
    name="SPACE_TO_DEPTH",
    options=SpaceToDepthOptions,
    inputs=(Role.FEATURE,),
    maps=maps,
    plan=plan,
    shapes=shapes,
    rules=RULES,
    half=half_records.moving(GEOMETRY),
)
