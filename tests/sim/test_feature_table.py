"""The tests that the table of docs/simulator.md names exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "simulator.md"
CERTAINTIES = ("silicon", "vendor", "documented", "assumed")


def test_every_feature_has_a_certainty_and_tests_that_exist():
    (table,) = re.findall(
        r"^\| Block \| Feature \|.*\n\|[- |]+\n((?:\|.*\n)+)", PAGE.read_text(), re.M
    )
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert len(rows) > 40
    for _, feature, certainty, tests in rows:
        assert any(word in certainty for word in CERTAINTIES), feature
        named = re.findall(r"`([\w/]+)::(\w+)`", tests)
        assert named, feature
        for file, function in named:
            tree = ast.parse((TESTS / f"{file}.py").read_text(encoding="utf-8"))
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert function in names, feature
