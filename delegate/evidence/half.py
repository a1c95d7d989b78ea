"""Proofs of what is computed in fp16.

Values, weights and sums are chosen so that all sums are exact whatever the order of their terms;
only the results are rounded, to the nearest fp16, ties to even.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import ATOM_BYTES, Element
from delegate.evidence.arithmetic import column, dense, depthwise, padded, whole
from delegate.evidence.bench import AS_IT_IS, Bench, Describe, small_kernels
from delegate.lower.half.weights import (
    pack_dense_half,
    pack_depthwise_half,
    pack_half_bias,
    pack_slopes,
)
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import (
    BnStage,
    BsStage,
    CbufPlan,
    ConvTask,
    ElementwiseTask,
    EwStage,
    FeatureInput,
    OutputCube,
    Ref,
    Source,
    Weights,
)
from delegate.lower.tiling.geometry import entries_per_row

Real = npt.NDArray[np.float64]

_FP16: Final = Element.FP16
_STEP: Final = 1 / 4
"""Of weights: sums are multiples of it, far below 2^24 of them."""


def cube(x: npt.ArrayLike) -> bytes:
    """[channels, height, width] as NC1HWC2 of fp16, rounded; whole surfaces of channels."""
    values = np.asarray(x).astype(np.float16)
    surfaces = values.reshape(-1, _FP16.lanes, *values.shape[1:])
    return surfaces.transpose(0, 2, 3, 1).tobytes()


def _output(b: Bench, result: Real, surfaces_per_group: int) -> OutputCube:
    channels, height, width = result.shape
    return OutputCube(
        target=b.room(cube(result)),
        height=height,
        width=width,
        channels=channels,
        channels_real=channels,
        surface_stride_bytes=height * width * ATOM_BYTES,
        surfaces_per_group=surfaces_per_group,
        element_bytes=_FP16.bytes,
    )


def _conv(
    b: Bench, x: Real, kernels: Real, bias: Real, result: Real, pads: tuple[int, int] = (0, 0)
) -> None:
    """Stride 1. ``kernels``: [outputs, height, width, inputs], or [height, width, channels]."""
    channels, height, width = x.shape
    groups, is_depthwise = b.chip.groups, kernels.ndim == 3
    weights = kernels.astype(np.float16)
    count = 1 if is_depthwise else len(kernels)
    packed = (
        pack_depthwise_half(weights, groups)
        if is_depthwise
        else pack_dense_half(weights, count, groups)
    )
    kh, kw = kernels.shape[:2] if is_depthwise else kernels.shape[1:3]
    operands = b.constants.add(pack_half_bias(bias.astype(np.float32), len(result)))
    b.add(
        ConvTask(
            tile="",
            feature=FeatureInput(
                source=b.constants.add(cube(x)),
                height=height,
                width=width,
                channels=channels,
                channels_real=channels,
                line_stride_bytes=width * ATOM_BYTES,
                surface_stride_bytes=height * width * ATOM_BYTES,
                entries_per_row=entries_per_row(b.chip.cbuf, width, channels, _FP16.bytes),
                pad_top=pads[0],
                pad_left=pads[1],
                pad_value=0,
            ),
            weights=Weights(
                b.constants.add(packed), len(packed), len(packed) // count, count, kh, kw
            ),
            cbuf=CbufPlan(1, b.chip.cbuf.banks - 1, weight_reuse=False),
            output=_output(b, result, groups.outputs(is_depthwise) // ATOM_BYTES),
            bs=BsStage(alu=Source.MEMORY, operands=operands),
            out_convert=AS_IT_IS,
            stride_h=1,
            stride_w=1,
            dilation_h=1,
            dilation_w=1,
            is_depthwise=is_depthwise,
            element=_FP16,
        )
    )


def _map(
    b: Bench, x: Real, result: Real, *, bn: BnStage | None = None, ew: EwStage | None = None
) -> None:
    _, height, width = x.shape
    b.add(
        ElementwiseTask(
            tile="",
            source=b.constants.add(cube(x)),
            source_surface_stride_bytes=height * width * ATOM_BYTES,
            output=_output(b, result, 1),
            bs=BsStage(),
            out_convert=AS_IT_IS,
            bn=bn or BnStage(),
            ew=ew,
            element=_FP16,
        )
    )


def _convolution(b: Bench) -> None:
    """Dense and depthwise, two groups of inputs and of kernels, a border; results of more bits
    than fp16 has.
    """
    x, kernels = b.values(40, 4, 5), 65 * small_kernels(32, 2, 3, 40)
    bias = np.arange(32) * 257 * _STEP - 900
    sums = dense(padded(x, 1, 1, 0, 1, 0), whole(kernels)) * _STEP + bias.reshape(-1, 1, 1)
    _conv(b, x.astype(np.float64), kernels * _STEP, bias, sums, (1, 1))
    x = b.values(64, 4, 5)
    taps = (np.arange(3 * 3 * 64).reshape(3, 3, 64) * 11 % 129) - 64
    sums = depthwise(padded(x, 1, 1, 1, 1, 0), taps) * _STEP
    _conv(b, x.astype(np.float64), taps * _STEP, np.zeros(64), sums, (1, 1))


def _values(b: Bench, seed: int = 0) -> Real:
    """Of both signs and of many magnitudes, subnormal numbers among them."""
    whole_numbers = b.values(24, 3, 5, seed=seed).astype(np.float64)
    return np.asarray(np.ldexp(whole_numbers, column(np.arange(24) // 2 - 14 + seed)))


def _element_wise(b: Bench) -> None:
    """As it is, and products and maxima of two tensors."""
    x, e = _values(b), _values(b, seed=3)
    _map(b, x, x)
    _map(b, x, x * e, ew=_operand(b, e, EwOperation.MULTIPLY))
    _map(b, x, np.maximum(x, e), ew=_operand(b, e, EwOperation.MAX))


def _operand(b: Bench, e: Real, operation: EwOperation) -> EwStage:
    place: Ref = b.constants.add(cube(e))
    stride = e.shape[1] * e.shape[2] * ATOM_BYTES
    return EwStage(
        place, operand_bytes=_FP16.bytes, operation=operation, surface_stride_bytes=stride
    )


def _pair(operation: EwOperation, sign: int) -> Describe:
    """Sums that fp16 cannot hold."""

    def describe(b: Bench) -> None:
        x, e = _values(b), _values(b, seed=2)
        _map(b, x, x + sign * e, ew=_operand(b, e, operation))

    return describe


def _slopes(b: Bench) -> None:
    """Another slope per channel, of both signs; values from 0 on stay."""
    x = _values(b)
    slopes = (np.arange(24) - 7) / 64
    bn = BnStage(
        mul=Source.MEMORY,
        prelu=True,
        operands=b.constants.add(pack_slopes(slopes.astype(np.float16), 24)),
    )
    _map(b, x, np.where(x >= 0, x, x * slopes.reshape(-1, 1, 1)), bn=bn)


HALF: Final[dict[str, Describe]] = {
    "fp16_convolution": _convolution,
    "fp16_element_wise": _element_wise,
    "fp16_operand": _pair(EwOperation.ADD, 1),
    "ew_difference": _pair(EwOperation.SUBTRACT, -1),
    "fp16_slopes": _slopes,
}
"""By feature."""
