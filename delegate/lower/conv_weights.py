"""Weights of a convolution as its tasks fetch them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.chip.element import Element
from delegate.errors import LoweringError
from delegate.lower.constants import ConstantPool
from delegate.lower.conv_geometry import geometry_of, programmed_channels, programmed_kernels
from delegate.lower.resolved import Convolution
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.task import (
    Weights,
)
from delegate.lower.tiling.geometry import Part
from delegate.lower.weights import (
    pack_dense,
    pack_depthwise,
    pack_depthwise_pairs,
    padded_kernels,
)


def pack_weights(conv: Convolution, constants: ConstantPool) -> Weights:
    """Adds them to ``constants``. Raises LoweringError where the chip has no form for them."""
    (kh, kw), lanes = conv.kernel, programmed_channels(conv)
    if conv.element is Element.FP16:
        return _pack_half_weights(conv, constants)
    if conv.is_depthwise:
        packed = _packed_depthwise(conv)
        kernels, per_kernel = 1, len(packed)
    else:
        group = geometry_of(conv).unit
        kernels, per_kernel = padded_kernels(conv.weights.shape[0], conv.chip), kh * kw * lanes
        weights = conv.weights
        if conv.chip.forms.whole_kernel_groups:
            weights = np.full((kernels, kh, kw, lanes), conv.weight_zero_point, np.int8)
            weights[: len(conv.weights), :, :, : conv.weights.shape[3]] = conv.weights
        packed = pack_dense(weights, conv.weight_zero_point, conv.chip.groups, group)
    # A tile of fewer and larger kernels would not have fitted CBUF.
    assert per_kernel <= conv.chip.limits.bytes_per_kernel or conv.is_depthwise
    return Weights(constants.add(packed), len(packed), per_kernel, kernels, kh, kw)


def _packed_depthwise(conv: Convolution) -> bytes:
    if not conv.chip.forms.depthwise_pairs:
        return pack_depthwise(conv.weights, conv.weight_zero_point, conv.chip.groups)
    try:
        return pack_depthwise_pairs(conv.weights, conv.weight_zero_point, conv.chip.groups)
    except ValueError as error:
        raise LoweringError(conv.node, FORM_IS_KNOWN, str(error)) from None


def _pack_half_weights(conv: Convolution, constants: ConstantPool) -> Weights:
    from delegate.lower.half.weights import pack_dense_half, pack_depthwise_half

    groups = conv.chip.groups
    if conv.is_depthwise:
        kernels, packed = 1, pack_depthwise_half(conv.weights, groups)
    else:
        kernels = programmed_kernels(conv)
        packed = pack_dense_half(conv.weights, kernels, groups, geometry_of(conv).unit)
    size = len(packed)
    return Weights(constants.add(packed), size, size // kernels, kernels, *conv.kernel)


def weights_of_part(conv: Convolution, weights: Weights, part: Part) -> Weights:
    """Kernel groups lie one after the other, so a part is a range of bytes."""
    taps = weights.kh * weights.kw * conv.element.bytes
    per_kernel = weights.bytes_per_kernel
    if conv.is_depthwise:
        per_kernel = 2 * taps if conv.chip.forms.depthwise_pairs else taps
    size = part.kernels * per_kernel
    if size == weights.total_bytes:
        return weights
    return replace(
        weights,
        source=weights.source.moved(part.first * per_kernel),
        total_bytes=size,
        bytes_per_kernel=size if conv.is_depthwise else weights.bytes_per_kernel,
        kernels=1 if conv.is_depthwise else part.kernels,
    )
