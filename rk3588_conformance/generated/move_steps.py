"""Steps of random graphs that move data of images: joins, parts, other orders, shapes and sizes,
borders, repetitions; where nothing else is said, of any type.
"""

from math import prod

import numpy as np

from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated.generator import MOST_ELEMENTS, Generator, Step
from rk3588_conformance.grid import Outputs

MOST_PIXELS = 1500  # of what is made larger
MOST_REPEATED = 20_000
"""Elements of a tensor that is repeated."""


def beside(g: Generator, x: int, axis: int, others: list[int]) -> list[int]:
    """Return ``x`` and those of ``others`` that may stand beside it, some of them."""

    def rest(tensor: int) -> tuple[int, ...]:
        shape = g.shape(tensor)
        return (*shape[:axis], *shape[axis + 1 :])

    parts = [x]
    for tensor in others:
        fits = len(g.shape(tensor)) == len(g.shape(x)) and rest(tensor) == rest(x)
        if fits and len(parts) < 4 and g.chance(0.6):
            parts.append(tensor)
    return parts


def _concat(g: Generator, x: int) -> Outputs:
    axis = g.pick((3, 3, 3, 1, 2, 0))
    if axis == 0 and g.is_resized:
        return ()
    spec = g.spec(x)
    parts = beside(
        g, x, axis, [t for t in g.tensors if g.spec(t).quantization == spec.quantization]
    )
    if not g.is_resized and g.chance(0.1):
        parts.append(g.new_constant(spec.shape, spec.quantization))
    if g.chance(0.5):
        parts.reverse()
    if len(parts) < 2 or sum(prod(g.shape(t)) for t in parts) > MOST_ELEMENTS:
        return ()
    return g.concatenation(parts, axis)


def _split(g: Generator, x: int) -> Outputs:
    shape, first = g.shape(x), int(g.is_resized)
    axes = [(axis, n) for axis in range(first, 4) for n in (2, 3) if shape[axis] % n == 0]
    if not axes:
        return ()
    axis, count = g.choose(axes)
    return g.split(x, count, axis)


def _slice(g: Generator, x: int) -> Outputs:
    begin, size = [0] * 4, list(g.shape(x))
    for axis in {g.pick((3, 3, 1, 2, 0)) for _ in range(g.pick((1, 1, 2)))}:
        if axis == 0 and g.has_other_shapes:
            continue
        step = 16 if axis == 3 and g.chance(0.8) else 1
        begin[axis] = g.pick(range(0, size[axis], step))
        size[axis] = g.pick(range(1, size[axis] - begin[axis] + 1))
    strided = g.chance(0.5)
    if not g.has_other_shapes:
        return g.slice_of(x, begin, size, strided=strided)
    spec = g.spec(x)
    # Without a signature the runtime takes the shape of the output for fixed, and then reads beyond
    # an input that has become smaller.
    signature = (-1, *size[1:])
    y = g.tensor("slice", size, spec.dtype, spec.quantization, shape_signature=signature)
    box = [g.constant("box", np.array(one, np.int32)) for one in (begin, signature)]
    g.operator("SLICE", (x, *box), (y,), version=2)
    return y


def _uneven(g: Generator, x: int) -> Outputs:
    channels = g.shape(x)[3]
    if channels < 2:
        return ()
    first = g.pick(range(1, channels))
    return g.split_v(x, (first, channels - first), 3)


def _resized(g: Generator, x: int) -> Outputs:
    """Resize by whole factors mostly; with values in between up, down, or to any size."""
    _, h, w, _ = g.shape(x)
    is_bilinear = g.chance(0.3)
    if is_bilinear:
        factor = g.pick((2, 2, 4, 3, 5))
        sides = [factor * h, factor * w]
        if g.chance(0.2):
            sides = [g.pick(range(1, 3 * side + 2)) for side in (h, w)]
        elif g.chance(0.3):
            sides = [side // factor if side % factor == 0 else side for side in (h, w)]
    else:
        sides = [side * g.pick((1, 2, 2, 3)) for side in (h, w)]
        sides[0] += g.chance(0.1)
    if prod(sides) > MOST_PIXELS:
        return ()
    where = g.pick(range(3))
    kind = ResizeBilinearOptions if is_bilinear else ResizeNearestOptions
    op = "RESIZE_BILINEAR" if is_bilinear else "RESIZE_NEAREST_NEIGHBOR"
    return g.resize(op, x, sides[0], sides[1], kind(where == 1, where == 2))


def _transposed(g: Generator, x: int) -> Outputs:
    """Transpose, also with a reshape behind it, as heads have it."""
    y = g.transpose(x, g.choose([(0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 3, 1)]))
    if g.has_other_shapes or g.chance(0.6):
        return y
    n, h, w, c = g.shape(y)
    z = g.reshape(y, (n, 1, h, w * c) if g.chance(0.5) else (n, h, 1, w * c))
    return [y, z] if g.chance(0.3) else z


def _reshaped(g: Generator, x: int) -> Outputs:
    """Pixels that become channels, or the other way round."""
    n, h, w, c = g.shape(x)
    if g.has_other_shapes:
        return ()
    parts = [k for k in range(2, 9) if c % k == 0]
    if parts and g.chance(0.6):
        k = g.choose(parts)
        return g.reshape(x, (n, h, w * k, c // k))
    return g.reshape(x, (n, h, 1, w * c) if g.chance(0.5) else (n, w, h, c))


def bordered(g: Generator, x: int) -> Outputs:
    """Add a border of any value, or mirrored."""
    mode = g.pick((REFLECT, SYMMETRIC)) if g.chance(0.5) else None
    most = 4 if mode is None else min(*g.shape(x)[1:3], 4) - (mode == REFLECT)
    sides = g.rng.integers(0, most + 1, (2, 2)).tolist()
    value = None if mode is not None else g.pick(range(*LIMITS[g.dtype]))
    return g.pad(x, [[0, 0], *sides, [0, 0]], value=value, mode=mode)


def _repeated(g: Generator, x: int) -> Outputs:
    """The image several times side by side, mostly in one direction."""
    times = [1, *(g.pick((1, 1, 2, 3)) for _ in "hwc")]
    fits = prod(g.shape(x)) * prod(times) <= MOST_REPEATED
    return g.tile(x, times) if fits else ()


def _gathered(g: Generator, x: int) -> Outputs:
    """Any channels, or rows or columns of images that keep their size."""
    axis = 3 if g.has_other_shapes else g.pick((1, 2, 3))
    size = g.shape(x)[axis]
    places = g.rng.integers(0, size, g.pick((1, 2, 5, 17)))
    if g.chance(0.5):
        places = np.arange(size)[:: g.pick((-1, 2, 3))]
    return g.gather(x, places, axis)


def _flipped(g: Generator, x: int) -> Outputs:
    """Backwards, along one dimension."""
    return g.reverse(x, g.pick((1, 2, 3, 3)))


MAKERS: dict[str, Step] = {
    make.__name__.strip("_"): make
    for make in (
        _concat, _split, _slice, _uneven, _resized, _transposed, _reshaped, bordered, _repeated,
        _gathered, _flipped,
    )
}  # fmt: skip
"""Steps by their names."""
