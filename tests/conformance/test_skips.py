"""The list of accepted skips: unlisted, stale and malformed entries are failures."""

import pytest

from delegate.chip import NAMES
from delegate.errors import UsageError
from delegate.lower.rules import RULES as LOWERING_RULES
from delegate.ops import OPERATORS
from delegate.partition.rules import RULES as PARTITION_RULES
from rk3588_conformance.families import case_names
from rk3588_conformance.outcome import Outcome, Status
from rk3588_conformance.skips import (
    CHIP_SKIPS,
    OF_EXACT,
    RUNTIME_REFUSES,
    Skip,
    judge,
    known_skips,
    read_skips,
)

SKIPS = (Skip("A.*", "too_big", "reason"), Skip("A.x/1", "too_odd", "reason"))


def outcome(status: Status, *rules: str, name: str = "A.x/2") -> Outcome:
    return Outcome(name, "A", status, "message", rules)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (outcome(Status.SKIPPED, "too_big"), Status.SKIPPED),
        (outcome(Status.SKIPPED, "too_odd"), Status.FAILED),
        (outcome(Status.SKIPPED, "too_odd", "too_big", name="A.x/1"), Status.SKIPPED),
        (outcome(Status.SKIPPED, "too_odd", "too_big"), Status.FAILED),
        (outcome(Status.SKIPPED, "too_big", name="B.x/1"), Status.FAILED),
        (outcome(Status.OK), Status.FAILED),
        (outcome(Status.OK, name="B.x/1"), Status.OK),
        (outcome(Status.FAILED), Status.FAILED),
    ],
)
def test_a_skip_needs_an_entry_and_an_entry_a_skip(given, status):
    assert judge(given, SKIPS).status is status


def test_every_entry_of_the_list_concerns_a_case():
    skips = [skip for skip in read_skips() if not skip.pattern.startswith("Models.")]
    names = list(case_names(None))
    assert [s.pattern for s in skips if not any(s.concerns(name) for name in names)] == []


@pytest.mark.parametrize("line", ["A.*", "A.* | rule", "A.* | | reason", "a | b | c | d"])
def test_a_malformed_line_is_named(line, tmp_path):
    path = tmp_path / "skips.txt"
    path.write_text(f"# comment\n\n{line}\n")
    with pytest.raises(UsageError, match="line 3"):
        read_skips(path)


def test_what_a_chip_rejects_is_a_skip_of_that_chip_only():
    known = known_skips("rk3576", "exact")
    given = outcome(Status.SKIPPED, "form_is_known", name="B.x/1")
    assert judge(given, SKIPS).status is Status.FAILED
    assert judge(given, SKIPS, known).status is Status.SKIPPED
    unknown = outcome(Status.SKIPPED, "form_is_known", "too_long", name="B.x/1")
    assert judge(unknown, SKIPS, known).status is Status.FAILED
    assert judge(outcome(Status.FAILED, name="B.x/1"), SKIPS, known).status is Status.FAILED


def test_what_exact_alone_rejects_is_a_skip_of_any_case():
    given = outcome(Status.SKIPPED, "equal_if_exact", name="B.x/1")
    assert judge(given, SKIPS).status is Status.SKIPPED


def test_the_rules_of_chips_exist():
    known = {rule.name for rule in (*PARTITION_RULES, *LOWERING_RULES)} | {RUNTIME_REFUSES}
    known |= {rule.name for operator in OPERATORS.values() for rule in operator.rules}
    assert set(OF_EXACT) <= known
    for chip, rules in CHIP_SKIPS.items():
        assert chip in NAMES
        assert set(rules) <= known
