"""One-operator models as .tflite bytes with random weights.

Comes from: a NumPy generator and a geometry in ``h, w, c`` / ``kh, kw`` order. Goes to: bytes for
an interpreter. ``Arithmetic`` (see ``layers``) fixes what shall not be drawn: activation, zero
points, scales, weights, bias.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from delegate.model.graph import Activation, DType
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import DEFAULT_ARITHMETIC, Arithmetic, Weighted, Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, add_operand_scale, random_quantization


def _one_layer(
    rng: np.random.Generator,
    make: Callable[[Activation], Weighted],
    dtype: DType = DType.INT8,
    *,
    input_scale: float | None = None,
    input_zero_point: int | None = None,
    arithmetic: Arithmetic = DEFAULT_ARITHMETIC,
) -> bytes:
    """``make``: the layer with an activation."""
    layer = make(arithmetic.activation)
    builder = ModelBuilder(layer.op.lower(), rng)
    given = random_quantization(rng, dtype, input_scale, input_zero_point)
    x = builder.input("input", layer.given, dtype, given)
    return builder.build(layers.weighted(builder, x, layer, arithmetic))


def _taken_window(sides: Sequence[Any], how: dict[str, Any]) -> Window:
    """Take the arguments of a window out of ``how``."""
    names = [each.name for each in fields(Window) if each.name in how]
    return Window(*sides, **{name: how.pop(name) for name in names})


def conv_model(
    rng: np.random.Generator,
    h: int,
    w: int,
    ic: int,
    oc: int,
    *sides: Any,
    batch: int = 1,
    groups: int = 1,
    **how: Any,
) -> bytes:
    """One CONV_2D on [batch, h, w, ic]. ``sides`` and ``how``: arguments of ``Window``, and of
    ``_one_layer``.
    """
    shape, window = (batch, h, w, ic), _taken_window(sides, how)
    return _one_layer(rng, lambda a: layers.conv_layer(shape, oc, window, a, groups), **how)


def depthwise_model(
    rng: np.random.Generator,
    h: int,
    w: int,
    c: int,
    *sides: Any,
    batch: int = 1,
    multiplier: int = 1,
    **how: Any,
) -> bytes:
    """One DEPTHWISE_CONV_2D on [batch, h, w, c], giving c * multiplier channels; else as
    ``conv_model``.
    """
    shape, window = (batch, h, w, c), _taken_window(sides, how)
    return _one_layer(rng, lambda a: layers.depthwise_layer(shape, window, a, multiplier), **how)


def fully_connected_model(
    rng: np.random.Generator,
    input_shape: Sequence[int],
    outputs: int,
    dtype: DType = DType.INT8,
    *,
    inputs: int | None = None,
    keep_num_dims: bool = False,
    **how: Any,
) -> bytes:
    """One FULLY_CONNECTED; ``inputs`` (K) defaults to the last dimension of ``input_shape``."""
    shape = tuple(input_shape)
    kept: dict[str, Any] = {"inputs": inputs, "keep_num_dims": keep_num_dims}
    return _one_layer(rng, lambda a: layers.dense_layer(shape, outputs, a, **kept), dtype, **how)


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
