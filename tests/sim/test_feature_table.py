"""The table of docs/simulator.md is what the tests say, and the tests exist."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.loops import for_each
from tests.sim.feature_table import FEATURES, PAGE, page

TESTS = Path(__file__).parents[1]


def test_page_is_fresh():
    fresh = PAGE.read_text(encoding="utf-8") == page()
    assert fresh, "docs/simulator.md is stale: run python -m tests.sim.feature_table"


@for_each("feature", FEATURES)
def test_tests_of_a_feature_exist(feature):
    assert feature.tests
    for name in feature.tests:
        file, function = name.split("::")
        tree = ast.parse((TESTS / f"{file}.py").read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in names, name
