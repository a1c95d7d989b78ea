"""QUANTIZE from float32 or another 8-bit type."""

from __future__ import annotations

import numpy as np

from delegate.model.graph import DType
from delegate.npu.tensor_layout import quantize_multiplies
from rk3588_conformance.reference.arithmetic import Array, Call, quantize_multiplier, scale_by


def reference(call: Call) -> Array:
    target = call.result
    if call.operand().dtype is DType.FLOAT32:
        return _from_float(call.value(), target.scale, target.zero_point)
    multiplier = quantize_multiplier(call.quantization().scale / target.scale)
    return scale_by(call.steps(), *multiplier) + target.zero_point


def _from_float(values: Array, scale: float, zero_point: int) -> Array:
    """C's ``round`` of a quotient of float32, as int32: the processor decides about what is none
    (NumPy uses its instruction too), and the sum wraps. The quotient may be a product with 1 /
    scale, as this platform's kernel has it.
    """
    divisor = np.float32(scale)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        quotient = values * (np.float32(1) / divisor) if quantize_multiplies() else values / divisor
        distance = np.abs(quotient.astype(np.float64))
        rounded = np.copysign(np.floor(distance + 0.5), quotient)  # exact: 24 bits and one more
        whole = rounded.astype(np.float32).astype(np.int32)
        return np.asarray(whole + np.int32(zero_point))
