"""The README's examples in Python run: its blocks, and the calls in its text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import delegate
from tests.docs.shown_commands import ROOT, furnish

pytest.importorskip("PIL")
pytest.importorskip("tflite_runtime", reason="the README's example imports it")
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
CALLS = re.findall(r"`(delegate\.\w+\([^`]*\))`", README)


@pytest.mark.parametrize("text", [*BLOCKS, *CALLS], ids=lambda text: text.splitlines()[-1][:40])
def test_an_example_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "README.md", "exec"), {"delegate": delegate})


def test_there_are_examples_of_both_kinds() -> None:
    assert len(BLOCKS) >= 2
    assert {call.partition("(")[0] for call in CALLS} >= {
        "delegate.detect", "delegate.load_delegate", "delegate.compile_model"
    }  # fmt: skip
