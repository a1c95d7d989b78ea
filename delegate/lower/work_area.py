"""Device memory for what a layer writes and reads back itself, behind the inner tensors."""

from __future__ import annotations

from delegate.lower.hw import DMA_ALIGN_BYTES, align
from delegate.lower.task import BufferId, Ref


class WorkArea:
    """The end of SCRATCH. Layers run one after the other, so they all use the same place."""

    def __init__(self, tensors_bytes: int) -> None:
        self._start = align(tensors_bytes, DMA_ALIGN_BYTES)
        self.end = tensors_bytes

    def take(self, size_bytes: int) -> Ref:
        """``size_bytes`` for the layer that is being lowered; once per layer."""
        self.end = max(self.end, self._start + size_bytes)
        return Ref(BufferId.SCRATCH, self._start)
