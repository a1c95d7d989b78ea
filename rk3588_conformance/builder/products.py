"""BATCH_MATMUL, and FULLY_CONNECTED with computed weights."""

import math

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Quantization
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import uniform_moments

COVERED_DEVIATIONS = 2.5
INT8_VERSION = 2
DENSE_VERSION = 4


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
    return computed_product(builder, x, y, output, adj_x=adj_x, adj_y=adj_y)


def computed_product(
    builder: ModelBuilder,
    x: int,
    y: int,
    output: Quantization | None,
    *,
    adj_x: bool = False,
    adj_y: bool = False,
) -> int:
    """``x`` times ``y``, of one type."""
    first, second = (builder.spec(index) for index in (x, y))
    rows = first.shape[-1:] if adj_x else first.shape[-2:-1]
    columns = second.shape[-2] if adj_y else second.shape[-1]
    lead = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    return builder.result(
        "BATCH_MATMUL", (x, y), "product", (*lead, *rows, columns), output,
        options=BatchMatMulOptions(adj_x, adj_y), version=INT8_VERSION,
    )  # fmt: skip


def computed_dense(
    builder: ModelBuilder,
    x: int,
    weights: int,
    output: Quantization | None,
    options: FullyConnectedOptions,
    bias: npt.NDArray[np.generic] | None = None,
) -> int:
    """``x`` times ``weights`` [outputs, inputs], of one type."""
    given, rows = builder.spec(x), builder.spec(weights)
    numbers = None
    if given.quantization is not None and rows.quantization is not None:
        product = np.float32(given.quantization.scale) * np.float32(rows.quantization.scale)
        numbers = Quantization((float(product),), (0,))
    behind = -1 if bias is None else builder.constant("bias", bias, numbers)
    lead = given.shape[:-1] if options.keep_num_dims else (math.prod(given.shape[:-1]),)
    return builder.result(
        "FULLY_CONNECTED", (x, weights, behind), "dense", (*lead, rows.shape[0]), output,
        dtype=given.dtype, options=options, version=DENSE_VERSION,
    )  # fmt: skip


def covering(inputs: int, first: Quantization, second: Quantization) -> Quantization:
    """Return the quantisation for results of evenly drawn int8: sums of ``inputs`` products."""
    moments = [uniform_moments(DType.INT8, q.zero_point) for q in (first, second)]
    mean = float(np.prod([mean for mean, _ in moments]))
    squares = float(np.prod([mean**2 + deviation**2 for mean, deviation in moments]))
    reach = COVERED_DEVIATIONS * float(np.sqrt(max(squares - mean**2, 1.0) * inputs))
    low, high = min(mean * inputs - reach, 0.0), max(mean * inputs + reach, 0.0)
    step = (high - low) / 255
    scale = float(np.float32(first.scale * second.scale * step))
    return Quantization((scale,), (round(-128 - low / step),))
