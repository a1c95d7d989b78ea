"""A loop in one test is as strict as a test of each case."""

import inspect
from pathlib import Path

import pytest

from tests.loops import for_each


def test_every_case_runs_and_fixtures_are_handed_on() -> None:
    seen = []

    @for_each("b", "xy")
    @for_each("a, c", [(1, 2), (3, 4)])
    def test(a: int, b: str, c: int, tmp_path: Path) -> None:
        seen.append((a, b, c, tmp_path))

    assert list(inspect.signature(test).parameters) == ["tmp_path"]
    place = Path("here")
    test(tmp_path=place)
    assert seen == [(a, b, c, place) for b in "xy" for a, c in ((1, 2), (3, 4))]


def test_a_failure_names_its_case() -> None:
    @for_each("number", range(5))
    def test_small(number: int) -> None:
        assert number < 3, "too large"

    with pytest.raises(AssertionError, match=r"test_small fails at number=3: too large"):
        test_small()


def test_cases_that_are_skipped_do_not_hide_the_others() -> None:
    seen = []

    @for_each("number", range(4))
    def test(number: int, least: int) -> None:
        if number < least:
            pytest.skip("too small")
        seen.append(number)

    test(least=2)
    assert seen == [2, 3]
    with pytest.raises(pytest.skip.Exception, match="too small"):
        test(least=4)


def test_no_cases_are_skipped_and_wrong_names_are_errors() -> None:
    with pytest.raises(pytest.skip.Exception, match="no seed here"):
        for_each("seed", [])(lambda seed: None)()
    with pytest.raises(AssertionError, match="no parameter"):
        for_each("other", [1])(lambda seed: None)
