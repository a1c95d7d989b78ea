"""googletest's lines on stdout, and its JSON and XML reports, with what the suite knows of a case
as extra properties.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO
from xml.etree import ElementTree

from delegate.errors import UsageError
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
        by_status = {status: [o.name for o in outcomes if o.status is status] for status in Status}
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


_DEFAULT_NAME = "test_detail"
_NAME = "AllTests"


def parse_output(text: str) -> tuple[str, Path]:
    """Format and path of ``--gtest_output``: "json", "json:PATH", "xml:PATH", "json:DIRECTORY/".

    Raises UsageError for another format.
    """
    kind, _, where = text.partition(":")
    if kind not in ("json", "xml"):
        raise UsageError(f"--gtest_output={text}: must be json:PATH or xml:PATH")
    path = Path(where or f"{_DEFAULT_NAME}.{kind}")
    return kind, path / f"{_DEFAULT_NAME}.{kind}" if where.endswith("/") else path


def write_report(
    kind: str, path: Path, outcomes: list[Outcome], started: float, milliseconds: int
) -> None:
    """Writes the report of one run. ``started``: seconds since the epoch. Raises UsageError."""
    document = _document(outcomes, started, milliseconds)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "json":
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        else:
            path.write_bytes(_xml(document))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"


def _timestamp(started: float) -> str:
    return datetime.fromtimestamp(started, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counts(outcomes: list[Outcome], started: float, milliseconds: int) -> dict[str, Any]:
    return {
        "tests": len(outcomes),
        "failures": sum(outcome.status is Status.FAILED for outcome in outcomes),
        "disabled": 0,
        "errors": 0,
        "timestamp": _timestamp(started),
        "time": _seconds(milliseconds),
    }


def _document(outcomes: list[Outcome], started: float, milliseconds: int) -> dict[str, Any]:
    suites = []
    for suite, group in groupby(outcomes, lambda outcome: suite_of(outcome.name)):
        members = list(group)
        total = sum(outcome.milliseconds for outcome in members)
        suites.append(
            {
                "name": suite,
                **_counts(members, started, total),
                "testsuite": [_case(outcome, started) for outcome in members],
            }
        )
    return {**_counts(outcomes, started, milliseconds), "name": _NAME, "testsuites": suites}


def _case(outcome: Outcome, started: float) -> dict[str, Any]:
    suite = suite_of(outcome.name)
    result = "SKIPPED" if outcome.status is Status.SKIPPED else "COMPLETED"
    case: dict[str, Any] = {
        "name": outcome.name[len(suite) + 1 :],
        "status": "RUN",
        "result": result,
        "timestamp": _timestamp(started),
        "time": _seconds(outcome.milliseconds),
        "classname": suite,
        "oracle": outcome.oracle.value,
        "max_abs_diff": outcome.max_abs_diff,
        "equal": outcome.equal,
        "elements": outcome.elements,
        "delegated_nodes": outcome.delegated_nodes,
        "total_nodes": outcome.total_nodes,
        "submits": outcome.submits,
        "rules": ", ".join(outcome.rules),
    }
    if outcome.status is Status.FAILED:
        case["failures"] = [{"failure": outcome.message, "type": ""}]
    if outcome.status is Status.SKIPPED:
        case["skipped"] = [{"message": outcome.message}]
    return case


def _xml(document: dict[str, Any]) -> bytes:
    root = ElementTree.Element("testsuites", _attributes(document))
    for suite in document["testsuites"]:
        parent = ElementTree.SubElement(root, "testsuite", _attributes(suite))
        for case in suite["testsuite"]:
            child = ElementTree.SubElement(parent, "testcase", _attributes(case))
            for failure in case.get("failures", ()):
                text = _printable(failure["failure"])
                element = ElementTree.SubElement(child, "failure", message=text, type="")
                element.text = text
            for skip in case.get("skipped", ()):
                ElementTree.SubElement(child, "skipped", message=_printable(skip["message"]))
    ElementTree.indent(root)
    xml: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return xml + b"\n"


def _attributes(item: dict[str, Any]) -> dict[str, str]:
    """googletest's XML has seconds as bare numbers, and status and result in lower case."""
    attributes = {k: str(v) for k, v in item.items() if not isinstance(v, list)}
    attributes["time"] = attributes["time"].removesuffix("s")
    for key in ("status", "result"):
        if key in attributes:
            attributes[key] = attributes[key].lower()
    return attributes


def _printable(text: str) -> str:
    """Return the text without the control characters that XML cannot hold."""
    return "".join(c if c >= " " or c in "\n\t" else "?" for c in text)
