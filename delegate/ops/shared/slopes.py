"""How PRELU with several slopes becomes tasks: see ``delegate.lower.numerics.slopes``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.slopes import SlopesPipelines
from delegate.lower.operands import Operand, constant_operand
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.pairs import pair_tasks
from delegate.lower.task import Ref
from delegate.lower.tiling.element_wise import surfaces_touched


@dataclass(frozen=True, slots=True, eq=False)
class SlopesPlan:
    """``operation`` has the input as its only operand, ``slopes`` is the constant."""

    planning: Planning
    operation: Operation
    slopes: int
    pipelines: SlopesPipelines

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        result = self.planning.tensor(operation.result)
        touched = surfaces_touched(self.planning.chip, result.view.channels)
        work = result.view.images * self._between(result, result.location).image_stride_bytes
        reads = ((operation.operands[0], touched),)
        return Footprint(operation.node, reads, operation.result, touched, work_bytes=work)

    def lower(self, memory: Memory) -> Layer:
        chip, operation = self.planning.chip, self.operation
        source, target = (memory.tensors[t] for t in (operation.operands[0], operation.result))
        slopes = self.planning.graph.tensor(self.slopes)
        operand = constant_operand(chip, slopes, target.view, memory.constants)
        between = self._between(target, memory.work.place)
        products = Operand(between, per_channel=False, is_shared=between.view.images == 1)
        tasks = (
            *pair_tasks(chip, (source, operand), between, self.pipelines.below),
            *pair_tasks(chip, (source, products), target, self.pipelines.above),
        )
        return layer_of(self.planning, operation, tasks)

    def _between(self, target: DeviceTensor, place: Ref) -> DeviceTensor:
        """What the first task writes at ``place``, like the result."""
        touched = surfaces_touched(self.planning.chip, target.view.channels)
        return replace(target.alone(target.view, place), surfaces=touched)
