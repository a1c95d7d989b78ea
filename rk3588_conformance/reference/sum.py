"""SUM over height and width of uint8."""

from __future__ import annotations

from delegate.model.graph import DType
from rk3588_conformance.reference.arithmetic import Array, Call, scale_by
from rk3588_conformance.reference.mean import image_total


def reference(call: Call) -> Array:
    return scale_by(*image_total(call)) + call.result.zero_point


def is_covered(call: Call) -> bool:
    return call.operand().dtype is DType.UINT8
