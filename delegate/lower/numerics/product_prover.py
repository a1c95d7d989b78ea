"""What MUL computes, and what a pipeline with the second factor in EW makes of every pair.

TensorFlow Lite multiplies both operands, counted from their zero points, and requantises the
product with two roundings (``tflite``). Two int8 operands make 65,536 pairs: they are all compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from delegate.lower.numerics.pipeline import Int64Array, Pipeline
from delegate.lower.numerics.prover import Proof
from delegate.lower.numerics.sum_prover import INT8_VALUES
from delegate.lower.numerics.tflite import scaled


@dataclass(frozen=True, eq=False)
class ProductTarget:
    """What TensorFlow Lite's MUL computes of two int8 operands. ``q`` and ``exponent``: its
    multiplier; ``zero_points`` of first, second, result; ``outputs``: least and largest result.
    """

    q: int
    exponent: int
    zero_points: tuple[int, int, int]
    outputs: tuple[int, int]

    @cached_property
    def results(self) -> Int64Array:
        """[first, second]: of all 65,536 pairs."""
        first, second = (INT8_VALUES - zero_point for zero_point in self.zero_points[:2])
        products = scaled(np.multiply.outer(first, second), self.q, self.exponent)
        return np.asarray(np.clip(products + self.zero_points[2], *self.outputs))


def prove_product(pipeline: Pipeline, target: ProductTarget) -> Proof:
    """Compares ``pipeline``, with the second operand in EW, with ``target`` for every pair.
    ``wrong``: pairs with another result.
    """
    x, e = INT8_VALUES[:, np.newaxis].astype(np.float64), INT8_VALUES.astype(np.float64)
    off = np.abs(pipeline.run(x, e) - target.results)
    is_sound = pipeline.fits_int32(x, e)
    worst, wrong = int(off.max()), int(np.count_nonzero(off))
    return Proof(is_sound, np.array([worst]), np.array([wrong]))
