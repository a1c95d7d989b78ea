"""How SQUARED_DIFFERENCE of two values becomes tasks: see ``delegate.lower.numerics.squares``.

Two differences, the larger one, a table: the first three lie in a work area, none in the result's
place, where the check of memory would take it for the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from delegate.lower.known_stages import is_known, pair, ties_away
from delegate.lower.lowered import Difference, Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import unplaced
from delegate.lower.numerics.pipeline import Ew, EwOperation, Pipeline
from delegate.lower.numerics.squares import SquarePipelines, SquareTarget, requantize_squares
from delegate.lower.operands import Operand
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.pairs import pair_operands, pair_tasks, with_stretched
from delegate.lower.tables import table_tasks
from delegate.lower.task import TaskKind
from delegate.ops.shared.task_plans import map_between
from delegate.ops.shared.two_values import pair_footprint

_PAIRS = 1 << 16
_MAPS = 3
"""In the work area."""


@dataclass(frozen=True, slots=True, eq=False)
class SquaresPlan:
    planning: Planning
    operation: Operation

    @property
    def footprint(self) -> Footprint:
        result = self.planning.tensor(self.operation.result)
        pair = pair_footprint(self.planning, self.operation)
        room = map_between(self.planning.chip, result, result.location).size_bytes
        return replace(pair, work_bytes=_MAPS * room + pair.work_bytes)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        planning, operation = self.planning, self.operation
        chip, graph, node = planning.chip, planning.graph, operation.node
        target, work = memory.tensors[operation.result], memory.work.place
        room = map_between(chip, target, work).size_bytes
        *places, behind = (work.moved(number * room) for number in range(_MAPS + 1))
        before, tensors = with_stretched(chip, node, target.view, memory, behind)
        operands = pair_operands(chip, graph, node, tensors, target.view, memory.constants)
        order = operands[0].index, operands[1].tensor.index
        found = self._pipelines(order)
        over, under, larger = (map_between(chip, target, place) for place in places)
        other = Operand(under, per_channel=False, is_shared=under.view.images == 1)
        tasks = (
            *before,
            *pair_tasks(chip, operands, over, found.over),
            *pair_tasks(chip, operands, under, found.under),
            *pair_tasks(chip, (over, other), larger, Pipeline(ew=Ew(EwOperation.MAX))),
            *table_tasks(chip, larger, target, found.function),
        )
        layer = layer_of(planning, operation, tasks)
        share = found.wrong / _PAIRS
        return replace(layer, difference=Difference(1, share)) if share else layer

    def _pipelines(self, order: Sequence[int]) -> SquarePipelines:
        """``order``: the operands, the one that MRDMA reads first."""
        chip, graph = self.planning.chip, self.planning.graph
        first, second, result = (unplaced(graph, t) for t in (*order, self.operation.result))
        target = SquareTarget(
            (first.scale, second.scale, result.scale),
            (first.zero_point, second.zero_point, result.zero_point),
        )
        return requantize_squares(
            self.operation.node.index,
            target,
            has_ties_away=ties_away(chip, TaskKind.ALONE, pair(EwOperation.ADD)),
            has_clamps=is_known(chip, TaskKind.ALONE, pair(EwOperation.ADD, relu=True)),
        )
