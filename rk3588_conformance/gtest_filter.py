"""googletest's selection of tests: patterns, shards, order.

A filter is "positive patterns[-negative patterns]", patterns separated by ":"; "*" stands for any
text, "?" for one character. A name is selected if it matches a positive pattern (all do if there is
none) and no negative one.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from delegate.errors import UsageError

# googletest's own range of seeds; 0 takes one from the clock.
MAX_RANDOM_SEED = 99999


def pattern_expression(pattern: str) -> str:
    """A regular expression for one pattern."""
    return "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed ``--gtest_filter``."""

    text: str
    positive: re.Pattern[str]
    negative: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Never fails: every text is a filter."""
        positive, _, negative = text.partition("-")
        return cls(text, _any_of(positive or "*"), _any_of(negative))

    def selects(self, name: str) -> bool:
        """Return whether the test ``name`` ("Suite.Test/parameter") runs."""
        return bool(self.positive.fullmatch(name)) and not self.negative.fullmatch(name)


def _any_of(patterns: str) -> re.Pattern[str]:
    parts = [pattern_expression(pattern) for pattern in patterns.split(":") if pattern]
    return re.compile("|".join(parts) if parts else r"(?!)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shard:
    """This process's share of the selected tests: every ``total``-th from ``index`` on."""

    index: int = 0
    total: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Shard:
        """GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX. Touches GTEST_SHARD_STATUS_FILE, by which a
        runner learns that sharding is understood.

        Raises UsageError for values that make no sense.
        """
        status_file = environment.get("GTEST_SHARD_STATUS_FILE")
        if status_file:
            Path(status_file).touch()
        texts = environment.get("GTEST_SHARD_INDEX"), environment.get("GTEST_TOTAL_SHARDS")
        if texts == (None, None):
            return cls()
        try:
            index, total = int(texts[0] or ""), int(texts[1] or "")
        except ValueError:
            index, total = -1, 0
        if not 0 <= index < total:
            raise UsageError(
                f"GTEST_SHARD_INDEX={texts[0]} and GTEST_TOTAL_SHARDS={texts[1]} must be numbers "
                "with 0 <= index < total"
            )
        return cls(index, total)

    def takes(self, names: Iterable[str]) -> Iterator[str]:
        """The share of ``names``."""
        return (name for i, name in enumerate(names) if i % self.total == self.index)


def shuffled(names: list[str], seed: int) -> list[str]:
    """Suites in random order, and the tests inside each."""
    generator = random.Random(seed)
    suites: dict[str, list[str]] = {}
    for name in names:
        suites.setdefault(suite_of(name), []).append(name)
    order = list(suites)
    generator.shuffle(order)
    for suite in order:
        generator.shuffle(suites[suite])
    return [name for suite in order for name in suites[suite]]


def suite_of(name: str) -> str:
    """ "Conv2D" of "Conv2D.Op/..."."""
    return name.partition(".")[0]


def sampled(names: list[str], count: int, seed: int) -> list[str]:
    """About ``count`` of ``names`` in their order: one of every "Suite.Test" at least."""
    generator = random.Random(seed)
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(name.partition("/")[0], []).append(i)
    chosen = {generator.choice(group) for group in groups.values()}
    rest = [i for i in range(len(names)) if i not in chosen]
    generator.shuffle(rest)
    chosen.update(rest[: max(count - len(chosen), 0)])
    return [names[i] for i in sorted(chosen)]
