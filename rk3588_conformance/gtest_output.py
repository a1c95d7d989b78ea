"""googletest's lines on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TextIO

from rk3588_conformance.gtest_filter import Shard, suite_of
from rk3588_conformance.outcome import Outcome, Status


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_list(names: Iterator[str], stream: TextIO) -> None:
    """Print what --gtest_list_tests asks for: suites, and their tests indented."""
    for suite, tests in groupby(names, suite_of):
        print(f"{suite}.", file=stream)
        for name in tests:
            print(f"  {name[len(suite) + 1 :]}", file=stream)


@dataclass(slots=True)
class Console:
    """Prints the progress of one iteration. ``finish`` needs all outcomes."""

    stream: TextIO
    brief: bool = False
    _suite: str | None = None
    _suite_milliseconds: int = 0
    _sizes: dict[str, int] = field(default_factory=dict)

    def start(self, names: list[str], filter_text: str, shard: Shard, seed: int | None) -> None:
        """The header. ``seed``: of the shuffle, if any."""
        if filter_text not in ("", "*"):
            self._print(f"Note: Google Test filter = {filter_text}")
        if shard.total > 1:
            self._print(f"Note: This is test shard {shard.index + 1} of {shard.total}.")
        if seed is not None:
            self._print(f"Note: Randomizing tests' orders with a seed of {seed} .")
        for name in names:
            self._sizes[suite_of(name)] = self._sizes.get(suite_of(name), 0) + 1
        self._print(f"[==========] Running {self._totals(len(names))}.")
        self._print("[----------] Global test environment set-up.")

    def case(self, outcome: Outcome) -> None:
        """One finished case."""
        suite = suite_of(outcome.name)
        if suite != self._suite:
            self._end_suite()
            self._suite, self._suite_milliseconds = suite, 0
            self._print(f"[----------] {_counted(self._sizes[suite], 'test')} from {suite}")
        self._suite_milliseconds += outcome.milliseconds
        if self.brief and outcome.status is Status.OK:
            return
        self._print(f"[ RUN      ] {outcome.name}")
        if outcome.message:
            self._print(outcome.message)
        self._print(f"{_TAGS[outcome.status]} {outcome.name} ({outcome.milliseconds} ms)")

    def finish(self, outcomes: list[Outcome], milliseconds: int) -> None:
        """The end of the last suite and the summary. ``milliseconds``: wall clock."""
        self._end_suite()
        self._print("[----------] Global test environment tear-down")
        self._print(f"[==========] {self._totals(len(outcomes))} ran. ({milliseconds} ms total)")
        by_status = {
            status: [o.name for o in outcomes if o.status is status] for status in Status
        }  # fmt: skip
        self._print(f"[  PASSED  ] {_counted(len(by_status[Status.OK]), 'test')}.")
        for status in (Status.SKIPPED, Status.FAILED):
            names = by_status[status]
            if names:
                self._print(f"{_TAGS[status]} {_counted(len(names), 'test')}, listed below:")
                for name in names:
                    self._print(f"{_TAGS[status]} {name}")
        failed = len(by_status[Status.FAILED])
        if failed:
            self._print(f"\n{failed:2d} FAILED {'TEST' if failed == 1 else 'TESTS'}")

    def _end_suite(self) -> None:
        if self._suite is not None:
            size = _counted(self._sizes[self._suite], "test")
            line = f"{size} from {self._suite} ({self._suite_milliseconds} ms total)"
            self._print(f"[----------] {line}\n")
        self._suite = None

    def _totals(self, count: int) -> str:
        return f"{_counted(count, 'test')} from {_counted(len(self._sizes), 'test suite')}"

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


_TAGS = {Status.OK: "[       OK ]", Status.FAILED: "[  FAILED  ]", Status.SKIPPED: "[  SKIPPED ]"}
