"""Families whose names spell out a product of values: "input_size_3_stride_2_...".

In: axes and a function from their values to a case. Out: names, and cases by name. Names are
enumerated as gtest's Combine does when the name starts with the last parameter: the first axis
runs fastest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from rk3588_conformance.case import Case

Value = int | str
Axes = Mapping[str, Sequence[int] | Sequence[str]]


def always(**_: Value) -> bool:
    """Leaves no combination out."""
    return True


@dataclass(frozen=True, slots=True)
class Grid:
    """``make(name, **values)`` builds the case; ``is_in(**values)`` leaves combinations out.

    Values are integers (non-negative) or words of letters, digits and underscores.
    """

    prefix: str
    axes: Axes
    make: Callable[..., Case]
    is_in: Callable[..., bool] = always
    _pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = (
            f"{axis}_({'|'.join(str(value) for value in values)})"
            for axis, values in self.axes.items()
        )
        object.__setattr__(self, "_pattern", re.compile("_".join(parts)))

    def parameters(self) -> Iterator[str]:
        names = tuple(self.axes)
        for values in product(*reversed(list(self.axes.values()))):
            combination = dict(zip(names, reversed(values), strict=True))
            if self.is_in(**combination):
                yield "_".join(f"{axis}_{value}" for axis, value in combination.items())

    def case(self, parameter: str) -> Case:
        match = self._pattern.fullmatch(parameter)
        if match is None:
            raise KeyError(parameter)
        values: dict[str, Value] = {}
        for (axis, choices), text in zip(self.axes.items(), match.groups(), strict=True):
            values[axis] = next(choice for choice in choices if str(choice) == text)
        if not self.is_in(**values):
            raise KeyError(parameter)
        return self.make(self.prefix + parameter, **values)


def grid(
    prefix: str, *, is_in: Callable[..., bool] = always, **axes: Sequence[int] | Sequence[str]
) -> Callable[[Callable[..., Case]], Grid]:
    """Makes a ``Grid`` of the function below it, which builds its cases."""
    return lambda make: Grid(prefix, axes, make, is_in)


@dataclass(frozen=True, slots=True)
class Numbered:
    """Cases 0 to ``count`` - 1; ``make(name, index)`` builds one."""

    prefix: str
    count: int
    make: Callable[[str, int], Case]

    def parameters(self) -> Iterator[str]:
        return (str(index) for index in range(self.count))

    def case(self, parameter: str) -> Case:
        if not parameter.isdecimal() or not 0 <= int(parameter) < self.count:
            raise KeyError(parameter)
        return self.make(self.prefix + parameter, int(parameter))


@dataclass(frozen=True, slots=True)
class Named:
    """Cases with names of their own; ``cases`` maps each to ``make(full name)``."""

    prefix: str
    cases: Mapping[str, Callable[[str], Case]]

    def parameters(self) -> Iterator[str]:
        return iter(self.cases)

    def case(self, parameter: str) -> Case:
        return self.cases[parameter](self.prefix + parameter)
