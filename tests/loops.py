"""Many cases in one test: cheap to collect, and a failure names its case."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Values = Iterable[Any] | Callable[[], Iterable[Any]]
"""Or what makes them once the test runs, where that takes time."""


def for_each(names: str, values: Values) -> Callable[[Callable[..., None]], Any]:
    """Call the test with every value in turn, where ``pytest.mark.parametrize`` makes many tests.

    For cases that have numbers and no names, and none of which takes long. Several names are
    separated by commas; each value is a tuple then. Fixtures are those of the one test: what a case
    leaves in them the next one finds. The test is skipped where every case is, or there is none.
    """
    wanted = tuple(name.strip() for name in names.split(","))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            given_values = list(values() if callable(values) else values)
            if not given_values:
                pytest.skip(f"no {names} here")
            skips = []
            for value in given_values:
                given = dict(zip(wanted, value if len(wanted) > 1 else (value,), strict=True))
                try:
                    test(**fixtures, **given)
                except pytest.skip.Exception as skip:
                    skips.append(skip)
                except Exception as error:
                    told = ", ".join(f"{name}={value!r}" for name, value in given.items())
                    raise AssertionError(f"{test.__name__} fails at {told}: {error}") from error
            if len(skips) == len(given_values):
                raise skips[0]

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name not in wanted]
        assert len(kept) == len(signature.parameters) - len(wanted), f"no parameter of {names}"
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
