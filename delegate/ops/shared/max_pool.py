"""How maxima under windows become tasks."""

from __future__ import annotations

from delegate.chip.element import Element
from delegate.lower.max_pool import HalfMaxPool
from delegate.lower.max_pool_sums import ALL_VALUES, LinearMaxPool
from delegate.lower.operation import Operation, Planning
from delegate.lower.pooling_unit import UnitMaxPool, takes
from delegate.lower.tiling.pooling import Pooling
from delegate.ops.shared.task_plans import TaskPlan, move_plan


def plan_max_pool(
    planning: Planning,
    operation: Operation,
    pooling: Pooling,
    gaps: tuple[int, int] = (1, 1),
    clamp: tuple[int, int] = ALL_VALUES,
    element: Element = Element.INT8,
) -> TaskPlan:
    """Return the plan of maxima: by the PPU where it may be taken, else by the DPU, which reads
    rows with gaps between them in fp16 alone.
    """
    is_narrow = operation.result in planning.joined
    pool: HalfMaxPool | LinearMaxPool | UnitMaxPool
    if takes(planning.chip, pooling, clamp, element):
        pool = UnitMaxPool(planning.chip, pooling, gaps, is_narrow, element)
    elif element is Element.FP16:
        pool = HalfMaxPool(planning.chip, pooling, gaps, is_narrow)
    else:
        pool = LinearMaxPool(planning.chip, pooling, gaps, is_narrow, clamp)
    channels = planning.tensor(operation.result).view.channels
    return move_plan(
        planning,
        operation,
        pool.tasks,
        reads=pool.surfaces_read(channels),
        writes=pool.surfaces_written(channels),
        work_bytes=pool.work_bytes(channels),
        surface_pixels=pool.surface_pixels(channels),
        as_bytes=False,
    )
