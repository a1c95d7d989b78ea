"""One-operator models as .tflite bytes with random weights.

Comes from: a NumPy generator and a geometry in ``h, w, c`` / ``kh, kw`` order. Goes to: bytes for
an interpreter. ``Arithmetic`` (see ``layers``) fixes what shall not be drawn: activation, zero
points, scales, weights, bias.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from delegate.model.graph import Activation, DType
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import DEFAULT_ARITHMETIC, Arithmetic, Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, add_operand_scale, random_quantization


def _of_one_layer(
    description: str,
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: DType,
    given: tuple[float | None, int | None],
    layer: Callable[[ModelBuilder, int], int],
) -> bytes:
    """``given``: scale and zero point of the input."""
    builder = ModelBuilder(description)
    x = builder.input("input", shape, dtype, random_quantization(rng, dtype, *given))
    return builder.build(layer(builder, x))


def conv_model(
    rng: np.random.Generator,
    h: int,
    w: int,
    ic: int,
    oc: int,
    *sides: Any,
    dtype: DType = DType.INT8,
    batch: int = 1,
    groups: int = 1,
    input_scale: float | None = None,
    input_zero_point: int | None = None,
    arithmetic: Arithmetic = DEFAULT_ARITHMETIC,
    **window_of: Any,
) -> bytes:
    """One CONV_2D on [batch, h, w, ic]. ``sides`` and ``window_of``: arguments of ``Window``."""
    window, given = Window(*sides, **window_of), (input_scale, input_zero_point)
    return _of_one_layer(
        "conv_2d", rng, (batch, h, w, ic), dtype, given,
        lambda builder, x: layers.conv(builder, rng, x, oc, window, arithmetic, groups=groups),
    )  # fmt: skip


def depthwise_model(
    rng: np.random.Generator,
    h: int,
    w: int,
    c: int,
    *sides: Any,
    dtype: DType = DType.INT8,
    multiplier: int = 1,
    batch: int = 1,
    input_scale: float | None = None,
    input_zero_point: int | None = None,
    arithmetic: Arithmetic = DEFAULT_ARITHMETIC,
    **window_of: Any,
) -> bytes:
    """One DEPTHWISE_CONV_2D on [batch, h, w, c], giving c * multiplier channels. ``sides`` and
    ``window_of``: arguments of ``Window``.
    """
    given, how = (input_scale, input_zero_point), (Window(*sides, **window_of), arithmetic)
    return _of_one_layer(
        "depthwise_conv_2d", rng, (batch, h, w, c), dtype, given,
        lambda builder, x: layers.depthwise(builder, rng, x, *how, multiplier=multiplier),
    )  # fmt: skip


def fully_connected_model(
    rng: np.random.Generator,
    input_shape: Sequence[int],
    outputs: int,
    dtype: DType = DType.INT8,
    *,
    inputs: int | None = None,
    keep_num_dims: bool = False,
    input_scale: float | None = None,
    input_zero_point: int | None = None,
    arithmetic: Arithmetic = DEFAULT_ARITHMETIC,
) -> bytes:
    """One FULLY_CONNECTED; ``inputs`` (K) defaults to the last dimension of ``input_shape``."""
    return _of_one_layer(
        "fully_connected", rng, input_shape, dtype, (input_scale, input_zero_point),
        lambda builder, x: layers.fully_connected(
            builder, rng, x, outputs, arithmetic, inputs=inputs, keep_num_dims=keep_num_dims
        ),
    )  # fmt: skip


def add_model(
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: DType = DType.INT8,
    *,
    other_shape: Sequence[int] | None = None,
    activation: Activation = Activation.NONE,
    scales: tuple[float | None, float | None] = (None, None),
    zero_points: tuple[int | None, int | None] = (None, None),
    output_scale: float | None = None,
    output_zero_point: int | None = None,
    is_same_tensor: bool = False,
    is_constant: bool = False,
) -> bytes:
    """One ADD of two inputs; ``is_same_tensor``: x + x; ``is_constant``: the second operand is a
    constant."""
    builder = ModelBuilder("add")
    first, second = (
        add_operand_scale(rng, activation) if scale is None else scale for scale in scales
    )
    a = builder.input("a", shape, dtype, random_quantization(rng, dtype, first, zero_points[0]))
    b = a
    if not is_same_tensor:
        dims = tuple(shape if other_shape is None else other_shape)
        quantization = random_quantization(rng, dtype, second, zero_points[1])
        if is_constant:
            low, high = LIMITS[dtype]
            values = rng.integers(low, high + 1, dims, dtype.element.dtype)
            b = builder.constant("b", values, quantization)
        else:
            b = builder.input("b", dims, dtype, quantization)
    target: dict[str, Any] = {"output_scale": output_scale, "output_zero_point": output_zero_point}
    return builder.build(layers.add(builder, a, b, activation=activation, **target))
