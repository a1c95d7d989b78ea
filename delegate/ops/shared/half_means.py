"""Means under windows in fp16: a depthwise convolution with ones for weights, times one over the
number of pixels. Imported for float models only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.lower.convolution import PlannedConvolution, planned_convolution
from delegate.lower.half.bound import mean_bound
from delegate.lower.memory.tensors import View
from delegate.lower.operation import Operation, Planning
from delegate.lower.tiling.pooling import Pooling
from delegate.model.graph import Activation, Padding
from delegate.ops.shared import half
from delegate.ops.shared.convolution import ConvolutionOptions

_FRACTION = 1 << 10
"""Numbers of fp16 from 1 to 2."""


def factors_of(count: int) -> tuple[float, float]:
    """Two fp16 whose product is nearest to one over ``count``."""
    first = 1 + np.arange(_FRACTION) / _FRACTION
    second = (1 / (count * first)).astype(np.float16).astype(np.float64)
    best = int(np.abs(first * second * count - 1).argmin())
    return float(first[best]), float(second[best])


def plan_mean(
    planning: Planning, operation: Operation, pooling: Pooling, activation: Activation
) -> PlannedConvolution:
    """Of windows that lie within the image. Raises LoweringError."""
    rows, columns = pooling.rows, pooling.columns
    view = planning.tensor(operation.operands[0]).elements
    options = ConvolutionOptions(Padding.VALID, rows.stride, columns.stride, 1, 1, activation)
    weights = np.ones((rows.kernel, columns.kernel, view.channels), np.float16)
    bias = np.zeros(view.channels, np.float32)
    result = View(view.images, rows.output, columns.output, view.channels)
    conv = replace(
        half.half_convolution(
            planning, operation, options, weights, bias, (0, 0), result, is_depthwise=True
        ),
        factors=factors_of(rows.kernel * columns.kernel),
    )
    found = planned_convolution(operation, conv, planning.sharing)
    return replace(found, note=f"fp16, {mean_bound(conv).text}, ")
