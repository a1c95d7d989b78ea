"""What the README says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from delegate.cli import COMMANDS
from delegate.ops import OPERATORS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_is_explained_and_nothing_else() -> None:
    rows = re.findall(r"^\| `([a-z-]+)[^`]*` \| [A-Z]", README, re.MULTILINE)
    assert rows == [*COMMANDS]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_operator_is_named_and_nothing_else() -> None:
    section = README.partition("## What it takes")[2].partition("What breaks a rule")[0]
    assert sorted(set(re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", section))) == sorted(OPERATORS)
