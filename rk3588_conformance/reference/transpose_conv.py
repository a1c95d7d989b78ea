"""TRANSPOSE_CONV: every input element is scattered over the outputs that its kernel reaches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.reference.arithmetic import Array, Call, operands, requantize
from rk3588_conformance.reference.windows import geometry


def reference(call: Call) -> Array:
    options = call.node.known_options(TransposeConvOptions)
    _, weights_index, input_index, *bias = call.node.inputs
    convolution = replace(call.node, inputs=(input_index, weights_index, *bias))
    as_convolution = replace(call, node=convolution)
    features, weights = operands(as_convolution)
    outputs, kh, kw, _ = weights.shape
    images, height, width, _ = features.shape
    _, rows, columns, _ = call.output.shape
    # Left out before the first result: the padding of the convolution that is transposed.
    _, top = geometry(rows, kh, options.stride_h, options.padding)
    _, left = geometry(columns, kw, options.stride_w, options.padding)
    # Room for all that kernels reach; the output is cut out of it.
    reach = (height - 1) * options.stride_h + kh, (width - 1) * options.stride_w + kw
    room = max(reach[0], top + rows), max(reach[1], left + columns)
    acc = np.zeros((images, *room, outputs))
    for y in range(kh):
        for x in range(kw):
            last_row = y + (height - 1) * options.stride_h + 1
            last_column = x + (width - 1) * options.stride_w + 1
            place = (
                slice(None),
                slice(y, last_row, options.stride_h),
                slice(x, last_column, options.stride_w),
            )
            acc[place] += features @ weights[:, y, x].T
    cut = acc[:, top : top + rows, left : left + columns]
    return requantize(as_convolution, np.rint(cut).astype(np.int64))
