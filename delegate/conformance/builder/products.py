"""BATCH_MATMUL with a constant second operand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import uniform_moments
from delegate.model.graph import Quantization
from delegate.ops.batch_matmul import BatchMatMulOptions

COVERED_DEVIATIONS = 2.5
INT8_VERSION = 2


def matrix_product(
    builder: ModelBuilder,
    x: int,
    matrix: npt.NDArray[np.int8],
    output: Quantization,
    *,
    zero_point: int = 0,
    multiplier: float = 1.0,
    adj_x: bool = False,
    adj_y: bool = False,
) -> int:
    """int8 ``x`` times ``matrix`` [..., inputs, outputs], whose scale is such that results cover
    ``output``, times ``multiplier``.
    """
    spec = builder.spec(x)
    assert spec.quantization is not None
    numbers = matrix.astype(np.float64) - zero_point
    columns = numbers.reshape(-1, matrix.shape[-1])
    _, deviation = uniform_moments(spec.dtype, spec.quantization.zero_point)
    spread = float(np.sqrt((columns**2).sum(axis=0).mean())) * deviation
    wanted = 256 / (2 * COVERED_DEVIATIONS * max(spread, 1.0)) * multiplier
    scale = float(np.float32(wanted * output.scale / spec.quantization.scale))
    values = np.ascontiguousarray(np.swapaxes(matrix, -1, -2)) if adj_y else matrix
    y = builder.constant("matrix", values, Quantization((scale,), (zero_point,)))
    z = builder.tensor("product", (*spec.shape[:-1], matrix.shape[-1]), spec.dtype, output)
    table = options.of(BatchMatMulOptions(adj_x, adj_y, False))
    builder.operator("BATCH_MATMUL", (x, y), (z,), table, version=INT8_VERSION)
    return z
