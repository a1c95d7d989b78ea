"""What the README says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from delegate.cli import COMMANDS
from delegate.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def options_table() -> str:
    """The table of options as the README has it."""
    rows = ["| key | values in this version | default | meaning |", "| --- | --- | --- | --- |"]
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else "none"
        rows.append(f"| `{option.key}` | {option.offered} | {default} | {option.help} |")
    return "\n".join(rows)


def test_options_table_is_the_table_of_options() -> None:
    assert options_table() in README, f"README.md needs:\n{options_table()}"


def test_every_command_is_explained_and_nothing_else() -> None:
    rows = re.findall(r"^\| `([a-z-]+)[^`]*` \| [A-Z]", README, re.MULTILINE)
    assert rows == [command.name for command in COMMANDS]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
