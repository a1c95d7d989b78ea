"""The committed page of supported operators is the one that the rules print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from delegate.ops import OPERATORS
from delegate.partition.documentation import (
    PAGE_PATH,
    common_rules,
    sentence_of,
    supported_operators_page,
)

ROOT = Path(__file__).resolve().parents[2]


def test_page_is_up_to_date() -> None:
    committed = (ROOT / PAGE_PATH).read_text(encoding="utf-8")
    assert committed == supported_operators_page(), (
        "docs/supported_operators.md is stale: run python -m delegate.partition.documentation"
    )


def test_page_has_every_rule_of_every_operator() -> None:
    page = supported_operators_page()
    common = page.split("## All operators")[1].split("\n## ")[0]
    for op, operator in OPERATORS.items():
        section = page.split(f"## `{op}`")[1].split("\n## ")[0]
        for rule in operator.rules:
            assert f"`{rule.name}`" in (common if rule in common_rules() else section)


def test_sentences_are_sentences() -> None:
    for operator in OPERATORS.values():
        names = [rule.name for rule in operator.rules]
        assert len(set(names)) == len(names)
        for rule in operator.rules:
            assert "{" not in sentence_of(rule)
            assert not sentence_of(rule).endswith(".")
            assert len(sentence_of(rule)) < 130


def test_the_module_writes_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "delegate.partition.documentation", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=120)
    written = (tmp_path / PAGE_PATH).read_text(encoding="utf-8")
    assert written == supported_operators_page()
