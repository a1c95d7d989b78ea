"""Functions of float32 as the kernels call them: those of this machine's C library, whose last bit
is its own. A result of 8 bits that lies on a tie depends on that bit.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

_LIBRARY = "libm.so.6"
"""glibc's; where it is not, what this process has loaded anyway."""


@functools.cache
def _function(name: str) -> Callable[[float], float]:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        library = ctypes.CDLL(None)
    found = library[name]
    found.argtypes, found.restype = [ctypes.c_float], ctypes.c_float
    return found


def exp(value: float) -> float:
    """Infinite where no float32 holds the result."""
    return _function("expf")(value)


def tanh(value: float) -> float:
    """The hyperbolic tangent."""
    return _function("tanhf")(value)


def erfc(value: float) -> float:
    """1 less the error function."""
    return _function("erfcf")(value)
