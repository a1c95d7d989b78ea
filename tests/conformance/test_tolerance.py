"""Tolerances see what they are there for, and nothing fails by chance."""

import math

import pytest

from delegate.ops.shared import functions
from delegate.options import Options
from rk3588_conformance import tolerance
from rk3588_conformance.comparison import Comparison, OpTally
from rk3588_conformance.execution import run_case
from rk3588_conformance.generated import judge
from rk3588_conformance.outcome import Outcome, Status
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


ENDS = "EdgeMoves.Ends/move_{}_shape_1x3x17x80_type_uint8_task_{}_behind_logistic"
STEEP = ENDS.format("channels_first", "conv")
"""A convolution, whose steps the function behind it doubles."""


def outcome_of(name: str) -> Outcome:
    chosen = {"device": "simulator", "chip": "rk3576", "deny_ops": ""}
    return run_case(name, None, Options.from_mapping(chosen, {}))


def spoil_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one value of functions give a step more."""
    made = functions.float_table
    monkeypatch.setattr(functions, "float_table", lambda x, *n: made(x, *n) + (x == 130))


def test_a_function_doubles_a_step_but_no_wrong_entry_of_it_passes(monkeypatch):
    outcome = outcome_of(STEEP)
    assert (outcome.status, outcome.max_abs_diff) == (Status.OK, 2)
    with monkeypatch.context() as patch:
        patch.setattr(judge, "judge_model", lambda *_, **__: {})
        assert "other layers are computed" in outcome_of(STEEP).message
    spoil_a_function(monkeypatch)
    outcome = outcome_of(STEEP)
    assert outcome.status is Status.FAILED
    assert "(LOGISTIC) is off by 1.0, more than 0" in outcome.message


def test_functions_alone_have_no_share_of_the_chip(monkeypatch):
    name = ENDS.format("anchors", "values")
    assert outcome_of(name).status is Status.OK
    spoil_a_function(monkeypatch)
    outcome = outcome_of(name)
    assert outcome.status is Status.FAILED
    assert "elements differ; at most 0 may" in outcome.message
