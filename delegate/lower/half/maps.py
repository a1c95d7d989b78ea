"""Operators on fp16 maps, element by element, as tasks of the DPU alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from delegate.chip.element import ATOM_BYTES, Element
from delegate.lower.constants import ConstantPool
from delegate.lower.half_bound import HalfBound
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.operands import require_dense
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.task import Stages
from delegate.lower.tiling.element_wise import map_parts, surfaces_touched

_SUMMANDS_BYTES = Element.FP16.lanes * Element.FP32.bytes
"""The bytes of a surface's summands in BS."""


@dataclass(frozen=True, slots=True, eq=False)
class HalfMapPlan:
    """``stages``, EW without its operand, puts its constants into the pool. The second operand, if
    there is one, is EW's and has the result's shape; ``has_factors``: it has one pixel, by whose
    channels BN multiplies. ``bound`` says how far results are from exact ones.
    """

    planning: Planning
    operation: Operation
    stages: Callable[[ConstantPool], Stages]
    bound: HalfBound
    has_factors: bool = False

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        channels = self.planning.tensor(operation.result).view.channels
        touched = surfaces_touched(self.planning.chip, channels)
        reads = tuple((tensor, touched) for tensor in dict.fromkeys(operation.operands))
        return Footprint(operation.node, reads, operation.result, touched)

    def lower(self, memory: Memory) -> Layer:
        operation, planning = self.operation, self.planning
        main, *others = (memory.tensors[t] for t in operation.operands)
        target = memory.tensors[operation.result]
        stages = self.stages(memory.constants)
        if self.has_factors:
            require_dense(operation.node, others[0])
        tasks = []
        for part in map_parts(planning.chip, target.view):
            bs, bn, ew = stages.bs, stages.bn, stages.ew
            if bs.operands is not None:
                place = bs.operands.moved(part.surfaces.start * _SUMMANDS_BYTES)
                bs = replace(bs, operands=place)
            if self.has_factors:
                image = part.image if others[0].view.images > 1 else 0
                bn = replace(bn, operands=others[0].pixel(image))
            if bn.operands is not None:  # fp16 per channel, so an atom per surface
                place = bn.operands.moved(part.surfaces.start * ATOM_BYTES)
                bn = replace(bn, operands=place)
            if ew is not None:
                (other,) = others
                stride = other.surface_stride_bytes
                ew = replace(ew, operand=part.place(other), surface_stride_bytes=stride)
            own = stages._replace(bs=bs, bn=bn, ew=ew)
            tasks.append(part.task(main, target, own, Element.FP16))
        return layer_of(planning, operation, tasks).within(self.bound)
