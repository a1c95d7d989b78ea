"""Bytes beside pages that nobody may touch: a read or write beside them ends the process."""

import ctypes
import mmap

import numpy as np

NOBODY = 0
"""PROT_NONE."""


def between_guards(content: np.ndarray, at_end: bool) -> np.ndarray:
    """Return a copy of ``content`` that touches the guard page behind it, or the one before."""
    page = mmap.PAGESIZE
    size = -(-content.nbytes // page) * page
    memory = np.frombuffer(mmap.mmap(-1, size + 2 * page), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for guard in (0, page + size):
        address = ctypes.c_void_p(memory.ctypes.data + guard)
        if protect(address, ctypes.c_size_t(page), NOBODY) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    first = page + (size - content.nbytes if at_end else 0)
    copy = memory[first : first + content.nbytes].view(content.dtype).reshape(content.shape)
    copy[...] = content
    return copy
