"""The page of supported operators has every rule, as a sentence."""

from __future__ import annotations

from delegate.ops import OPERATORS
from tools.generate.operators import common_rules, page, sentence_of


def test_page_has_every_rule_of_every_operator() -> None:
    text = page()
    common = text.split("## All operators")[1].split("\n## ")[0]
    for op, operator in OPERATORS.items():
        section = text.split(f"## `{op}`")[1].split("\n## ")[0]
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
