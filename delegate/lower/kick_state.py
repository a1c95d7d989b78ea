"""Name the state of the chip that tasks rely on from one kick of a job to the next.

The mainline driver starts every task of a job by itself: it waits for the interrupt of one before
it kicks the next. Three things then have to outlive a kick:

* **weights in CBUF**: tasks that share kernels fetch them once (CBUF_CON0.WEIGHT_REUSE). Mesa's
  programs, which run on boards, do the same; no document says it. ``KickState.weights`` turns it
  off: then every kick fetches its own weights. Slower, and the same bytes.
* **the ping-pong of the register groups**: a task writes all registers that it uses, but which of
  the two groups is written and which runs alternates from kick to kick. Every program of every
  driver relies on it, so there is no other way.
* **the DPU's tables**: one task loads them, the next ones use them. The vendor's programs do so, in
  chains; that a kick does not clear them is assumed. Every job loads what it uses.

Nothing else is carried over: tasks meet in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delegate.lower.lowered import Layer
from delegate.lower.task import ConvTask, Task


@dataclass(frozen=True, slots=True)
class KickState:
    """The assumptions that can be given up. ``weights``: those of the task before are in CBUF."""

    weights: bool = True


TRUSTED = KickState()
"""The state that programs rely on unless told otherwise."""
NOTHING_KEPT = KickState(weights=False)


def keep_only(layer: Layer, state: KickState) -> Layer:
    """The layer's tasks without what ``state`` does not allow them to rely on."""
    if state.weights:
        return layer
    return replace(layer, tasks=tuple(_with_own_weights(task) for task in layer.tasks))


def _with_own_weights(task: Task) -> Task:
    if not isinstance(task, ConvTask) or not task.cbuf.weight_reuse:
        return task
    return replace(task, cbuf=replace(task.cbuf, weight_reuse=False))
