"""Tolerances see what they are there for, and nothing fails by chance."""

import math

import pytest

from rk3588_conformance import tolerance
from rk3588_conformance.comparison import Comparison, OpTally
from rk3588_conformance.tolerance import most_differing
from tests.loops import for_each

ELEMENTS = 8000
# A layer of so many elements whose multiplier is off by one, see the module.
WRONG_MULTIPLIER = 2e-3 * ELEMENTS


@for_each("elements", [0, 1, 100_000_000])
def test_what_is_proven_equal_has_no_element_that_differs(elements):
    assert most_differing(tolerance.NONE, elements) == 0


@pytest.mark.parametrize("share", [tolerance.LARGE_SUMS, tolerance.SUM_ALONE, tolerance.SUM])
def test_a_multiplier_that_is_off_by_one_is_seen(share):
    assert most_differing(share, ELEMENTS) < WRONG_MULTIPLIER


@for_each("mean", [1e-4, 0.03, 0.5, 3.0, 40.0])
def test_more_than_the_most_is_as_rare_as_said(mean):
    most = most_differing(mean / ELEMENTS, ELEMENTS)

    def beyond(count: int) -> float:
        terms = range(count + 1, count + 400)
        return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in terms)

    assert beyond(most) <= 1e-7 < beyond(most - 1)


@pytest.mark.parametrize(
    ("op", "off", "breaks"), [("SOFTMAX", 1, 0), ("SOFTMAX", 2, 1), ("ADD", 1, 2)]
)
def test_rows_of_equal_values_may_be_a_step_off_together(op: str, off: int, breaks: int) -> None:
    """SOFTMAX has no share of equal elements, but the same distance as all others."""
    comparison = Comparison(ops=[OpTally(elements=111, equal=0, max_abs_diff=off, node=3, op=op)])
    assert len(comparison.violations(tolerance.ONE_ROUNDING)) == breaks
