"""The constants buffer of a program: packed weights and operands, in order of use, aligned for
DMA.
"""

from __future__ import annotations

from delegate.chip.limits import DMA_ALIGN_BYTES, align
from delegate.lower.task import BufferId, Ref


class ConstantPool:
    """Collects packed constants; equal contents are stored once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size_bytes = 0
        self._known: dict[bytes, Ref] = {}

    def add(self, content: bytes) -> Ref:
        """Stores ``content`` and says where it will lie."""
        known = self._known.get(content)
        if known is not None:
            return known
        ref = Ref(BufferId.CONSTANTS, self._size_bytes)
        padding = align(len(content), DMA_ALIGN_BYTES) - len(content)
        self._parts.append(content + bytes(padding))
        self._size_bytes += len(content) + padding
        self._known[content] = ref
        return ref

    def content(self) -> bytes:
        return b"".join(self._parts)
