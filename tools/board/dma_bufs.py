"""Makes dma-bufs in the guest, for the case that shares tensors.

udmabuf gives them where the kernel has it (tools/board/native/kernel.config), else the vendor's
driver, as another program's file of it would. Where neither does, a memfd stands for one.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

from tests.shared_tensors import sealed
from tools.board.harness import NODE

_UDMABUF = Path("/dev/udmabuf")
_UDMABUF_CREATE = 0x40187542  # {u32 memfd, u32 flags, u64 offset, u64 size}
_CLOSE_ON_EXEC = 1
_MEM_CREATE, _CACHED = 0xC0306442, 0x403
_HANDLE_TO_FD = 0xC00C642D  # {u32 handle, u32 flags, s32 fd}
_READ_WRITE = os.O_RDWR | os.O_CLOEXEC


def _udmabuf(size: int) -> int:
    memory = sealed(size)
    with _UDMABUF.open("r+b", buffering=0) as device:
        # The result is the descriptor, which Python gives for a buffer that it may change alone.
        request = bytearray(struct.pack("<IIQQ", memory, _CLOSE_ON_EXEC, 0, size))
        descriptor = fcntl.ioctl(device, _UDMABUF_CREATE, request, True)
    os.close(memory)
    return descriptor


def _vendors(size: int) -> int:
    """A buffer of another file of the driver."""
    file = os.open(NODE, os.O_RDWR)
    create = bytearray(struct.pack("<IIQQQQiI", 0, _CACHED, size, 0, 0, 0, 0, 0))
    fcntl.ioctl(file, _MEM_CREATE, create)
    export = bytearray(struct.pack("<IIi", struct.unpack_from("<I", create)[0], _READ_WRITE, -1))
    fcntl.ioctl(file, _HANDLE_TO_FD, export)
    os.close(file)  # the dma-buf keeps the buffer
    return int(struct.unpack("<IIi", export)[2])


def dma_bufs() -> tuple[Callable[[int], int], str]:
    """Return what makes descriptors of a size, and whose they are."""
    if _UDMABUF.exists():
        return _udmabuf, "udmabuf"
    try:
        os.close(_vendors(mmap.PAGESIZE))
    except OSError:
        return sealed, "memfd"
    return _vendors, "rknpu"
