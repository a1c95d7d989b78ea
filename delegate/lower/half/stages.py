"""The DPU stages of tasks in fp16: what BS, BN and EW do to numbers, which are fp32 in there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.lower.conv_spec import Convolution, operand_channels
from delegate.lower.operation import ConstantPool
from delegate.lower.task import BnStage, BsStage, Source, Stages
from delegate.lower.weights import padded_operands
from delegate.model.graph import Activation

RELU6_MOST = 6.0

HALF_MOST = float(np.finfo(np.float16).max)
"""The largest fp16."""


_FRACTION = 1 << 10
"""Numbers of fp16 from 1 to 2."""


def float_bits(value: float) -> int:
    """Return the bits of ``value`` as fp32, as an int32."""
    return int(np.float32(value).view(np.int32))


def half_bits(value: float) -> int:
    """Return the bits of ``value`` as fp16, as an int16."""
    return int(np.float16(value).view(np.int16))


def factors_of(count: int) -> tuple[float, float]:
    """Return two fp16 whose product is nearest to one over ``count``."""
    first = 1 + np.arange(_FRACTION) / _FRACTION
    second = (1 / (count * first)).astype(np.float16).astype(np.float64)
    best = int(np.abs(first * second * count - 1).argmin())
    return float(first[best]), float(second[best])


def half_clamp(activation: Activation) -> BnStage:
    """Return BN as the fused activation; what RELU leaves ends where fp16 does."""
    if activation is Activation.NONE:
        return BnStage()
    most = RELU6_MOST if activation is Activation.RELU6 else HALF_MOST
    return BnStage(relu=True, relux_max=float_bits(most))


def half_conv_stages(conv: Convolution, constants: ConstantPool) -> Stages:
    """Return the stages: BS adds the bias in fp32, BN clamps; each multiplies by one of the factors
    before. OUT_CVT rounds to the nearest fp16, ties to even.
    """
    bias = padded_operands(conv.bias, operand_channels(conv), "<f4")
    operands = constants.add(bias.tobytes())
    bs, bn = BsStage(alu=Source.MEMORY, operands=operands), half_clamp(conv.activation)
    if conv.factors != (1.0, 1.0):
        first, second = map(half_bits, conv.factors)
        bs = replace(bs, mul=Source.REGISTER, mul_operand=first)
        bn = replace(bn, mul=Source.REGISTER, mul_operand=second)
    return Stages(bs, bn)
