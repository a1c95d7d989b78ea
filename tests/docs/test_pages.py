"""Examples in Python on the pages: they are whole, and those that can run do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.shown_commands import PAGES

BLOCKS = [
    (page.name, text)
    for page in PAGES
    for text in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
]


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_an_example_is_whole(page: str, text: str) -> None:
    ast.parse(text, page)


def test_pages_for_export_have_examples() -> None:
    assert {"export_keras.md", "export_pytorch.md"} <= {page for page, _ in BLOCKS}


def test_the_model_of_the_keras_page_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorflow", reason="the page's example needs TensorFlow")
    (text,) = [text for page, text in BLOCKS if page == "export_keras.md"]
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "export_keras.md", "exec"), {})
    assert (tmp_path / "model_int8.tflite").stat().st_size > 1000
