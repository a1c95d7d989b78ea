"""How the bytes of a constant become an array.

Comes from: the raw bytes of a .tflite buffer or of the runtime's memory. Goes to: both graph
readers, which so agree. Nothing is copied; every view is read-only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, read_only

NUMPY_TYPES: Mapping[DType, np.dtype[np.generic]] = MappingProxyType(
    {
        DType.FLOAT32: np.dtype("<f4"),
        DType.FLOAT16: np.dtype("<f2"),
        DType.FLOAT64: np.dtype("<f8"),
        DType.INT8: np.dtype("i1"),
        DType.INT16: np.dtype("<i2"),
        DType.INT32: np.dtype("<i4"),
        DType.INT64: np.dtype("<i8"),
        DType.UINT8: np.dtype("u1"),
        DType.UINT16: np.dtype("<u2"),
        DType.UINT32: np.dtype("<u4"),
        DType.UINT64: np.dtype("<u8"),
        DType.BOOL: np.dtype("?"),
        DType.COMPLEX64: np.dtype("<c8"),
        DType.COMPLEX128: np.dtype("<c16"),
    }
)

# NumPy 1 refuses more dimensions; TensorFlow Lite's kernels stop at 8.
MAX_RANK = 32


def dense_bytes(dtype: DType, shape: tuple[int, ...]) -> int | None:
    """Bytes of a dense tensor; None where the type does not fix them (strings, resources).

    int4 is packed two to a byte, the low nibble first; bfloat16 takes two bytes.
    """
    count = math.prod(shape)
    if dtype is DType.INT4:
        return (count + 1) // 2
    if dtype is DType.BFLOAT16:
        return 2 * count
    kind = NUMPY_TYPES.get(dtype)
    return None if kind is None else count * kind.itemsize


def view_content(
    raw: npt.NDArray[np.uint8], dtype: DType, shape: tuple[int, ...], is_sparse: bool
) -> npt.NDArray[np.generic]:
    """``raw`` as an array of ``shape``; flat bytes where NumPy has no such array.

    Flat bytes stay for sparse tensors, int4, bfloat16 and strings. The caller has compared the size
    with ``dense_bytes``.
    """
    kind = NUMPY_TYPES.get(dtype)
    if kind is None or is_sparse:
        return read_only(raw)
    return read_only(raw.view(kind).reshape(shape))
