"""References of operators whose results are values of their operands, or constants around them."""

import numpy as np

from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.gather import GatherOptions
from delegate.ops.mirror_pad import SYMMETRIC, MirrorPadOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from rk3588_conformance.reference.arithmetic import Array, Call
from rk3588_conformance.reference.windows import pooled, resized


def maximum(call: Call) -> Array:
    return np.asarray(np.maximum(call.value(0), call.value(1)))


def minimum(call: Call) -> Array:
    return np.asarray(np.minimum(call.value(0), call.value(1)))


def reduce_max(call: Call) -> Array:
    """Return the maxima over the axes."""
    value = call.value()
    axes = {int(axis) % value.ndim for axis in call.constant(1).ravel()}
    return np.asarray(value.max(axis=tuple(axes)))


def max_pool_2d(call: Call) -> Array:
    return np.asarray(np.nanmax(pooled(call), (4, 5)))


def pad(call: Call) -> Array:
    """Return the image with zero points around it."""
    return np.pad(call.value(), _amounts(call), constant_values=call.result.zero_point)


def padv2(call: Call) -> Array:
    """Return the image with a value around it."""
    return np.pad(call.value(), _amounts(call), constant_values=int(call.constant(2).item()))


def mirror_pad(call: Call) -> Array:
    """Return the image with its own pixels around it."""
    if call.options(MirrorPadOptions).mode == SYMMETRIC:
        return np.pad(call.value(), _amounts(call), mode="symmetric")
    return np.pad(call.value(), _amounts(call), mode="reflect")


def _amounts(call: Call) -> Array:
    """Return the elements before and behind, by dimension."""
    return call.constant(1).reshape(-1, 2)


def reshape(call: Call) -> Array:
    """Return the elements in another shape."""
    return np.asarray(call.value().reshape(call.output.shape))


def tile(call: Call) -> Array:
    """Return the tensor several times along each dimension."""
    return np.asarray(np.tile(call.value(), call.constant(1).reshape(-1).tolist()))


def reverse_v2(call: Call) -> Array:
    """Return the tensor backwards along the axis."""
    return np.flip(call.value(), int(call.constant(1).item()))


def gather(call: Call) -> Array:
    """Return the slices that the indices name."""
    axis = call.options(GatherOptions).axis
    return np.asarray(np.take(call.value(), call.constant(1), axis=axis))


def depth_to_space(call: Call) -> Array:
    """Go block by block, as the definition says."""
    options = call.options(DepthToSpaceOptions)
    x, block = call.value(), options.block
    result: Array = np.zeros(call.output.shape, x.dtype)
    parts = np.split(x, block**2, axis=3)
    for number, part in enumerate(parts):
        row, column = divmod(number, block)
        result[:, row::block, column::block] = part
    return result


def space_to_depth(call: Call) -> Array:
    """Go block by block, as the definition says."""
    options = call.options(SpaceToDepthOptions)
    x, block = call.value(), options.block
    parts = [x[:, row::block, column::block] for row in range(block) for column in range(block)]
    return np.concatenate(parts, axis=3)


def resize_nearest_neighbor(call: Call) -> Array:
    """Repeat rows and columns, found in float32."""
    options = call.options(ResizeNearestOptions)
    image = call.value()
    _, rows, columns, _ = call.output.shape
    y = _nearest(options, image.shape[1], rows)
    return np.asarray(image[:, y][:, :, _nearest(options, image.shape[2], columns)])


def _nearest(options: ResizeNearestOptions, size: int, output: int) -> Array:
    source, target = map(np.float32, resized(options, size, output))
    shift = np.float32(0.5 if options.half_pixel_centers else 0)
    exact = (np.arange(output, dtype=np.float32) + shift) * (source / target)
    whole = exact.astype(int)
    if options.align_corners:
        whole += exact - whole.astype(np.float32) >= 0.5
    return np.minimum(whole, size - 1)
