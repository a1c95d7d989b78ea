"""References of operators that average pixels: pools, reductions, values in between."""

import math

import numpy as np

from delegate.model.graph import DType
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from rk3588_conformance.reference.arithmetic import Array, Call, quantize_multiplier, scale_by
from rk3588_conformance.reference.windows import between, pooled, resized

_ONE = 1 << 10


def average_pool_2d(call: Call) -> Array:
    """Average raw values, halves away from zero."""
    every = pooled(call)
    count = np.count_nonzero(~np.isnan(every), axis=(4, 5))
    total = np.nansum(every, (4, 5)).astype(np.int64)
    return np.asarray(np.sign(total) * ((2 * np.abs(total) + count) // (2 * count)))


def mean(call: Call) -> Array:
    """Average over the axes that the model names."""
    total, mantissa, exponent = _total(call)
    count = math.prod(call.operand().shape[axis] for axis in _axes(call))
    bits = 0  # of the count, as the kernel shifts before it divides
    while count >> (bits + 1) and bits < min(32, 31 + exponent):
        bits += 1
    scaled = scale_by(total, (mantissa << bits) // count, exponent - bits)
    return scaled + call.result.zero_point


def _axes(call: Call) -> tuple[int, ...]:
    axes = call.graph.tensor(call.node.inputs[1]).constant
    assert axes is not None
    return tuple(int(axis) for axis in axes.ravel())


def _total(call: Call) -> tuple[Array, int, int]:
    """The sums over the axes, less the zero points, and the multiplier to the output's scale."""
    multiplier = quantize_multiplier(call.quantization().scale / call.result.scale)
    return call.steps().sum(axis=_axes(call)), *multiplier


def total(call: Call) -> Array:
    """Add up over the axes."""
    return scale_by(*_total(call)) + call.result.zero_point


def is_uint8(call: Call) -> bool:
    return call.operand().dtype is DType.UINT8


def resize_bilinear(call: Call) -> Array:
    """Weigh four pixels by how near they are: of int8 in fixed point, of uint8 in float32."""
    options = call.options(ResizeBilinearOptions)
    image = call.value()
    is_fixed = call.output.dtype is DType.INT8
    places, one = (_places, _ONE) if is_fixed else (between, np.float32(1))
    image = image.astype(np.int64 if is_fixed else np.float32)
    _, rows, columns, _ = call.output.shape
    y0, y1, dy = places(options, image.shape[1], rows)
    x0, x1, dx = places(options, image.shape[2], columns)
    dy = dy[:, np.newaxis, np.newaxis]
    dx = dx[:, np.newaxis]
    above, below = image[:, y0], image[:, y1]
    # In the kernel's order: float32 rounds each product and sum.
    total = above[:, :, x0] * (one - dy) * (one - dx)
    total = total + below[:, :, x0] * dy * (one - dx)
    total = total + above[:, :, x1] * (one - dy) * dx
    total = total + below[:, :, x1] * dy * dx
    if not is_fixed:
        return np.asarray(np.floor(total + np.float32(0.5)).astype(np.int64))
    rounded = (np.abs(total) + _ONE * _ONE // 2) // (_ONE * _ONE)
    return np.asarray(np.sign(total) * rounded)


def _places(options: ResizeBilinearOptions, size: int, output: int) -> tuple[Array, Array, Array]:
    """The rows before and behind each row of the result, and how far it lies from the first."""
    source, target = resized(options, size, output)
    step = (_ONE * source + target // 2) // target
    place = np.arange(output) * step
    if options.half_pixel_centers:
        place = place + step // 2 - _ONE // 2
    first = np.maximum(place // _ONE, 0)
    second = np.minimum(-(-place // _ONE), size - 1)
    return first, second, place - first * _ONE
