"""Tensors of a program's edge between TFLite's dense order and the device's NC1HWC2 bytes.

The reference for dumps and tests, in NumPy; devices convert with native code. uint8 tensors are
int8 (value - 128) on the device, float32 ones fp16 where no quantisation stands between.
"""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.errors import UsageError
from delegate.lower.lowered import Affine, Fold, TensorBinding

ATOM_BYTES = 16
_LEAST_NORMAL = np.float32(2.0**-126)

Values = npt.NDArray[Any]
"""int8, or float16."""


def device_values(binding: TensorBinding, values: npt.NDArray[np.generic]) -> Values:
    """``values`` (the binding's shape and type) as images [n, h, w, c] of what the device holds,
    folded if the binding is.

    Raises UsageError on another shape or type.
    """
    dtype = binding.element.dtype
    if values.shape != binding.shape or values.dtype != dtype:
        raise UsageError(
            f"tensor {binding.tensor} ({binding.name}) is {dtype} of shape {binding.shape}, "
            f"not {values.dtype} of shape {values.shape}"
        )
    signed = _signed(binding, values)
    if binding.fold is not None:
        return _folded(binding, binding.fold, signed)
    if binding.spread is not None:
        boxed: Values = signed.reshape(-1)[host_numbers(binding)]
        return boxed
    return signed.reshape(binding.images, binding.height, binding.width, binding.channels)


def host_numbers(binding: TensorBinding) -> npt.NDArray[np.int64]:
    """Return which element of the host's tensor, in its order, each of [n, h, w, c] is, without a
    fold.
    """
    sizes = (binding.images, binding.height, binding.width, binding.channels)
    spread = binding.spread
    if spread is None:
        return np.arange(math.prod(sizes)).reshape(sizes)
    strides = (spread.image, spread.row, spread.pixel, spread.channel)
    places = (np.arange(n) * stride for n, stride in zip(sizes, strides, strict=True))
    image, row, pixel, channel = np.ix_(*places)
    numbers: npt.NDArray[np.int64] = spread.first + image + row + pixel + channel
    return numbers


def _signed(binding: TensorBinding, values: npt.NDArray[Any]) -> Values:
    """Return the device's value of each element."""
    if binding.affine is not None:
        return _quantized(binding.affine, values)
    if binding.table:
        found: Values = np.frombuffer(binding.table, np.int8)[values.view(np.uint8)]
        return found
    if binding.laid_out is Element.FP16:
        return _halves(values)
    return (values.astype(np.int16) - binding.element.offset).astype(np.int8)


def _halves(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    """Round to nearest even; finite numbers beyond fp16's range become its ends."""
    most = np.finfo(np.float16).max
    limited = np.where(np.isfinite(values), np.clip(values, -most, most), values)
    return np.asarray(limited, np.float16)


def quantize_multiplies() -> bool:
    """Return whether the runtime's kernel of QUANTIZE multiplies by the reciprocal of the scale: on
    aarch64 where this thread flushes subnormals (docs/numerics.md).
    """
    return platform.machine() == "aarch64" and bool(_LEAST_NORMAL * np.float32(0.5) == 0)


def _quantized(affine: Affine, values: npt.NDArray[np.float32]) -> Values:
    """Quantise in float32 throughout, halves away from zero; what has no int32 becomes what the
    processor makes of it, and the sum with the zero point wraps.
    """
    scale = np.float32(affine.scale)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        steps = values * (np.float32(1) / scale) if quantize_multiplies() else values / scale
        whole = np.trunc(steps)
        rest = steps - whole
        whole += (rest >= 0.5).astype(np.float32) - (rest <= -0.5).astype(np.float32)
        total = whole.astype(np.int32) + np.int32(affine.zero_point)
    limits = np.iinfo(affine.element.dtype)
    limited: npt.NDArray[Any] = np.clip(total, limits.min, limits.max)
    return (limited - affine.element.offset).astype(np.int8)


def _folded(binding: TensorBinding, fold: Fold, values: Values) -> Values:
    images = values.reshape(binding.images, fold.height, fold.width, fold.channels)
    lanes = np.full(
        (
            binding.images,
            binding.height,
            binding.width,
            fold.window_h,
            fold.window_w,
            fold.channels,
        ),
        binding.fill,
        dtype=np.int8,
    )
    for dy in range(fold.window_h):
        y = np.arange(binding.height) * fold.step_h + dy - fold.top
        rows = np.flatnonzero((y >= 0) & (y < fold.height))
        for dx in range(fold.window_w):
            x = np.arange(binding.width) * fold.step_w + dx - fold.left
            columns = np.flatnonzero((x >= 0) & (x < fold.width))
            part = images[:, y[rows][:, None], x[columns][None, :]]
            lanes[:, rows[:, None], columns[None, :], dy, dx] = part
    return lanes.reshape(binding.images, binding.height, binding.width, fold.lanes)


def store(binding: TensorBinding, images: Values, memory: npt.NDArray[np.uint8]) -> None:
    """Writes ``images`` [n, h, w, c] to the bytes of the binding's buffer, lanes filled."""
    size = binding.laid_out.lanes
    lanes = np.full(
        (binding.images, binding.height, binding.width, binding.surfaces * size),
        binding.fill,
        dtype=images.dtype,
    )
    lanes[..., : binding.channels] = images
    rows = binding.height * binding.width * ATOM_BYTES
    for n in range(binding.images):
        for surface in range(binding.surfaces):
            start = _start(binding, n, surface)
            atom = lanes[n, :, :, surface * size : (surface + 1) * size]
            memory[start : start + rows] = np.ascontiguousarray(atom).view(np.uint8).reshape(-1)


def load(binding: TensorBinding, memory: npt.NDArray[np.uint8]) -> Values:
    """Reads images [n, h, w, c] from the bytes of the binding's buffer, float16 or int8."""
    size = binding.laid_out.lanes
    dtype = np.float16 if binding.laid_out is Element.FP16 else np.int8
    lanes: Values = np.empty(
        (binding.images, binding.height, binding.width, binding.surfaces * size), dtype=dtype
    )
    rows = binding.height * binding.width * ATOM_BYTES
    for n in range(binding.images):
        for surface in range(binding.surfaces):
            start = _start(binding, n, surface)
            atom = memory[start : start + rows].view(dtype)
            lanes[n, :, :, surface * size : (surface + 1) * size] = atom.reshape(
                binding.height, binding.width, size
            )
    return np.ascontiguousarray(lanes[..., : binding.channels])


def _start(binding: TensorBinding, image: int, surface: int) -> int:
    return (
        binding.location.offset
        + image * binding.image_stride_bytes
        + surface * binding.surface_stride_bytes
    )
