"""How maxima under windows become tasks."""

from __future__ import annotations

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.lower.max_pool import ALL_VALUES, MaxPool
from delegate.lower.operation import Operation, Planning
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
    """Reads and writes whole surfaces; see ``MaxPool``."""
    is_narrow = operation.result in planning.joined
    pool = _kind(planning.chip, pooling, clamp, element)(
        planning.chip, pooling, gaps, clamp, is_narrow, element
    )
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


def _kind(chip: Chip, pooling: Pooling, clamp: tuple[int, int], element: Element) -> type[MaxPool]:
    """Return the PPU's way where it may be taken, else maxima by the DPU: of rows with gaps between
    them in fp16 alone, where there is no other way.
    """
    if chip.has_pooling:
        from delegate.lower.pooling_unit import UnitMaxPool, takes

        if takes(chip, pooling, clamp, element):
            return UnitMaxPool
    if element is Element.FP16:
        return MaxPool
    from delegate.lower.max_pool_sums import LinearMaxPool

    return LinearMaxPool
