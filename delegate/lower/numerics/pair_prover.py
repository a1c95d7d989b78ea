"""Specify ADD, SUB, MUL and PRELU's products, and compare a pipeline with the second operand in EW
for every pair.

Two int8 operands make 65,536 pairs: they are all compared, so there is nothing to argue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Int64Array, Pipeline
from delegate.lower.numerics.prover import Proof, Requantization
from delegate.lower.numerics.tflite import in_common_units, quantize_multiplier, scaled
from delegate.model.cached import cached_property

INT8_VALUES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)
# TensorFlow Lite adds with so many bits more than the operands have.
_SUM_BITS = 20


@dataclass(frozen=True, eq=False)
class SumTarget:
    """The specification of TensorFlow Lite's ADD or SUB of two int8 operands: with 20 more bits,
    one rounded multiplier per operand and one for the sum. ``scales`` and ``zero_points`` of first,
    second, result; ``signs`` with which the operands count.
    """

    scales: tuple[float, float, float]
    zero_points: tuple[int, int, int]
    outputs: tuple[int, int]
    signs: tuple[int, int] = (1, 1)

    @property
    def seconds(self) -> Int64Array:
        """The values of the second operand."""
        return INT8_VALUES

    @cached_property
    def results(self) -> Int64Array:
        """[first, second]: of all 65,536 pairs, before the zero point and clamps."""
        operands = self.scales[:2], self.zero_points[:2]
        twice, first, second = in_common_units(INT8_VALUES, *operands, _SUM_BITS)
        output = quantize_multiplier(twice / ((1 << _SUM_BITS) * self.scales[2]))
        total = self.signs[0] * first[:, np.newaxis] + self.signs[1] * second
        return scaled(total, *output)

    @property
    def wanted(self) -> Int64Array:
        """[first, second]: the int8 results."""
        return np.asarray(np.clip(self.results + self.zero_points[2], *self.outputs))


@dataclass(frozen=True, eq=False)
class ProductTarget:
    """The specification of TensorFlow Lite's MUL of two int8 operands. ``q`` and ``exponent``: its
    multiplier; ``zero_points`` of first, second, result; ``outputs``: least and largest result.
    ``slopes``: of PRELU, whose first operand counts where it is negative only, the values that the
    second one has; None: any.
    """

    q: int
    exponent: int
    zero_points: tuple[int, int, int]
    outputs: tuple[int, int]
    slopes: tuple[int, ...] | None = None

    @property
    def seconds(self) -> Int64Array:
        """The values of the second operand."""
        return INT8_VALUES if self.slopes is None else np.array(self.slopes, np.int64)

    @cached_property
    def factors(self) -> tuple[Int64Array, Int64Array]:
        """Return all values of first and second operands without zero points."""
        first, second = INT8_VALUES - self.zero_points[0], self.seconds - self.zero_points[1]
        return (first if self.slopes is None else np.minimum(first, 0)), second

    @cached_property
    def wanted(self) -> Int64Array:
        """[first, second]: the int8 results of all pairs."""
        products = scaled(np.multiply.outer(*self.factors), self.q, self.exponent)
        return np.asarray(np.clip(products + self.zero_points[2], *self.outputs))


def prove_pairs(pipeline: Pipeline, target: SumTarget | ProductTarget) -> Proof:
    """Compares ``pipeline``, with the second operand in EW, with ``target`` for every pair.
    ``wrong``: pairs with another result.
    """
    x, e = INT8_VALUES[:, np.newaxis].astype(np.float64), target.seconds.astype(np.float64)
    off = np.abs(pipeline.run(x, e) - target.wanted)
    worst, wrong = int(off.max()), int(np.count_nonzero(off))
    return Proof(pipeline.fits_int32(x, e), np.array([worst]), np.array([wrong]))


def prove_best(pipelines: Iterable[Pipeline], target: SumTarget | ProductTarget) -> Requantization:
    """Return the proof of the pipeline with the fewest other results."""
    found = (Requantization(pipeline, prove_pairs(pipeline, target)) for pipeline in pipelines)
    return min(found, key=lambda one: one.proof.rank)
