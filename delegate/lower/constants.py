"""The constants buffer of a program: packed weights and operands, in order of use, aligned for
DMA.
"""

from __future__ import annotations

import hashlib
import io

from delegate.chip.limits import DMA_ALIGN_BYTES, align
from delegate.lower.task import BufferId, Ref


class ConstantPool:
    """Collects packed constants; equal contents are stored once."""

    def __init__(self) -> None:
        # What is written is what content() gives, without a copy between: weights are the most of
        # a process's memory.
        self._content = io.BytesIO()
        self._known: dict[bytes, Ref] = {}

    def add(self, content: bytes) -> Ref:
        """Stores ``content`` and says where it will lie."""
        key = hashlib.sha256(content).digest()
        known = self._known.get(key)
        if known is not None:
            return known
        ref = Ref(BufferId.CONSTANTS, self._content.tell())
        self._content.write(content)
        self._content.write(bytes(align(len(content), DMA_ALIGN_BYTES) - len(content)))
        self._known[key] = ref
        return ref

    def content(self) -> bytes:
        return self._content.getvalue()
