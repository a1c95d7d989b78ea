"""BATCH_MATMUL of int8 with a constant second operand: ranks, sizes, both orders of the matrix,
zero points and multipliers.
"""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.products import matrix_product
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.own_grid import one_layer, shape_of
from delegate.conformance.random_layers import draw_quantization, draw_zero_point
from delegate.model.graph import DType


def _products() -> Grid:
    def make(
        name: str, *, rows: str, inputs: int, outputs: int, order: str, zero: str, percent: int
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            ones = (1,) * int(rng.integers(0, len(shape_of(rows))))
            matrix = rng.integers(-127, 128, (*ones, inputs, outputs)).astype(np.int8)
            point = 0 if zero == "none" else draw_zero_point(rng, DType.INT8)
            return matrix_product(
                builder, x, matrix, draw_quantization(rng, DType.INT8),
                zero_point=point, multiplier=percent / 100, adj_y=order == "outputs_first",
            )  # fmt: skip

        return one_layer(name, "MatrixProduct", (*shape_of(rows), inputs), "int8", layer)

    return Grid(
        "MatrixProduct.Op/",
        {
            "rows": ("1", "19", "5x1", "3x7", "2x3x5"),
            "inputs": (1, 33, 257),
            "outputs": (1, 17, 130),
            "order": ("inputs_first", "outputs_first"),
            "zero": ("none", "drawn"),
            "percent": (25, 100, 400),
        },
        make,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_products(),)
