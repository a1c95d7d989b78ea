"""The common part of our own grid's families: types, pairs like "5x3", and one-layer cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Padding, Quantization
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Build, Case, Inputs
from rk3588_conformance.grid import Grid, Value, always
from rk3588_conformance.random_layers import Numbers, draw_quantization
from rk3588_conformance.tolerance import LOWER_CLAMP, NONE, PER_CHANNEL

TYPES = ("uint8", "int8", "per_channel")
PADDINGS = {"same": Padding.SAME, "valid": Padding.VALID}

EIGHT_BITS = ("uint8", "int8")

Outputs = int | Sequence[int]
Body = Callable[[ModelBuilder, np.random.Generator], Outputs]
Layer = Callable[[ModelBuilder, np.random.Generator, int], Outputs]


def dtype_of(kind: str) -> DType:
    """The feature type of one of ``TYPES``."""
    return DType.UINT8 if kind == "uint8" else DType.INT8


def is_per_channel(kind: str) -> bool:
    """Return whether ``kind`` of ``TYPES`` has a scale per channel."""
    return kind == "per_channel"


def numbers_of(kind: str) -> Numbers:
    """Teflon's numbers for one of ``TYPES``."""
    return Numbers(per_channel=is_per_channel(kind))


def shape_of(text: str) -> tuple[int, ...]:
    """ "1x5x3" as (1, 5, 3)."""
    return tuple(int(part) for part in text.split("x"))


def values_of(dtype: DType) -> npt.NDArray[np.generic]:
    """All 256 values of an 8-bit type, ascending."""
    low, high = LIMITS[dtype]
    return np.arange(low, high + 1).astype(dtype.element.dtype)


def constant(
    builder: ModelBuilder,
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: DType,
    quantization: Quantization | None = None,
) -> int:
    """Random values."""
    low, high = LIMITS[dtype]
    values = rng.integers(low, high + 1, shape).astype(dtype.element.dtype)
    return builder.constant("constant", values, quantization or draw_quantization(rng, dtype))


def pair(text: str) -> tuple[int, int]:
    """ "5x3" as (5, 3)."""
    first, _, second = text.partition("x")
    return int(first), int(second)


def window_of(
    kernel: str, stride: str = "1x1", dilation: str = "1x1", padding: str = "same"
) -> Window:
    """A window of pairs "height x width"."""
    (kh, kw), (sh, sw), (dh, dw) = pair(kernel), pair(stride), pair(dilation)
    return Window(kh, kw, sh, sw, dh, dw, PADDINGS[padding])


def window_in(values: Mapping[str, Value]) -> Window:
    """Return the window of a case's kernel, stride, dilation and padding, 3 x 3 if it has none of
    them.
    """
    axes = ("kernel", "stride", "dilation", "padding")
    return window_of(**{"kernel": "3x3"} | {a: str(values[a]) for a in axes if a in values})


def fits(window: Window, h: int, w: int) -> bool:
    """Return whether a convolution of h x w has an output."""
    if window.padding is Padding.SAME:
        return True
    return (window.kh - 1) * window.dh < h and (window.kw - 1) * window.dw < w


def differing_of(kind: str) -> float:
    """The share of elements of a convolution or FULLY_CONNECTED that may differ."""
    return PER_CHANNEL if is_per_channel(kind) else NONE


def model(description: str, body: Body) -> Build:
    """Return a function that builds a model whose outputs ``body`` gives."""

    def build(rng: np.random.Generator) -> bytes:
        builder = ModelBuilder(description)
        outputs = body(builder, rng)
        return builder.build(*((outputs,) if isinstance(outputs, int) else outputs))

    return build


def one_layer(
    name: str,
    label: str,
    shape: Sequence[int],
    kind: str,
    layer: Layer,
    *,
    quantization: Callable[[np.random.Generator, DType], Quantization] = draw_quantization,
    differing: float | None = None,
    inputs: Inputs | None = None,
    input_levels: int = 256,
) -> Case:
    """An input of ``shape`` and of one of ``TYPES``, and what ``layer`` makes of it. ``differing``:
    None for that of a convolution.
    """
    dtype = dtype_of(kind)

    def body(builder: ModelBuilder, rng: np.random.Generator) -> Outputs:
        x = builder.input("input", tuple(shape), dtype, quantization(rng, dtype))
        return layer(builder, rng, x)

    share = differing_of(kind) if differing is None else differing
    build = model(label, body)
    return Case(name, label, build, differing=share, inputs=inputs, input_levels=input_levels)


def map_shape(
    *, shape: str = "", images: int = 1, batch: int = 1, size: str = "1x1", channels: int = 1,
    **_: Value,
) -> tuple[int, ...]:  # fmt: skip
    """Return the shape of a case's input: its ``shape``, or its images, size and channels."""
    return shape_of(shape) if shape else (images * batch, *pair(size), channels)


def _drawn(rng: np.random.Generator, dtype: DType, **_: Value) -> Quantization:
    return draw_quantization(rng, dtype)


def layer_grid(
    prefix: str,
    *,
    differing: float | None = None,
    input_values: Callable[..., Sequence[npt.NDArray[np.generic]]] | None = None,
    input_shape: Callable[..., Sequence[int]] = map_shape,
    input_quantization: Callable[..., Quantization] = _drawn,
    is_in: Callable[..., bool] = always,
    **axes: Sequence[int] | Sequence[str] | Value,
) -> Callable[[Callable[..., Outputs]], Grid]:
    """Makes a ``Grid`` of the function below it, which adds the only layer of its models:
    ``layer(builder, rng, x, **values)``. An axis of a single value is the same for all cases and
    not in their names. ``input_...``: functions of the values, too. ``differing``: None for that of
    a convolution.
    """
    fixed = {axis: given for axis, given in axes.items() if isinstance(given, (int, str))}
    varied = {axis: given for axis, given in axes.items() if not isinstance(given, (int, str))}

    def family(layer: Callable[..., Outputs]) -> Grid:
        def make(name: str, **own: Value) -> Case:
            values: dict[str, Any] = fixed | own
            turns_ties = (
                differing is None and values.get("activation") == Activation.RELU_N1_TO_1.name
            )
            return one_layer(
                name,
                prefix.partition(".")[0],
                input_shape(**values),
                values["type"],
                lambda builder, rng, x: layer(builder, rng, x, **values),
                quantization=lambda rng, dtype: input_quantization(rng, dtype, **values),
                differing=LOWER_CLAMP if turns_ties else differing,
                inputs=None if input_values is None else lambda: input_values(**values),
            )

        return Grid(prefix, varied, make, lambda **own: is_in(**(fixed | own)))

    return family


def rescaled(builder: ModelBuilder, rng: np.random.Generator, x: int, ratio: float) -> Quantization:
    """The scale of ``x`` times ``ratio``, and a zero point of its own."""
    spec = builder.spec(x)
    assert spec.quantization is not None
    zero_point = draw_quantization(rng, spec.dtype).zero_point
    return one_scale(spec.quantization.scale * ratio, zero_point)
